package overload

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A rush sends requests to a queue, and records the order in which they get slots.
type rush struct {
	*Queue
	mu    sync.Mutex
	turns []string
	shed  map[string]int
}

func newRush(l Capacity) *rush {
	r := &rush{shed: map[string]int{}}
	r.Queue = NewQueue(l, func(what string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.shed[what]++
	})
	return r
}

// fill takes n slots.
func (r *rush) fill(t *testing.T, c Class, n int) {
	t.Helper()
	for range n {
		if err := r.Enter(t.Context(), c, netip.Prefix{}); err != nil {
			t.Fatal(err)
		}
	}
}

// come queues a request of a class, which keeps its slot.
func (r *rush) come(ctx context.Context, c Class, name string) {
	go func() {
		if r.Enter(ctx, c, netip.Prefix{}) != nil {
			name = "not " + name
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turns = append(r.turns, name)
	}()
	synctest.Wait()
}

// had returns the requests that got slots, in order. It locks, because a timer may
// concurrently wake a request.
func (r *rush) had() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.turns)
}

// next releases a slot of a class, and returns the request that got it.
func (r *rush) next(c Class) string {
	r.Leave(c, netip.Prefix{})
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.turns) == 0 {
		return "nobody"
	}
	name := r.turns[0]
	r.turns = r.turns[1:]
	return name
}

func TestRequestsBeyondTheSlotsQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 2, Waiting: 10})
		r.fill(t, Refresh, 2)
		for _, name := range []string{"first", "second", "third"} {
			r.come(t.Context(), Refresh, name)
		}
		if working, waiting := r.Load(); working != 2 || waiting != 3 {
			t.Errorf("%d run and %d are queued", working, waiting)
		}
		for _, want := range []string{"first", "second", "third", "nobody", "nobody"} {
			if got := r.next(Refresh); got != want {
				t.Errorf("the next slot went to %s, want %s", got, want)
			}
		}
		if working, waiting := r.Load(); working != 0 || waiting != 0 {
			t.Errorf("at the end, %d run and %d are queued", working, waiting)
		}
	})
}

func TestARequestThatWouldBeOneTooManyIsTurnedAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 2})
		r.fill(t, Refresh, 1)
		r.come(t.Context(), Refresh, "first")
		if err := r.Early(); err != nil {
			t.Errorf("with room in the queue: %v", err)
		}
		r.come(t.Context(), Check, "second")
		if err := r.Early(); !errors.Is(err, ErrShed) {
			t.Errorf("without room in the queue: %v", err)
		}
		began := time.Now()
		for _, c := range []Class{Check, Refresh, Code} {
			err := r.Enter(t.Context(), c, netip.Prefix{})
			if !errors.Is(err, ErrShed) {
				t.Errorf("class %d: %v", c, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("they were shed after %s", took)
		}
		if !maps.Equal(r.shed, map[string]int{"requests": 4}) {
			t.Errorf("shed: %v", r.shed)
		}
		r.next(Refresh)
		r.next(Refresh)
	})
}

func TestWhoWaitsLongerThanTheirClientIsNotWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 10})
		r.fill(t, Refresh, 1)
		gone, cancel := context.WithCancel(t.Context())
		r.come(t.Context(), Refresh, "late")
		r.come(gone, Refresh, "gone")
		time.Sleep(MaxWait / 2)
		r.come(t.Context(), Refresh, "in time")
		cancel() // the client has disconnected
		synctest.Wait()
		time.Sleep(MaxWait / 2)
		synctest.Wait()
		if working, waiting := r.Load(); working != 1 || waiting != 1 {
			t.Errorf("%d run and %d are queued", working, waiting)
		}
		if !maps.Equal(r.shed, map[string]int{"late": 2}) {
			t.Errorf("shed: %v", r.shed)
		}
		if !slices.Equal(r.turns, []string{"not gone", "not late"}) {
			t.Errorf("%q", r.turns)
		}
		r.turns = nil
		if got := r.next(Refresh); got != "in time" {
			t.Errorf("the next slot went to %s", got)
		}
	})
}

