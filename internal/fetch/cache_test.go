package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/fetch"
)

// A shelf answers the fetches of a cache, and counts them.
type shelf struct {
	mu     sync.Mutex
	asked  map[string]int
	answer func(address string) (fetch.Answer, error)
}

func (s *shelf) get(ctx context.Context, address string) (fetch.Answer, error) {
	s.mu.Lock()
	s.asked[address]++
	answer := s.answer
	s.mu.Unlock()
	return answer(address)
}

func (s *shelf) count(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[address]
}

func newCache() (*shelf, *fetch.Cache[string]) {
	s := &shelf{asked: map[string]int{}, answer: func(string) (fetch.Answer, error) {
		return fetch.Answer{Body: []byte("v1"), Fresh: 10 * time.Minute}, nil
	}}
	return s, fetch.NewCache(s.get, func(_ string, body []byte) (string, error) {
		if string(body) == "bad" {
			return "", errors.New("bad")
		}
		return string(body), nil
	}, time.Now)
}

var office = netip.MustParsePrefix("198.51.100.0/24")

func TestADocumentIsFetchedOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		s.answer = func(string) (fetch.Answer, error) {
			time.Sleep(time.Second) // the bubble's time
			return fetch.Answer{Body: []byte("v1"), Fresh: 10 * time.Minute}, nil
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				ctx := t.Context()
				if i == 0 {
					// The caller that began the fetch may cancel; the others still get
					// the result.
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
					defer cancel()
				}
				got, err := c.Get(ctx, "a", office, nil)
				if i == 0 && !errors.Is(err, fetch.ErrUnreachable) || i != 0 && got != "v1" {
					t.Errorf("%d: %q, %v", i, got, err)
				}
			})
			if i == 0 {
				synctest.Wait()
			}
		}
		all.Wait()
		if s.count("a") != 1 {
			t.Errorf("fetched %d times", s.count("a"))
		}
		time.Sleep(10*time.Minute - 1)
		c.Get(t.Context(), "a", office, nil)
		if s.count("a") != 1 {
			t.Error("fetched while it was fresh")
		}
		time.Sleep(1)
		c.Get(t.Context(), "a", office, nil)
		if s.count("a") != 2 {
			t.Error("not fetched after its time")
		}
	})
}

func TestAFailureIsNoAnswerAndLimitsTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		good := s.answer
		for name, f := range map[string]struct {
			err   error
			tries int
		}{
			"no connection": {fetch.ErrUnreachable, 2}, // one immediate retry
			"bad answer":    {fetch.ErrAnswer, 1},
			"bad address":   {fetch.ErrAddress, 1},
		} {
			s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{}, f.err }
			if _, err := c.Get(t.Context(), name, office, nil); !errors.Is(err, f.err) || s.count(name) != f.tries {
				t.Errorf("%s: %v after %d tries", name, err, s.count(name))
			}
			s.answer = good
			time.Sleep(time.Minute - 1)
			if _, err := c.Get(t.Context(), name, office, nil); !errors.Is(err, fetch.ErrLater) || s.count(name) != f.tries {
				t.Errorf("%s: %v after %d tries, want ErrLater", name, err, s.count(name))
			}
			time.Sleep(1)
			if got, err := c.Get(t.Context(), name, office, nil); got != "v1" {
				t.Errorf("%s, a minute later: %v", name, err)
			}
		}
		s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{Body: []byte("bad")}, nil }
		if _, err := c.Get(t.Context(), "unreadable", office, nil); !errors.Is(err, fetch.ErrAnswer) {
			t.Errorf("unreadable: %v", err)
		}
		// The retry after a failed connection may succeed.
		first := true
		s.answer = func(a string) (fetch.Answer, error) {
			if first {
				first = false
				return fetch.Answer{}, fetch.ErrUnreachable
			}
			return good(a)
		}
		if _, err := c.Get(t.Context(), "unlucky", office, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestAMissingItemIsFetchedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		has := func(text string) func(string) bool { return func(v string) bool { return strings.Contains(v, text) } }
		if got, err := c.Get(t.Context(), "a", office, has("v2")); got != "v1" || err != nil {
			t.Errorf("what was just fetched: %q, %v", got, err)
		}
		// For a minute, the cached document is the only one.
		if got, err := c.Get(t.Context(), "a", office, has("v2")); got != "v1" || err != nil || s.count("a") != 1 {
			t.Errorf("at once again: %q, %v after %d fetches", got, err, s.count("a"))
		}
		if got, _ := c.Get(t.Context(), "a", office, has("v1")); got != "v1" {
			t.Error("what is there is not served meanwhile")
		}
		time.Sleep(time.Minute)
		s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{Body: []byte("v1 v2"), Fresh: time.Hour}, nil }
		if got, err := c.Get(t.Context(), "a", office, has("v2")); got != "v1 v2" || err != nil || s.count("a") != 2 {
			t.Errorf("a minute later: %q, %v", got, err)
		}
		// The server cannot know whether the missing item has appeared since.
		time.Sleep(time.Minute)
		s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{}, fetch.ErrAnswer }
		for _, want := range []error{fetch.ErrAnswer, fetch.ErrLater} {
			if _, err := c.Get(t.Context(), "a", office, has("v3")); !errors.Is(err, want) || s.count("a") != 3 {
				t.Errorf("while it cannot be fetched: %v after %d fetches, want %v", err, s.count("a"), want)
			}
		}
	})
}

func TestStaleDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, stale := range []time.Duration{0, 24 * time.Hour} {
			s, c := newCache()
			c.Stale = stale
			c.Get(t.Context(), "a", office, nil)
			s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{}, fetch.ErrUnreachable }
			for range 2 { // the first fetch fails; the second is not attempted
				time.Sleep(10 * time.Minute)
				if got, err := c.Get(t.Context(), "a", office, nil); (err == nil) != (stale > 0) || err == nil && got != "v1" {
					t.Errorf("after %s: %q, %v", stale, got, err)
				}
				if _, err := c.Get(t.Context(), "a", office, func(string) bool { return false }); err == nil {
					t.Error("a stale document serves although it lacks something")
				}
			}
			time.Sleep(24 * time.Hour)
			if _, err := c.Get(t.Context(), "a", office, nil); err == nil {
				t.Errorf("stale for %s: served after it", stale)
			}
			if got, ok := c.Held("a"); !ok || got != "v1" {
				t.Errorf("held: %q, %t", got, ok)
			}
		}
	})
}

func TestBoundsOfTheCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		big := []byte(strings.Repeat("x", 64<<10))
		s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{Body: big, Fresh: time.Hour}, nil }
		for i := range 300 { // 18.75 MiB, of which 16 are kept
			if _, err := c.Get(t.Context(), fmt.Sprint(i), netip.Prefix{}, nil); err != nil {
				t.Fatal(err)
			}
			c.Get(t.Context(), "0", netip.Prefix{}, nil) // used constantly
		}
		held := 0
		for i := range 300 {
			if _, ok := c.Held(fmt.Sprint(i)); ok {
				held++
			}
		}
		if _, ok := c.Held("0"); !ok || held != 255 {
			t.Errorf("%d are held, and the one in use: %t", held, ok)
		}
		if _, ok := c.Held("1"); ok {
			t.Error("the one not used for longest is held")
		}
	})
}

func TestANetworkHasItsShareOfFetches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		n := 0
		for i := range 100 {
			if _, err := c.Get(t.Context(), fmt.Sprint(i), office, nil); err == nil {
				n++
			}
		}
		if n != 60 {
			t.Errorf("%d fetches of one network in a minute", n)
		}
		other := netip.MustParsePrefix("203.0.113.0/24")
		if _, err := c.Get(t.Context(), "other", other, nil); err != nil {
			t.Errorf("another network: %v", err)
		}
		// Of the concurrent fetches, one network gets a quarter of those still free.
		time.Sleep(time.Minute)
		s.answer = func(string) (fetch.Answer, error) {
			time.Sleep(time.Second) // the bubble's time
			return fetch.Answer{}, fetch.ErrAnswer
		}
		var all sync.WaitGroup
		begin := func(from netip.Prefix, of int, what string) {
			for i := range of {
				all.Go(func() { c.Get(t.Context(), fmt.Sprint(what, i), from, nil) })
				synctest.Wait()
			}
		}
		begin(office, 50, "slow")
		begin(other, 1, "other")
		begin(netip.Prefix{}, 100, "any")
		under := 0
		for _, what := range []string{"slow", "other", "any"} {
			of := 0
			for i := range 100 {
				of += s.count(fmt.Sprint(what, i))
			}
			if what == "slow" && of != 13 || what == "other" && of != 1 {
				t.Errorf("%d of %s under way", of, what)
			}
			under += of
		}
		all.Wait()
		if under != 64 {
			t.Errorf("%d fetches under way", under)
		}
		// The end of one fetch makes room for another.
		time.Sleep(time.Minute)
		s.answer = func(address string) (fetch.Answer, error) {
			if time.Sleep(time.Millisecond); address != "quick0" {
				time.Sleep(time.Second)
			}
			return fetch.Answer{}, fetch.ErrAnswer
		}
		begin(office, 1, "quick")
		begin(office, 20, "more")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		begin(office, 20, "again")
		under = 0
		for i := range 20 {
			under += s.count(fmt.Sprint("more", i)) + s.count(fmt.Sprint("again", i))
		}
		all.Wait()
		if under != 13 {
			t.Errorf("%d under way after one has ended", under)
		}
	})
}

func TestEachFetchIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		var seen []string
		c.Done = func(address string, err error) { seen = append(seen, fmt.Sprint(address, " ", err)) }
		c.Get(t.Context(), "a", office, nil)
		c.Get(t.Context(), "a", office, nil)
		s.answer = func(string) (fetch.Answer, error) { return fetch.Answer{}, fetch.ErrAnswer }
		c.Get(t.Context(), "b", office, nil)
		c.Get(t.Context(), "b", office, nil)
		if fmt.Sprint(seen) != "[a <nil> b unusable answer]" {
			t.Errorf("%q", seen)
		}
	})
}
