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

// Five networks that each begin ten of the heaviest interactions a second, for an hour,
// leave room for the logins of others, even after a reload of the configuration. A sixth
// network still finds room when the five are at their limits.
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
			t.Fatalf("after %d seconds, another network: %v", second, err)
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
	// Requests behind an undeclared proxy have no network: they cannot be told apart, and
	// have no limit of their own.
	if err := p.add(at, lifetime, netip.Prefix{}, heaviest, maxPendingGuest); err != nil {
		t.Error(err)
	}
	if err := p.add(at, lifetime, network(0), 1<<20, 2<<20); !errors.Is(err, ErrLimited) {
		t.Errorf("a network that has used up its limit gets %v", err)
	}
}

// An address is charged for the stored size of a request, before anything is stored.
func TestAnInteractionIsChargedByItsWeight(t *testing.T) {
	h := newFixture(t)
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
		t.Errorf("a request beyond the limit: %v", err)
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

// No long state is stored for a user who is not signed in. The client receives an error
// with its state.
func TestTheStateOfAGuestIsLimited(t *testing.T) {
	h := newFixture(t)
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
	// A session that ends later does not apply the limit to the running interaction.
	if _, err := h.restart(t.Context(), it, someone(), false); err != nil {
		t.Error(err)
	}
}

func clone(b begun) begun { return begun{b.kilobytes, maps.Clone(b.of)} }