// Refreshes have priority; logins have to wait, but not for ever.
func TestRefreshesHavePriorityExceptAtEveryEighthSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 100})
		r.fill(t, Refresh, 1)
		for range 10 {
			r.come(t.Context(), Code, "newcomer")
			time.Sleep(1)
			r.come(t.Context(), Login, "visitor")
			time.Sleep(1)
		}
		for range 20 {
			r.come(t.Context(), Refresh, "holder")
		}
		last := Refresh
		wait := map[string]Class{"holder": Refresh, "newcomer": Code, "visitor": Login}
		for n := range 16 {
			want := map[int]string{7: "newcomer", 15: "visitor"}[n]
			if want == "" {
				want = "holder"
			}
			got := r.next(last)
			if got != want {
				t.Errorf("slot %d went to a %s", n, got)
			}
			last = wait[got]
		}
		time.Sleep(MaxWait) // the remaining ones are shed
		synctest.Wait()
	})
}

func TestChecksAndRefreshesAreServedInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 100})
		r.fill(t, Refresh, 1)
		for _, w := range []struct {
			Class
			name string
		}{{Check, "check 1"}, {Refresh, "holder 1"}, {Check, "check 2"}, {Refresh, "holder 2"}} {
			r.come(t.Context(), w.Class, w.name)
			time.Sleep(time.Millisecond)
		}
		last := Refresh
		for _, want := range []string{"check 1", "holder 1", "check 2", "holder 2"} {
			if got := r.next(last); got != want {
				t.Errorf("the next slot went to %s, want %s", got, want)
			}
			last = Check
			if want[0] == 'h' {
				last = Refresh
			}
		}
	})
}

// A hanging store holds the requests that write, and a slow provider the requests of
// visitors. The other classes still have slots.
func TestEachClassLeavesSlotsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 64, Waiting: 100})
		count := func(c Class, most int) (n int) {
			for n < most && r.free(c) {
				r.fill(t, c, 1)
				n++
			}
			return n
		}
		for _, c := range []struct {
			Class
			come, served int
		}{{Login, 64, 32}, {Code, 4, 4}, {Refresh, 64, 20}, {Login, 1, 0}, {Code, 1, 0}, {Check, 64, 8}, {Refresh, 1, 0}} {
			if got := count(c.Class, c.come); got != c.served {
				t.Errorf("class %d: %d of %d have a slot, want %d", c.Class, got, c.come, c.served)
			}
		}
		// Without other requests, codes can take more slots.
		r = newRush(Capacity{Requests: 64, Waiting: 100})
		if got := count(Code, 64); got != 56 {
			t.Errorf("codes alone have %d slots, want 56", got)
		}
		// A class that has used up its share does not block the others.
		r = newRush(Capacity{Requests: 64, Waiting: 100})
		count(Login, 64)
		r.come(t.Context(), Login, "visitor")
		r.fill(t, Code, 1)
		r.fill(t, Refresh, 1)
		r.fill(t, Check, 1)
		if r.next(Login) != "visitor" {
			t.Error("another class cannot get a visitor's slot")
		}
	})
}

func TestWhoHoldsNoTokenDoesNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 4})
		r.fill(t, Refresh, 1)
		for range 2 {
			r.come(t.Context(), Code, "newcomer")
			r.come(t.Context(), Login, "visitor")
		}
		if _, waiting := r.Load(); waiting != 2 {
			t.Errorf("%d of them wait in a queue of 4, want 2", waiting)
		}
		r.come(t.Context(), Refresh, "holder")
		r.turns = nil
		if got := r.next(Refresh); got != "holder" {
			t.Errorf("the next slot went to %s", got)
		}
		time.Sleep(MaxWait)
		synctest.Wait()
	})
}

// Visitors of one network leave room in the queue for those of another one, and when
// these have gone, may use it again.
func TestOneNetworkDoesNotFillTheQueueOfVisitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 60})
		r.fill(t, Refresh, 1)
		come := func(network string) {
			go r.Enter(t.Context(), Login, netip.MustParsePrefix(network))
			synctest.Wait()
		}
		for range 2 {
			for range 40 {
				come("2001:db8:1::/48")
			}
			if _, waiting := r.Load(); waiting != 8 {
				t.Errorf("%d of one network wait in a queue of 30, want a third of what they leave", waiting)
			}
			for range 40 {
				come("192.0.2.0/24")
			}
			if _, waiting := r.Load(); waiting != 8+6 {
				t.Errorf("%d of two networks wait", waiting)
			}
			time.Sleep(MaxWait)
			synctest.Wait()
			if _, waiting := r.Load(); waiting != 0 || len(r.networks) != 0 {
				t.Errorf("%d wait after all, of %v", waiting, r.networks)
			}
		}
	})
}

