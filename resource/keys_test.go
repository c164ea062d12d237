package resource_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestWaitingRequestsShareOneFetchOfKeys(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.answerWith(jwksPath, s.slowly(time.Second))
		v := verifier(t, s.config())
		token := s.token()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { wants(t, "while the keys come", v, token, nil) })
		}
		wg.Wait()
		for range 100 {
			wants(t, "with the keys at hand", v, token, nil)
		}
		if s.times(metadataPath) != 1 || s.times(jwksPath) != 1 {
			t.Errorf("fetched the metadata %d times and the keys %d times", s.times(metadataPath), s.times(jwksPath))
		}
	})
}

func TestBusyVerifierNeverWaitsForKeys(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		wants(t, "the first", v, s.token(), nil)
		s.answerWith(jwksPath, s.slowly(4*time.Second))
		for range 3 * 60 { // three hours, the maximum age of three key sets
			began := time.Now()
			wants(t, "one a minute", v, s.token(), nil)
			if d := time.Since(began); d != 0 {
				t.Fatalf("it waited %v", d)
			}
			time.Sleep(time.Minute)
		}
		if n := s.times(jwksPath); n != 4 && n != 5 {
			t.Errorf("the keys were fetched %d times in 3 hours; they may be cached for an hour, and are renewed after 45 minutes", n)
		}
	})
}

func TestKeysAreNotUsedLongerThanTheServerAllows(t *testing.T) {
	for _, tt := range []struct {
		header http.Header
		kept   time.Duration
	}{
		{http.Header{"Cache-Control": {"public, max-age=3600"}}, time.Hour},
		{http.Header{"Cache-Control": {"public", "MAX-AGE=60"}}, time.Minute},
		{http.Header{"Cache-Control": {"max-age=3600"}, "Age": {"3000"}}, 10 * time.Minute},
		{http.Header{"Cache-Control": {"max-age=60"}, "Age": {"61"}}, time.Second},
		{http.Header{"Cache-Control": {"max-age=99999999999999999999"}}, 24 * time.Hour},
		{http.Header{"Cache-Control": {"no-store"}}, time.Second},
		{http.Header{"Cache-Control": {"no-cache, max-age=3600"}}, time.Second},
		{http.Header{"Cache-Control": {"max-age=-1"}}, time.Second},
		{http.Header{"Cache-Control": {"max-age=0"}}, time.Second},
		{http.Header{}, 5 * time.Minute},
	} {
		timed(t, func(t *testing.T, s *authServer) {
			s.answerWith(jwksPath, func(w http.ResponseWriter, r *http.Request) {
				s.answer(&fixedHeader{ResponseWriter: w, fixed: tt.header}, r)
			})
			v := verifier(t, s.config())
			wants(t, "the first", v, s.token(), nil)
			old := s.keys[0]
			s.change(func() { s.keys = []signer{newES256("key2")} }) // the old one is withdrawn
			sign := func() string { return old.compact(old.header(), s.claims()) }

			began := time.Now()
			time.Sleep(tt.kept*3/4 - time.Millisecond)
			wants(t, fmt.Sprint(tt.header, " before renewal"), v, sign(), nil)
			time.Sleep(time.Until(began.Add(tt.kept)))
			wants(t, fmt.Sprint(tt.header, " when the set has ended"), v, sign(), resource.ErrInvalidToken)
		})
	}
}

// fixedHeader makes a response have exactly these headers.
type fixedHeader struct {
	http.ResponseWriter
	fixed http.Header
	own   http.Header
}

func (w *fixedHeader) Header() http.Header {
	if w.own == nil {
		w.own = http.Header{}
		for name, values := range w.fixed {
			w.ResponseWriter.Header()[name] = values
		}
	}
	return w.own
}

func TestKeyThatIsPublishedIsFoundAtOnce(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		wants(t, "the first key", v, s.token(), nil)
		time.Sleep(10 * time.Second)
		s.change(func() { s.keys = append(s.keys, newES256("key2")) })
		wants(t, "the second key", v, s.token(), nil)
		if n := s.times(jwksPath); n != 2 {
			t.Errorf("the keys were fetched %d times", n)
		}
	})
}

