package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/resource"
)

// holding lets requests through as alice, with the given scopes.
func holding(have ...string) func(...string) func(http.Handler) http.Handler {
	return func(scopes ...string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, s := range scopes {
					if !slices.Contains(have, s) {
						w.WriteHeader(http.StatusForbidden)
						return
					}
				}
				next.ServeHTTP(w, r.WithContext(resource.NewContext(r.Context(), resource.Principal{Subject: "alice"})))
			})
		}
	}
}

func ask(h http.Handler, method, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/invoices", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// protect-an-api.md shows the code of this program.
func TestTheTutorialShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorials/protect-an-api.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, shown := strings.Cut(string(page), "```go\n")
	block, _, closed := strings.Cut(block, "```")
	if !shown || !closed || strings.Contains(block, "```go") {
		t.Fatal("the tutorial has no block of Go")
	}
	for line := range strings.Lines(block) {
		if !strings.Contains(string(program), "\t"+line) {
			t.Errorf("main.go does not have %s", line)
		}
	}
}

func TestARefusalNamesTheMetadata(t *testing.T) {
	verifier, err := resource.New(resource.Config{Issuer: "https://auth.example.com/oauth2/api", Audience: "http://127.0.0.1:8096", PublishMetadata: true})
	if err != nil {
		t.Fatal(err)
	}
	defer verifier.Close()
	api := protect(verifier)
	const address = "http://127.0.0.1:8096/.well-known/oauth-protected-resource"
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", "/invoices", nil))
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || !strings.HasSuffix(got, `, resource_metadata="`+address+`"`) {
		t.Errorf("without a token: %d %s", w.Code, got)
	}
	w = httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", address, nil))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `"resource":"http://127.0.0.1:8096","authorization_servers":["https://auth.example.com/oauth2/api"]`) {
		t.Errorf("the metadata: %d %s", w.Code, body)
	}
}

func TestReadingTakesReadAndAddingTakesWrite(t *testing.T) {
	api := newAPI(holding("read", "write"))
	if status, _ := ask(api, "POST", "Ten pencils\n"); status != http.StatusCreated {
		t.Errorf("adding: %d", status)
	}
	if status, body := ask(api, "GET", ""); status != http.StatusOK || body != "1 invoices, shown to alice\nTen pencils, by alice\n" {
		t.Errorf("reading: %d %q", status, body)
	}
	if status, _ := ask(api, "POST", strings.Repeat("x", 1001)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long invoice: %d", status)
	}
	if status, _ := ask(newAPI(holding("read")), "POST", "x"); status != http.StatusForbidden {
		t.Errorf("adding with read alone: %d", status)
	}
	if status, _ := ask(newAPI(holding()), "GET", ""); status != http.StatusForbidden {
		t.Errorf("reading with no scope: %d", status)
	}
}