// A visitor whose network has no running request precedes earlier visitors of a network
// that has one. Codes that are queued with them keep their order.
func TestAVisitorGoesBeforeThoseOfANetworkThatHasMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 2, Waiting: 100})
		flood, other := netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("192.0.2.0/24")
		if err := r.Enter(t.Context(), Login, flood); err != nil {
			t.Fatal(err)
		}
		come := func(c Class, network netip.Prefix, name string) {
			go func() {
				if r.Enter(t.Context(), c, network) != nil {
					name = "not " + name
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.turns = append(r.turns, name)
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		come(Login, flood, "flood 1")
		come(Login, flood, "flood 2")
		come(Login, other, "other")
		come(Login, flood, "flood 3")
		for i, want := range []string{"other", "flood 1", "flood 2", "flood 3"} {
			network := flood
			if i == 1 {
				network = other // whose turn it was
			}
			r.Leave(Login, network)
			synctest.Wait()
			r.mu.Lock()
			if len(r.turns) != i+1 || r.turns[i] != want {
				t.Errorf("turns %q, want %s next", r.turns, want)
			}
			r.mu.Unlock()
		}
		r.Leave(Login, flood)
		if len(r.networks) != 0 {
			t.Errorf("at the end, %v are counted", r.networks)
		}
	})
}

// The priority among visitors does not concern codes: a visitor of a busy network still
// precedes later codes.
func TestVisitorsOfABusyNetworkHaveTheirTurnBesideCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 24, Waiting: 100})
		busy := netip.MustParsePrefix("192.0.2.0/24")
		Enter := func(c Class, network netip.Prefix, name string) {
			go func() {
				if r.Enter(t.Context(), c, network) == nil && name != "" {
					r.mu.Lock()
					r.turns = append(r.turns, name)
					r.mu.Unlock()
				}
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		for range 10 {
			Enter(Login, busy, "")
		}
		for range 11 {
			Enter(Code, netip.Prefix{}, "")
		}
		Enter(Login, busy, "visitor")
		Enter(Code, netip.Prefix{}, "code")
		r.Leave(Code, netip.Prefix{})
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.turns) != 1 || r.turns[0] != "visitor" {
			t.Errorf("turns %q, want the visitor, who came first", r.turns)
		}
	})
}

// Somebody who forges responses of a slow provider leaves slots for the visitors of other
// networks.
func TestOneNetworkDoesNotHoldAllSlotsOfSlowLogins(t *testing.T) {
	a := newRush(Capacity{Requests: 64, Waiting: 1})
	one, two := netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("192.0.2.0/24")
	var ends []func()
	hold := func(network netip.Prefix) (n int) {
		for {
			Leave, err := a.Slow(network)
			if err != nil {
				if !errors.Is(err, ErrShed) {
					t.Error(err)
				}
				return n
			}
			ends = append(ends, Leave)
			n++
		}
	}
	if got := []int{hold(one), hold(two), hold(one)}; !slices.Equal(got, []int{8, 6, 0}) || a.shed[shedRequests] != 3 {
		t.Errorf("two networks hold %d of 32 slots, and %v were shed", got, a.shed)
	}
	for _, Leave := range ends {
		Leave()
	}
	if len(a.networks) != 0 || a.slow != 0 || hold(two) != 8 {
		t.Errorf("at the end, %v are held", a.networks)
	}
}

func TestAddedSlotsGoToQueuedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 4})
		r.fill(t, Refresh, 1)
		r.come(t.Context(), Refresh, "first")
		r.come(t.Context(), Refresh, "second")
		r.SetCapacity(Capacity{Requests: 3, Waiting: 4})
		synctest.Wait()
		if working, waiting := r.Load(); working != 3 || waiting != 0 {
			t.Errorf("%d run and %d are queued", working, waiting)
		}
		r.SetCapacity(Capacity{Requests: 1})
		for range 2 {
			r.Leave(Refresh, netip.Prefix{})
		}
		r.come(t.Context(), Refresh, "third")
		if working, waiting := r.Load(); working != 1 || waiting != 1 {
			t.Errorf("with fewer slots, %d run and %d are queued", working, waiting)
		}
		r.Leave(Refresh, netip.Prefix{})
		synctest.Wait()
		r.Leave(Refresh, netip.Prefix{})
	})
}