func TestUnknownKeysCauseFewFetches(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		good := s.token(map[string]any{"exp": time.Now().Unix() + 600})
		wants(t, "a good token", v, good, nil)
		stranger := newES256("")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for j := range 60 {
					k := signer{fmt.Sprint("stranger-", i, "-", j), stranger.alg, stranger.key}
					wants(t, "an unknown key", v, k.compact(k.header(), s.claims()), resource.ErrInvalidToken)
					time.Sleep(time.Second)
				}
			})
		}
		wg.Wait()
		if n := s.times(jwksPath); n < 2 || n > 1+60/5+1 {
			t.Errorf("for 3000 tokens of unknown keys in a minute, the keys were fetched %d times", n)
		}
		wants(t, "a good token, afterwards", v, good, nil)
	})
}

func TestUnknownKeyIsNotTheTokensFaultWhileTheServerIsDown(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		wants(t, "a good token", v, s.token(), nil)
		time.Sleep(10 * time.Second)
		s.answerWith(jwksPath, status(500))
		k := newES256("key2")
		token := k.compact(k.header(), s.claims())
		wants(t, "at once", v, token, resource.ErrUnavailable)
		wants(t, "before the next try", v, token, resource.ErrUnavailable)
		wants(t, "a token of a known key", v, s.token(), nil)
		s.answerWith(jwksPath, nil)
		s.change(func() { s.keys = append(s.keys, k) })
		time.Sleep(5 * time.Second)
		wants(t, "the server is back", v, token, nil)
	})
}

func TestKeysServeForAnHourWhileTheServerIsDown(t *testing.T) {
	for _, down := range [][]string{{jwksPath}, {jwksPath, metadataPath}} {
		for what, failure := range map[string]func(*authServer) http.HandlerFunc{
			"fails": func(*authServer) http.HandlerFunc { return status(503) },
			"hangs": func(s *authServer) http.HandlerFunc { return s.slowly(time.Hour) },
		} {
			timed(t, func(t *testing.T, s *authServer) {
				v := verifier(t, s.config())
				wants(t, "the first", v, s.token(), nil)
				for _, path := range down {
					s.answerWith(path, failure(s))
				}
				end := time.Now().Add(time.Hour)
				time.Sleep(time.Until(end.Add(-10 * time.Minute)))
				wants(t, "a token begins the renewal", v, s.token(), nil)
				for time.Now().Before(end.Add(time.Hour - time.Minute)) {
					time.Sleep(time.Minute)
					began := time.Now()
					wants(t, what+": by the old keys", v, s.token(), nil)
					if time.Since(began) > 0 {
						t.Fatalf("%v, which %s: a token waited for a server that is known to be down", down, what)
					}
				}
				time.Sleep(time.Minute)
				wants(t, what+": an hour after their end", v, s.token(), resource.ErrUnavailable)

				for _, path := range down {
					s.answerWith(path, nil)
				}
				time.Sleep(10 * time.Second)
				wants(t, "works again", v, s.token(), nil)
			})
		}
	}
}

func TestAServerThatIsDownIsNotCalledForEachToken(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.answerWith(metadataPath, status(500))
		v := verifier(t, s.config())
		for range 60 {
			for range 20 {
				wants(t, "down", v, s.token(), resource.ErrUnavailable)
			}
			time.Sleep(time.Second)
		}
		if n := s.times(metadataPath); n < 10 || n > 13 {
			t.Errorf("for 1200 tokens in a minute, the server was called %d times", n)
		}
	})
}

// Keys are published before their use for as long as the set may be cached, and removed
// when no token signed by them is valid.
func TestNoTokenIsRefusedWhileKeysRotate(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.maxAge = 1
		v := verifier(t, s.config())
		var inUse atomic.Pointer[signer]
		first := s.keys[0]
		inUse.Store(&first)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() { // each 4 seconds a new key, used 1 second later; three are published
			for n := 0; ctx.Err() == nil; n++ {
				k := newES256(fmt.Sprint("rotated-", n))
				s.change(func() { s.keys = append(s.keys, k)[max(0, len(s.keys)-2):] })
				time.Sleep(time.Second)
				inUse.Store(&k)
				time.Sleep(3 * time.Second)
			}
		})
		checked := 0
		for ctx.Err() == nil {
			k := inUse.Load()
			token := k.compact(k.header(), altered(s.claims(), map[string]any{"exp": time.Now().Unix() + 3}))
			time.Sleep(50 * time.Millisecond)
			wants(t, k.kid, v, token, nil)
			checked++
		}
		wg.Wait()
		if checked < 1000 {
			t.Errorf("%d tokens were checked", checked)
		}
	})
}
