package resource_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/resource"
)

// held makes introspection determine its answers at once, and send them after release is
// called.
func (s *authServer) held() (release func()) {
	gate := make(chan struct{})
	s.answerWith(lookupPath, func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r)
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	})
	return func() { close(gate) }
}

func TestEachRequestIsLookedUpByDefault(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		token := s.issue("opaque")
		for range 10 {
			wants(t, "alive", v, token, nil)
		}
		s.issue(token, map[string]any{"active": false})
		wants(t, "revoked", v, token, resource.ErrInvalidToken)
		if n := s.times(lookupPath); n != 11 {
			t.Errorf("11 requests caused %d look-ups", n)
		}
		if n := s.times(metadataPath); n != 1 {
			t.Errorf("the metadata were fetched %d times", n)
		}
	})
}

func TestRevocationBeforeARequestIsSeenByIt(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		token := s.issue("opaque")
		release := s.held()
		var wg sync.WaitGroup
		wg.Go(func() { wants(t, "before the revocation", v, token, nil) })
		synctest.Wait() // the server has read that the token is alive
		s.issue(token, map[string]any{"active": false})
		for range 20 {
			wg.Go(func() { wants(t, "after the revocation", v, token, resource.ErrInvalidToken) })
		}
		synctest.Wait()
		if n := s.times(lookupPath); n != 1 {
			t.Errorf("%d look-ups of one token at one time", n)
		}
		release()
		wg.Wait()
		if n := s.times(lookupPath); n != 2 {
			t.Errorf("21 requests caused %d look-ups; the 20 concurrent ones share one", n)
		}
	})
}

func TestAnswersAreKeptAsLongAsConfigured(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = 30 * time.Second
		v := verifier(t, cfg)
		token := s.issue("opaque")
		release := s.held()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { wants(t, "together", v, token, nil) })
		}
		synctest.Wait()
		time.Sleep(time.Second)
		release()
		wg.Wait()
		s.answerWith(lookupPath, nil)
		if n := s.times(lookupPath); n != 1 {
			t.Errorf("50 concurrent requests caused %d look-ups", n)
		}
		s.issue(token, map[string]any{"active": false})
		time.Sleep(29*time.Second - time.Millisecond) // 30 from the question
		wants(t, "kept", v, token, nil)
		time.Sleep(time.Millisecond)
		wants(t, "no longer kept", v, token, resource.ErrInvalidToken)
		if n := s.times(lookupPath); n != 2 {
			t.Errorf("asked %d times", n)
		}
		s.issue(token)
		wants(t, "a refusal is not kept", v, token, nil)
	})
}

func TestAnswersAreNotKeptBeyondTheToken(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = time.Hour
		v := verifier(t, cfg)
		token := s.issue("opaque")
		wants(t, "alive", v, token, nil)
		time.Sleep(300*time.Second - time.Millisecond)
		wants(t, "its last moment", v, token, nil)
		if n := s.times(lookupPath); n != 1 {
			t.Errorf("asked %d times", n)
		}
		s.issue(token, map[string]any{"active": false})
		time.Sleep(time.Millisecond)
		wants(t, "expired", v, token, resource.ErrInvalidToken)
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = time.Minute
		v := verifier(t, cfg)
		token := s.issue("opaque")
		s.answerWith(lookupPath, status(500))
		wants(t, "down", v, token, resource.ErrUnavailable)
		s.answerWith(lookupPath, nil)
		wants(t, "up", v, token, nil)
		s.answerWith(lookupPath, status(500))
		wants(t, "down, with an answer at hand", v, token, nil)
	})
}

func TestCacheHoldsTenThousandAnswers(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = 10 * time.Second
		v := verifier(t, cfg)
		name := func(i int) string { return fmt.Sprint("token-", i) }
		for i := range 10_000 {
			wants(t, name(i), v, s.issue(name(i)), nil)
		}
		for i := range 500 { // unknown tokens displace no cached answer
			wants(t, "made up", v, fmt.Sprint("stranger-", i), resource.ErrInvalidToken)
		}
		asked := s.times(lookupPath)
		for i := range 10_000 {
			wants(t, name(i), v, name(i), nil)
		}
		if n := s.times(lookupPath) - asked; n != 0 {
			t.Errorf("%d of 10,000 answers were gone", n)
		}
		for i := range 10 { // each takes the place of the oldest
			wants(t, "one more", v, s.issue(fmt.Sprint("more-", i)), nil)
		}
		asked = s.times(lookupPath)
		for i := 10; i < 10_000; i++ {
			wants(t, name(i), v, name(i), nil)
		}
		if n := s.times(lookupPath) - asked; n != 0 {
			t.Errorf("%d answers besides the oldest were gone", n)
		}
		for i := range 10 {
			wants(t, name(i), v, name(i), nil)
		}
		if n := s.times(lookupPath) - asked; n != 10 {
			t.Errorf("%d of the oldest 10 answers were gone: the cache has no limit", n)
		}
	})
}

func TestAThousandTokensAreLookedUpAtOneTime(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		wants(t, "the first", v, s.issue("first"), nil)
		release := s.held()
		var wg sync.WaitGroup
		for i := range 1000 {
			token := s.issue(fmt.Sprint("token-", i))
			wg.Go(func() { wants(t, token, v, token, nil) })
		}
		synctest.Wait()
		wants(t, "one too many", v, s.issue("one-more"), resource.ErrUnavailable)
		release()
		wg.Wait()
		wants(t, "afterwards", v, "one-more", nil)
	})
}

func TestACancelledRequestDoesNotAffectOthers(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = time.Second
		v := verifier(t, cfg)
		token := s.issue("opaque")
		release := s.held()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { wantsIn(ctx, t, "gone", v, token, resource.ErrUnavailable) })
		synctest.Wait()
		wg.Go(func() { wants(t, "patient", v, token, nil) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		wg.Wait()
	})
}

func TestEachCallerGetsItsOwnPrincipal(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.IntrospectionCache = time.Minute
		v := verifier(t, cfg)
		token := s.issue("opaque")
		p, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		p.Scope[0], p.Audience[0] = "admin", "https://other.example"
		again, err := v.Verify(t.Context(), token)
		if err != nil || again.HasScope("admin") || again.Audience[0] != audience {
			t.Errorf("%+v, %v: another caller's change is in the cache", again, err)
		}
	})
}