func TestWithoutNumbersThereAreBoundsAllTheSame(t *testing.T) {
	a := NewQueue(Capacity{}, func(string) {})
	if a.slots < minSlots || a.slots > maxSlots || a.waiting != defaultWaiting {
		t.Errorf("%d slots, %d may be queued", a.slots, a.waiting)
	}
}

// Self-registered clients have a few slots beside operators' clients, and any number if
// there are no others.
func TestClientsThatRegisteredThemselvesLeaveSlotsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 128, Waiting: 64})
		r.fill(t, Own, 100)
		for range 100 {
			r.Leave(Own, netip.Prefix{})
		}
		// A request that names an operator's client does not count before authentication.
		r.fill(t, Refresh, 1)
		r.Leave(Refresh, netip.Prefix{})
		r.fill(t, Own, 5)
		for range 5 {
			r.Leave(Own, netip.Prefix{})
		}
		r.Operator()
		r.fill(t, Own, 4)
		r.come(t.Context(), Own, "a fifth")
		r.fill(t, Refresh, 50)
		r.fill(t, Code, 50)
		if got := r.had(); len(got) != 0 {
			t.Errorf("beside an operator's client, %q got a slot", got)
		}
		r.Leave(Own, netip.Prefix{})
		r.Leave(Code, netip.Prefix{})
		if running, _ := r.Load(); running != 3+50+49 || r.used[Code] != 49 {
			t.Errorf("%d run, counted with the reserved slot, and %d slots of codes are used", running, r.used[Code])
		}
		time.Sleep(ownRest - 1)
		synctest.Wait()
		if got := r.had(); len(got) != 0 {
			t.Errorf("%q got a reserved slot", got)
		}
		time.Sleep(1)
		synctest.Wait()
		if got := r.had(); !slices.Equal(got, []string{"a fifth"}) {
			t.Errorf("%q have the slot that became free", got)
		}
		// The limit ends a second after the last request of an operator's client.
		time.Sleep(time.Second)
		r.come(t.Context(), Own, "later")
		if got := r.had(); got[len(got)-1] != "later" {
			t.Errorf("a second later: %q", got)
		}
	})
}

// One network gets a share of the self-registered clients' part of the queue, and other
// networks precede it.
func TestOneNetworkDoesNotFillTheQueueOfClientsThatRegisteredThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 1, Waiting: 72})
		one, two := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
		r.fill(t, Refresh, 1)
		come := func(of netip.Prefix, name string, n int) {
			for range n {
				go func() {
					err := r.Enter(t.Context(), Own, of)
					r.mu.Lock()
					defer r.mu.Unlock()
					if err == nil {
						r.turns = append(r.turns, name)
					}
				}()
				synctest.Wait()
			}
		}
		come(one, "one", 9)
		if n := r.Queued(Own); n != 3 {
			t.Errorf("%d of one network are queued, want a third of 9", n)
		}
		come(two, "two", 1)
		if n := r.Queued(Own); n != 4 {
			t.Errorf("another network found no room: %d", n)
		}
		for i, want := range []string{"one", "two", "one", "one"} {
			class := Own
			if i == 0 {
				class = Refresh
			}
			if got := r.next(class); got != want {
				t.Errorf("turn %d: %q, want %q", i, got, want)
			}
		}
	})
}

