package resource_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/resource"
)

// slowly returns a handler that responds like the server, after a delay.
func (s *authServer) slowly(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			s.answer(w, r)
		case <-r.Context().Done():
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestServerThatHangsCostsFiveSeconds(t *testing.T) {
	for _, path := range []string{metadataPath, jwksPath} {
		timed(t, func(t *testing.T, s *authServer) {
			s.answerWith(path, s.slowly(time.Hour))
			v := verifier(t, s.config())
			began := time.Now()
			wants(t, "hangs", v, s.token(), resource.ErrUnavailable)
			if d := time.Since(began); d != 5*time.Second {
				t.Errorf("%s: it took %v", path, d)
			}
		})
	}
}

func TestACancelledWaitDoesNotAffectOthers(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.answerWith(jwksPath, s.slowly(3*time.Second))
		v := verifier(t, s.config())
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { wantsIn(impatient, t, "the impatient", v, s.token(), resource.ErrUnavailable) })
		synctest.Wait()
		wg.Go(func() { wants(t, "the patient", v, s.token(), nil) })
		wg.Wait()
		if n := s.times(jwksPath); n != 1 {
			t.Errorf("the keys were fetched %d times", n)
		}
	})
}

func TestCloseEndsWaitingAndWork(t *testing.T) {
	for path, waits := range map[string][]bool{metadataPath: {true, true}, jwksPath: {true, false}, lookupPath: {false, true}, listPath: {true, false}} {
		timed(t, func(t *testing.T, s *authServer) {
			s.answerWith(path, s.slowly(4*time.Second))
			cfg := s.config()
			cfg.FollowRevocations = true
			v := verifier(t, cfg)
			var wg sync.WaitGroup
			for i, token := range []string{s.token(), s.issue("opaque")} {
				var want error
				if waits[i] {
					want = resource.ErrUnavailable
				}
				wg.Go(func() { wants(t, path+": waiting", v, token, want) })
			}
			time.Sleep(time.Second)
			began := time.Now()
			v.Close()
			v.Close()
			wg.Wait()
			if d := time.Since(began); d != 0 {
				t.Errorf("%s: Close took %v", path, d)
			}
			for _, token := range []string{s.token(), "opaque"} {
				wants(t, "a closed verifier", v, token, resource.ErrUnavailable)
			}
			if err := v.Ready(t.Context()); kinds(err) != 1 {
				t.Errorf("a closed verifier is ready: %v", err)
			}
		})
	}
}
