package login

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// Five networks, each of which begins ten of the heaviest interactions a second for
// an hour, leave room for the logins of others, now and in a new configuration; a
// sixth, which comes when the others have all that they may, finds some too.
func TestFiveNetworksDoNotKeepOthersFromLoggingIn(t *testing.T) {
	t.Parallel()
	lifetime := (10 * time.Minute).Milliseconds()
	heaviest := (&Interaction{Request: oauth.AuthorizationRequest{
		RedirectURI: strings.Repeat("x", oauth.MaxRedirectURI), State: make([]byte, MaxGuestState), Scope: oauth.Scope(strings.Repeat("x", 1024)),
	}}).weight()
	if heaviest < 8 {
		t.Fatalf("the heaviest interaction weighs %d kilobytes", heaviest)
	}
	network := func(n int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
	}
	var p Pending
	at := grant.Instant(1000 * lifetime)
	began := [2]int{}
	for second := range 3600 {
		for n := range 50 {
			if p.add(at, lifetime, network(n%5), heaviest, maxPendingGuest) == nil {
				began[0] += heaviest
			}
		}
		if err := p.add(at, lifetime, network(100+second%1000), 1, maxPendingGuest); err != nil {
			t.Fatalf("after %d seconds, somebody elsewhere: %v", second, err)
		}
		at = at.Add(time.Second)
		if second == 300 {
			p = Pending{stretch: p.stretch, young: clone(p.young), older: clone(p.older)}
		}
	}
	for range 1000 {
		if p.add(at, lifetime, network(6), heaviest, maxPendingGuest) == nil {
			began[1] += heaviest
		}
	}
	if began[0] < maxPendingGuest/5 || began[1] < maxPendingGuest/20 {
		t.Errorf("the five began %d kilobytes, and a sixth %d", began[0], began[1])
	}
	// Those behind a proxy that is not declared cannot be told apart.
	if err := p.add(at, lifetime, netip.Prefix{}, heaviest, maxPendingGuest); err != nil {
		t.Error(err)
	}
	if err := p.add(at, lifetime, network(0), 1<<20, 2<<20); !errors.Is(err, ErrLimited) {
		t.Errorf("a network that has its share is told %v", err)
	}
}

// An address is charged for all that is stored of a request, and before anything
// is.
func TestAnInteractionIsChargedByItsWeight(t *testing.T) {
	h := newHouse(t)
	v := someone()
	charged, may := []int{}, true
	v.Charge = func(kilobytes int) bool {
		charged = append(charged, kilobytes)
		return may
	}
	h.begin(asking(h.c), v, StepLogin)
	h.begin(asking(h.c, func(r *oauth.AuthorizationRequest) { r.State = make([]byte, MaxGuestState) }), v, StepLogin)
	may = false
	if _, err := h.Authorize(t.Context(), asking(h.c), v); !errors.Is(err, ErrLimited) {
		t.Errorf("one that may not: %v", err)
	}
	if !slices.Equal(charged, []int{1, 6, 1}) {
		t.Errorf("charged %v", charged)
	}
	if h.Pending.young.kilobytes != 7 {
		t.Errorf("%d kilobytes are begun", h.Pending.young.kilobytes)
	}
	it := Interaction{Request: oauth.AuthorizationRequest{Resources: []string{strings.Repeat("x", 1024)}, UILocales: strings.Repeat("x", 512), LoginHint: strings.Repeat("x", 512)}}
	if it.weight() != 3 {
		t.Errorf("2 kilobytes of resources, locales and hint weigh %d", it.weight())
	}
}

// Nothing long is kept for somebody of whom nothing is known. The client hears
// why, with its state.
func TestAStateIsBoundedForWhoIsNotSignedIn(t *testing.T) {
	h := newHouse(t)
	of := func(n int) func(r *oauth.AuthorizationRequest) {
		return func(r *oauth.AuthorizationRequest) { r.State = bytes.Repeat([]byte{'s'}, n) }
	}
	h.begin(asking(h.c, of(MaxGuestState)), someone(), StepLogin)
	_, err := h.Authorize(t.Context(), asking(h.c, of(MaxGuestState+1)), someone())
	var client *ClientError
	if !errors.As(err, &client) || client.Public != oauth.ErrGuestState || client.SignedIn || !strings.Contains(client.Callback(""), strings.Repeat("s", MaxGuestState+1)) {
		t.Errorf("%.100v", err)
	}
	if !strings.Contains(oauth.ErrGuestState.Description, strconv.Itoa(MaxGuestState)) {
		t.Errorf("%q does not say how long it may be", oauth.ErrGuestState.Description)
	}
	v := h.signedIn("alice")
	it := h.begin(asking(h.c, of(8192)), v, StepConsent)
	// The session that ends meanwhile changes nothing.
	if _, err := h.restart(t.Context(), it, someone(), false); err != nil {
		t.Error(err)
	}
}

func clone(b begun) begun { return begun{b.kilobytes, maps.Clone(b.of)} }
