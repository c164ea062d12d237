package bench

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestResponsesAreReadAsHTTPSays(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       response
		body       string
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", response{status: 200, json: true}, "{}"},
		{"names without case", "HTTP/1.1 400 Bad Request\r\ncontent-LENGTH:2\r\ncontent-type:APPLICATION/json ; charset=utf-8\r\n\r\n{}", response{status: 400, json: true}, "{}"},
		{"another media type", "HTTP/1.1 200 OK\r\nContent-Type: application/jsonp\r\nContent-Length: 0\r\n\r\n", response{status: 200}, ""},
		{"no media type", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", response{status: 200}, "abc"},
		{"no reason", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", response{status: 503}, ""},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", response{status: 200, close: true}, "x"},
		{"HTTP/1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", response{status: 200, close: true}, "x"},
		{"HTTP/1.0 kept alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", response{status: 200}, "x"},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", response{status: 200}, "abc0123456789"},
		{"chunks over a length", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", response{status: 200}, "ab"},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", response{status: 204}, ""},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", response{status: 200}, "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Two responses on one connection, read byte by byte.
			in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(tt.text + tt.text)))
			var r response
			for range 2 {
				if err := r.read(in); err != nil {
					t.Fatal(err)
				}
				if r.status != tt.want.status || r.json != tt.want.json || r.close != tt.want.close || string(r.body) != tt.body {
					t.Errorf("got %+v with body %q, want %+v with %q", r, r.body, tt.want, tt.body)
				}
			}
			if err := r.read(in); !errors.Is(err, io.EOF) {
				t.Errorf("after the last response: %v, want the end", err)
			}
		})
	}
}

func TestMalformedResponsesAreErrors(t *testing.T) {
	for name, text := range map[string]string{
		"not HTTP":               "SSH-2.0-x\r\n\r\n",
		"no status":              "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
		"a status of two digits": "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"a header without colon": "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n",
		"a negative length":      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"a length of letters":    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"a huge length":          "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
		"no length":              "HTTP/1.1 200 OK\r\n\r\nabc",
		"a short body":           "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
		"cut within the headers": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n",
		"a chunk of no size":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n\r\n",
		"a chunk that is longer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
		"a chunk that is huge":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
		"no last chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
		"a header without end":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 8192) + "\r\n\r\n",
	} {
		var r response
		if err := r.read(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%s: read without error as %+v", name, r)
		} else if errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, as if nothing had been cut off", name, err)
		}
	}
}

func TestReadingAnAnswerAllocatesNothing(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 96\r\n\r\n" +
		`{"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"rrrr","access_token":"a"}`
	source := strings.NewReader(text)
	in := bufio.NewReader(source)
	var r response
	var a answer
	allocs := testing.AllocsPerRun(100, func() {
		source.Reset(text)
		in.Reset(source)
		if err := r.read(in); err != nil {
			t.Error(err)
		}
		if err := a.parse(r.body); err != nil {
			t.Error(err)
		}
		if err := a.check(&r, []byte("sent"), 300); err != nil {
			t.Error(err)
		}
	})
	if allocs > 1 { // AllocsPerRun also counts allocations of other goroutines
		t.Errorf("%v allocations for each answer", allocs)
	}
}
