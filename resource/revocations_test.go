package resource_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/resource"
)

// following returns a verifier that has loaded the list of revocations.
func following(t *testing.T, s *authServer, changes ...func(*resource.Config)) *resource.Verifier {
	t.Helper()
	cfg := s.config()
	cfg.FollowRevocations = true
	for _, change := range changes {
		change(&cfg)
	}
	v := verifier(t, cfg)
	synctest.Wait()
	return v
}

func TestTheListDecidesWhichTokensAreRevoked(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		now := time.Now()
		authorized := now.Add(-time.Hour)
		type token struct {
			grant    byte
			issued   time.Time
			sub, cid string
		}
		mine := token{1, now, "alice", "shop"}
		for _, tt := range []struct {
			what string
			list func(*feed)
			token
			dead bool
		}{
			{"nothing was revoked", func(*feed) {}, mine, false},
			{"its grant was revoked", func(f *feed) { f.revoke(1, never) }, mine, true},
			{"another grant was", func(f *feed) { f.revoke(2, never) }, mine, false},
			{"the access tokens so far, and it is the last of them", func(f *feed) { f.revoke(1, now.UnixMilli()) }, mine, true},
			{"the access tokens before it", func(f *feed) { f.revoke(1, now.UnixMilli()-1) }, mine, false},
			{"its subject was cut off when the grant began", func(f *feed) { f.cutOff("alice", "", authorized) }, mine, true},
			{"its subject was cut off before", func(f *feed) { f.cutOff("alice", "", authorized.Add(-time.Millisecond)) }, mine, false},
			{"another subject was", func(f *feed) { f.cutOff("bob", "", now) }, mine, false},
			{"its client was cut off", func(f *feed) { f.cutOff("", "shop", now) }, mine, true},
			{"its client was cut off before", func(f *feed) { f.cutOff("", "shop", authorized.Add(-time.Millisecond)) }, mine, false},
			{"another client was", func(f *feed) { f.cutOff("", "bank", now) }, mine, false},
			{"its subject at its client", func(f *feed) { f.cutOff("alice", "shop", now) }, mine, true},
			{"its subject at its client, before", func(f *feed) { f.cutOff("alice", "shop", authorized.Add(-time.Millisecond)) }, mine, false},
			{"its subject at another client", func(f *feed) { f.cutOff("alice", "bank", now) }, mine, false},
			{"another subject at its client", func(f *feed) { f.cutOff("bob", "shop", now) }, mine, false},
			{"a subject called like its client", func(f *feed) { f.cutOff("shop", "", now) }, mine, false},
			{"all of it", func(f *feed) { f.revoke(1, never); f.cutOff("alice", "", now); f.cutOff("bob", "", now) }, mine, true},
		} {
			s.change(func() { s.list = newFeed(); tt.list(&s.list) })
			v := following(t, s)
			var want error
			if tt.dead {
				want = resource.ErrInvalidToken
			}
			wants(t, tt.what, v, s.token(map[string]any{"jti": jti(tt.grant, tt.issued, authorized), "sub": tt.sub, "client_id": tt.cid}), want)
			v.Close()
		}
	})
}

// After the clocks were set back, an older list has a later date. It must not be kept
// until the clocks reach that date.
func TestListFromTheFutureIsNotKept(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := following(t, s)
		token := s.token(map[string]any{"jti": jti(1, time.Now(), time.Now())})
		wants(t, "before", v, token, nil)
		v.PutBackClock(time.Hour)
		wants(t, "with a list from the future", v, token, resource.ErrUnavailable)
		s.change(func() { s.list.revoke(1, never) })
		time.Sleep(7 * time.Second)
		wants(t, "with the next list", v, token, resource.ErrInvalidToken)
	})
}

func TestRevocationIsKnownSevenSecondsLater(t *testing.T) {
	for _, maxAge := range []int{1, 5, 60} {
		timed(t, func(t *testing.T, s *authServer) {
			s.list.maxAge = maxAge
			v := following(t, s)
			for i := range byte(20) {
				time.Sleep(1300 * time.Millisecond)
				token := s.token(map[string]any{"jti": jti(i, time.Now(), time.Now())})
				wants(t, "before", v, token, nil)
				s.change(func() { s.list.revoke(i, never) })
				time.Sleep(time.Duration(maxAge)*time.Second + 2*time.Second)
				wants(t, fmt.Sprintf("max-age %d: revoked", maxAge), v, token, resource.ErrInvalidToken)
			}
		})
	}
}

func TestTheListIsFetchedAtItsMaxAge(t *testing.T) {
	for _, tt := range []struct {
		header http.Header
		each   time.Duration
	}{
		{http.Header{"Cache-Control": {"max-age=5"}}, 5 * time.Second},
		{http.Header{"Cache-Control": {"max-age=5"}, "Age": {"3"}}, 2 * time.Second},
		{http.Header{"Cache-Control": {"max-age=5"}, "Age": {"9"}}, time.Second},
		{http.Header{"Cache-Control": {"no-store"}}, time.Second},
		{http.Header{"Cache-Control": {"max-age=86400"}}, time.Minute},
		{http.Header{}, 5 * time.Second},
	} {
		timed(t, func(t *testing.T, s *authServer) {
			s.list.maxAge = 60 // a long life of the list, so that the header determines the interval
			s.answerWith(listPath, func(w http.ResponseWriter, r *http.Request) {
				s.answer(&fixedHeader{ResponseWriter: w, fixed: tt.header}, r)
			})
			v := following(t, s)
			time.Sleep(2*time.Minute - time.Millisecond)
			if got, want := s.times(listPath), int(2*time.Minute/tt.each); got != want {
				t.Errorf("%v: fetched %d times in 2 minutes, want %d", tt.header, got, want)
			}
			v.Close()
			time.Sleep(2 * time.Minute)
			if got, want := s.times(listPath), int(2*time.Minute/tt.each); got != want {
				t.Errorf("fetched after Close")
			}
		})
	}
}

