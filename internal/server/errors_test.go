package server

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

func TestTheBearerSchemeIsKnownInAnyCaseAndByItselfAlone(t *testing.T) {
	for header, want := range map[string]bool{
		"Bearer x": true, "bearer x": true, "BEARER x": true, "Bearer": true, "Bearer ": true,
		"": false, " Bearer x": false, "Bearerx": false, "Bearer\tx": false, "Basic Bearer": false, "x Bearer": false,
	} {
		if got := isBearer(header); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}

func TestAChallengeTellsWhatIsMissing(t *testing.T) {
	s := &Server{Options: Options{Site: Site{Realm: "/api"}}}
	for _, c := range []struct {
		wire  *oauth.Error
		scope oauth.Scope
		want  string
	}{
		{oauth.ErrNoBearer, "", `Bearer realm="/api"`},
		{oauth.ErrInvalidToken, "", `Bearer realm="/api", error="invalid_token", error_description="token is invalid"`},
		{oauth.ErrBearer, "", `Bearer realm="/api", error="invalid_request", error_description="malformed bearer token"`},
		{oauth.ErrInsufficientScope, "a b", `Bearer realm="/api", error="insufficient_scope", error_description="token lacks a scope", scope="a b"`},
	} {
		if got := s.challenge(&Request{}, c.wire, &MissingScope{c.scope}); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A client that waits as long as Retry-After says is served: the value is never less than
// the wait. Clients that were shed together return spread over time.
func TestRetryAfterIsRoundedUpAndSpread(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Nanosecond: "1", time.Second: "1", time.Second + 1: "2", 1500 * time.Millisecond: "2", 59*time.Second + 999*time.Millisecond: "60", time.Minute: "60",
	} {
		if got := retryAfter(http.StatusTooManyRequests, &overload.TooMany{Wait: wait}); got != want {
			t.Errorf("a limit that is free in %s: Retry-After %s, want %s", wait, got, want)
		}
		if got := InSeconds(wait); got != want {
			t.Errorf("a password that may be tried in %s: Retry-After %s, want %s", wait, got, want)
		}
	}
	if got := retryAfter(http.StatusTooManyRequests, oauth.ErrTooManyRequests); got != "60" {
		t.Errorf("a limit of failures: Retry-After %s", got)
	}
	for most, err := range map[int]error{shedSpread: overload.ErrShed, 3: store.ErrUnavailable} {
		seen := map[int]int{}
		for range 1000 {
			n, conv := strconv.Atoi(retryAfter(http.StatusServiceUnavailable, err))
			if conv != nil {
				t.Fatal(conv)
			}
			seen[n]++
		}
		for n := 1; n <= most; n++ {
			if seen[n]*most < 500 {
				t.Errorf("%v: %d of 1000 have Retry-After %d of at most %d", err, seen[n], n, most)
			}
		}
		if len(seen) != most {
			t.Errorf("%v: Retry-After is %v", err, seen)
		}
	}
}
