package conformance_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store/storetest"
)

// With one request in the only slot and one in the queue, the server sheds the next one
// at once, of whatever kind, and the request consumes nothing.
func TestOP07_WhatIsTooMuchIsTurnedAwayAtOnceAndCostsNothing(t *testing.T) {
	d := start(t, func(o *options) { o.front, o.Capacity = true, overload.Capacity{Requests: 1, Waiting: 1} })
	pair, _ := d.tokens(d.a)
	code := d.code(d.a).Code
	begun, release := make(chan struct{}, 8), make(chan struct{})
	d.faulty.Before(func(storetest.Method, grant.Grant) error {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-release
		return nil
	})
	send := func(r *request) net.Conn {
		conn := d.dial(local())
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(conn, r.text())
		return conn
	}
	working := send(newRequest(d.a.refresh(pair.RefreshToken)))
	defer working.Close()
	<-begun
	// Clients that send slowly hold no slot and no place in the queue.
	slow := newRequest(d.a.refresh(pair.RefreshToken)).text()
	for range 5 {
		conn := d.dial(local())
		defer conn.Close()
		io.WriteString(conn, slow[:len(slow)-1])
	}
	var late chan answer // receives the queued request's response
	wait := func() {
		late = make(chan answer, 1)
		waiting := send(newRequest(d.a.redeem(code)))
		go func(late chan<- answer) {
			defer waiting.Close()
			a, err := readAnswer(bufio.NewReader(waiting), "POST")
			if err != nil {
				t.Error(err)
			}
			late <- a
		}(late)
	}
	wait()
	eventually(t, "one request waits", func() bool {
		if len(late) == 1 { // on a busy machine the queued request may already be gone after half a second
			<-late
			wait()
		}
		_, n := d.server.Queue.Load()
		return n == 1
	})
	began := time.Now()
	seen := map[string]bool{}
	for range 8 {
		for _, r := range []*request{newRequest(d.a.redeem(code)), newRequest(d.a.refresh(pair.RefreshToken)), d.a.about(introspectPath, pair.AccessToken), d.a.about(revokePath, pair.AccessToken)} {
			a := d.send(r)
			if a.status != 503 || a.body != errorBody("temporarily_unavailable", "try again later") {
				t.Fatalf("%s: %v", r.target, a)
			}
			after := a.header["Retry-After"]
			if len(after) != 1 {
				t.Fatalf("Retry-After %q", after)
			}
			if n, err := strconv.Atoi(after[0]); err != nil || n < 1 || n > 8 {
				t.Errorf("Retry-After %q", after)
			}
			seen[after[0]] = true
			compareHeader(t, a, "Retry-After: "+after[0])
		}
		if len(seen) > 1 && time.Since(began) > 300*time.Millisecond {
			break // the queued request is about to time out
		}
	}
	if len(seen) < 2 {
		t.Errorf("every Retry-After is %v", seen)
	}
	// A request that has waited half a second without a slot is shed.
	if a := <-late; a.status != 503 {
		t.Errorf("the one that waited: %v", a)
	}
	// Requests that need no slot are served meanwhile.
	r := newRequest(nil)
	r.method, r.target = "GET", "/oauth2/jwks"
	if a := d.send(r); a.status != 200 {
		t.Errorf("the keys: %v", a)
	}
	close(release)
	a, err := readAnswer(bufio.NewReader(working), "POST")
	if err != nil || a.status != 200 {
		t.Errorf("the one that was worked on: %v, %v", a, err)
	}
	d.faulty.Heal()
	d.mustIssue(d.post(d.a.redeem(code)))
	d.alive(d.a, a.RefreshToken)
	if n := strings.Count(d.log.String(), `"msg":"overloaded: shedding requests with 503"`); n != 1 {
		t.Errorf("the log says %d times that the node is overloaded", n)
	}
	if strings.Contains(d.log.String(), `"level":"ERROR"`) {
		t.Error("an overload is logged as a fault")
	}
}

// A request releases its slot however it ends.
func TestOP07_EveryRequestGivesItsPlaceBack(t *testing.T) {
	d := start(t, func(o *options) { o.front, o.Capacity = true, overload.Capacity{Requests: 1, Waiting: 1} })
	pair, _ := d.tokens(d.a)
	get := func(target string, lines ...string) *request {
		r := newRequest(nil)
		r.method, r.target = "GET", target
		r.header = append(r.header, lines...)
		return r
	}
	bearer := "Authorization: Bearer " + pair.AccessToken
	for range 3 {
		for _, r := range []*request{
			newRequest(d.a.refresh("x")), newRequest(with(d.a.refresh("x"), "client_secret", "x")), newRequest(d.a.redeem("x")),
			d.a.about(introspectPath, pair.AccessToken), d.b.about(revokePath, pair.AccessToken),
			get("/oauth2/tokeninfo", bearer+"x"), get("/oauth2/verify", bearer), get("/oauth2/verify", "Authorization: Bearer x"),
			get("/oauth2/authorize?response_type=code&client_id=" + d.a.ID), get("/oauth2/authorize"), get("/oauth2/interaction?id=x"),
			get("/account/connections"), get("/account/logout"),
		} {
			if a := d.send(r); a.status == http.StatusServiceUnavailable {
				t.Fatalf("%s %s: %v", r.method, r.target, a)
			}
		}
		d.faulty.Before(panicking("a bug"))
		if a := d.send(newRequest(d.a.refresh(pair.RefreshToken))); a.status != http.StatusInternalServerError {
			t.Fatalf("a panic is answered %v", a)
		}
		d.faulty.Heal()
	}
	if working, waiting := d.server.Queue.Load(); working != 0 || waiting != 0 {
		t.Errorf("at the end, %d requests are worked on and %d wait", working, waiting)
	}
}