func TestUnchangedListIsNotSentAgainUntilItNearsItsEnd(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.change(func() { s.list.revoke(9, never) })
		v := following(t, s)
		for range 60 {
			time.Sleep(5 * time.Second)
			wants(t, "alive", v, s.token(), nil)
			wants(t, "revoked", v, s.token(map[string]any{"jti": jti(9, time.Now(), time.Now())}), resource.ErrInvalidToken)
		}
		var conditional []string
		s.change(func() { conditional = s.list.conditional })
		whole := 0
		for _, tag := range conditional {
			if tag == "" {
				whole++
			}
		}
		if n := len(conditional); n < 60 || whole < 5 || whole > 15 {
			t.Errorf("of %d requests for the list, %d were unconditional", n, whole)
		}
	})
}

func TestListIsNoAccessToken(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.AllowPlainJWTType = true
		k := s.keys[0]
		header := altered(k.header(), map[string]any{"typ": "revocations+jwt"})
		wants(t, "a list with the claims of a token", verifier(t, cfg), k.compact(header, s.claims()), resource.ErrInvalidToken)
	})
}

func TestListThatHasEndedIsUsedOnlyAsLongAsConfigured(t *testing.T) {
	for _, stale := range []time.Duration{0, 10 * time.Minute} {
		timed(t, func(t *testing.T, s *authServer) {
			s.change(func() { s.list.revoke(2, never) })
			v := following(t, s, func(c *resource.Config) { c.StaleRevocations = stale })
			end := time.Now().Truncate(time.Second).Add(40 * time.Second)
			s.answerWith(listPath, status(503))
			time.Sleep(time.Until(end.Add(stale)) - time.Millisecond)
			wants(t, "before its end", v, s.token(), nil)
			wants(t, "before its end, revoked", v, s.token(map[string]any{"jti": jti(2, time.Now(), time.Now())}), resource.ErrInvalidToken)
			wants(t, "an opaque token", v, s.issue("opaque"), nil)
			time.Sleep(time.Millisecond)
			wants(t, "after its end", v, s.token(), resource.ErrUnavailable)
			wants(t, "an opaque token, after its end", v, s.issue("opaque"), nil)
			s.answerWith(listPath, nil)
			time.Sleep(6 * time.Second)
			wants(t, "well again", v, s.token(), nil)
		})
	}
}

func TestAnOlderListRevivesNoToken(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := following(t, s)
		dead := s.token()
		s.change(func() { s.list.revoke(1, never) })
		time.Sleep(6 * time.Second)
		wants(t, "revoked", v, dead, resource.ErrInvalidToken)
		s.change(func() { s.list = newFeed(); s.list.lag = 15 * time.Second })
		time.Sleep(6 * time.Second)
		wants(t, "a node that lags does not know of it", v, dead, resource.ErrInvalidToken)
	})
}

// With leeway, a token could be accepted after its revocation has left the list.
func TestLeewayDoesNotOutliveTheList(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := following(t, s, func(c *resource.Config) { c.Leeway = time.Minute })
		token := s.token()
		s.change(func() { s.list.revoke(1, never) })
		time.Sleep(301 * time.Second)
		wants(t, "revoked", v, token, resource.ErrInvalidToken)
		s.change(func() { s.list = newFeed() }) // the new list covers 300 seconds
		time.Sleep(10 * time.Second)
		wants(t, "within the leeway", v, token, resource.ErrInvalidToken)
	})
}

func TestAMalformedJTIIsRefusedWithTheList(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := following(t, s)
		good := jti(1, time.Now(), time.Now())
		for _, id := range []string{"1", good[:42], good + "A", good + "==", strings.Repeat("!", 43), good[:41] + "\n" + good[42:], stray(good)} {
			wants(t, "jti "+id, v, s.token(map[string]any{"jti": id}), resource.ErrInvalidToken)
		}
	})
}

func TestFirstTokensWaitForTheFirstList(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.list.revoke(2, never)
		s.answerWith(listPath, s.slowly(3*time.Second))
		cfg := s.config()
		cfg.FollowRevocations = true
		v := verifier(t, cfg)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { wants(t, "alive", v, s.token(), nil) })
			wg.Go(func() {
				wants(t, "revoked", v, s.token(map[string]any{"jti": jti(2, time.Now(), time.Now())}), resource.ErrInvalidToken)
			})
		}
		wg.Wait()
	})
}

func TestListIsFoundWhereTheMetadataSay(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.answerWith(metadataPath, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(mustJSON(altered(s.metadata(), map[string]any{"revocations_uri": s.origin + "/lists/1"})))
		})
		s.answerWith("/lists/1", func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = listPath
			s.answer(w, r)
		})
		wants(t, "alive", following(t, s), s.token(), nil)
		if s.times("/lists/1") == 0 || s.times(listPath) != 0 {
			t.Error("the list was fetched from somewhere else")
		}
	})
}