// A request that waits for a client's slow host holds no slot. A client and a network
// each have a share of such waits.
func TestASlowHostHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 64, Waiting: 72})
		one, two := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
		done := make(chan struct{})
		var ends []error
		ask := func(of netip.Prefix, client string, n int) {
			for range n {
				go func() {
					held := true
					err := r.Enter(t.Context(), Own, of)
					if err == nil {
						err = Await(r.Aside(t.Context(), of, client, &held), done)
					}
					if held {
						r.Leave(Own, of)
					}
					r.mu.Lock()
					defer r.mu.Unlock()
					ends = append(ends, err)
				}()
				synctest.Wait()
				time.Sleep(2 * ownRest)
			}
		}
		r.Operator()
		ask(one, "slow", 9) // a third of 9
		ask(two, "slow", 2) // a client's share does not depend on the network
		ask(one, "other", 2)
		if len(ends) != 10 || r.asides != 3 || r.shed[shedRequests] != 10 {
			t.Errorf("%d wait, and %d are refused at once, of which %v are counted", r.asides, len(ends), r.shed)
		}
		ask(two, "other", 9)
		if running, _ := r.Load(); running != 0 || r.asides != 5 {
			t.Errorf("%d hold a slot, %d wait", running, r.asides)
		}
		for _, err := range ends {
			if !errors.Is(err, ErrShed) {
				t.Error(err)
			}
		}
		ends = nil
		close(done)
		time.Sleep(time.Second)
		synctest.Wait()
		if running, queued := r.Load(); running != 0 || queued != 0 || r.asides != 0 || len(r.aside)+len(r.networks) != 0 || slices.ContainsFunc(ends, func(err error) bool { return err != nil }) || len(ends) != 5 {
			t.Errorf("at the end %d run, %d are queued, %d wait, %v", running, queued, r.asides, ends)
		}
	})
}

// Waiting for clients' keys does not use a network's share of logins at another provider.
func TestWaitsForKeysTakeNoLogins(t *testing.T) {
	q := NewQueue(Capacity{Requests: 64, Waiting: 4096}, func(string) {})
	of := netip.MustParsePrefix("192.0.2.0/24")
	for range 40 {
		if !q.stepAside(of, "slow", 1) {
			t.Fatal("no room for 40 of 512")
		}
	}
	done, err := q.Slow(of)
	if err != nil {
		t.Fatal(err)
	}
	done()
}

// A wait ends with its request; without Aside it is an ordinary wait.
func TestAWaitEndsWithItsRequest(t *testing.T) {
	q := NewQueue(Capacity{Requests: 8}, func(string) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Enter(ctx, Own, netip.Prefix{}); err != nil {
		t.Fatal(err)
	}
	held := true
	for name, of := range map[string]context.Context{"with": q.Aside(ctx, netip.Prefix{}, "a", &held), "without": ctx} {
		if err := Await(of, nil); !errors.Is(err, context.Canceled) || !held {
			t.Errorf("%s after the wait: %v, held %t", name, err, held)
		}
	}
}

// A request that gets no slot after such a wait has none to release.
func TestAWaitThatFindsNoSlotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 8, Waiting: 8})
		r.fill(t, Own, 1)
		done, end, held := make(chan struct{}), error(nil), true
		go func() { end = Await(r.Aside(t.Context(), netip.Prefix{}, "slow", &held), done) }()
		synctest.Wait()
		r.fill(t, Refresh, 7) // all slots except the one for Check
		close(done)
		time.Sleep(MaxWait)
		synctest.Wait()
		if running, queued := r.Load(); !errors.Is(end, ErrShed) || held || running != 7 || queued != 0 || r.shed[shedLate] != 1 {
			t.Errorf("%v, held %t, %d run, %d are queued, %v", end, held, running, queued, r.shed)
		}
	})
}

// Self-registered clients can fill an eighth of the queue, and displace no operator's
// client.
func TestClientsThatRegisteredThemselvesDoNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(Capacity{Requests: 16, Waiting: 16})
		r.fill(t, Refresh, 14) // all slots except those for Check
		for range 10 {
			r.come(t.Context(), Own, "own")
		}
		if n := r.Queued(Own); n != 2 || r.shed[shedRequests] != 8 {
			t.Errorf("%d are queued, and %v are shed", n, r.shed)
		}
		r.turns = nil
		for range 8 {
			r.come(t.Context(), Code, "code")
		}
		if n := r.Queued(Code); n != 8 {
			t.Errorf("%d codes are queued beside them", n)
		}
		for i := range 9 {
			want := "code"
			if i == 8 {
				want = "own"
			}
			if got := r.next(Refresh); got != want {
				t.Errorf("turn %d: %q, want %q", i, got, want)
			}
		}
		for range 2 {
			r.Leave(Code, netip.Prefix{})
		}
		synctest.Wait()
	})
}
