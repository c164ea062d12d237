package server

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A throttle counts failed client authentications (RFC 6749 section 2.3.1
// demands protection against guessing). Each address, and each client from
// each address, may fail as often as the limit says, and then once for each
// share of a minute.
type throttle struct {
	addresses, clients failures
	interactions       failures // begun, not failed
}

type failureKey struct {
	address netip.Prefix
	client  string
}

func newThrottle(perAddress, perClient, interactions int) *throttle {
	return &throttle{
		addresses: failures{perMinute: perAddress}, clients: failures{perMinute: perClient},
		interactions: failures{perMinute: interactions},
	}
}

// mayBegin reports whether an address may begin another interaction.
func (t *throttle) mayBegin(a netip.Addr) bool {
	return !t.interactions.exhausted(failureKey{network(a, 48), ""})
}

// began counts one.
func (t *throttle) began(a netip.Addr) { t.interactions.add(failureKey{network(a, 48), ""}) }

func (t *throttle) addressBlocked(a netip.Addr) bool {
	return t.addresses.exhausted(failureKey{network(a, 64), ""})
}

func (t *throttle) clientBlocked(a netip.Addr, client string) bool {
	return t.clients.exhausted(failureKey{network(a, 64), client})
}

func (t *throttle) failed(a netip.Addr, client string) {
	t.addresses.add(failureKey{network(a, 64), ""})
	t.clients.add(failureKey{network(a, 64), client})
}

// network is what one party can hold of the address space: an IPv4 address, or
// so many bits of IPv6. Who rents one machine has 64 of them, and who asks for
// it easily has 48.
func network(a netip.Addr, bits int) netip.Prefix {
	if !a.Is6() {
		bits = a.BitLen()
	}
	p, _ := a.Prefix(bits)
	return p
}

// failures holds a bucket for each key that has failed lately. Memory is
// bounded by keeping two generations of at most maxFailures keys: when the
// young one is full, the old one is forgotten.
type failures struct {
	perMinute  int
	mu         sync.Mutex
	young, old map[failureKey]*rate.Limiter
}

const maxFailures = 20_000

func (f *failures) find(k failureKey) *rate.Limiter {
	if l := f.young[k]; l != nil {
		return l
	}
	return f.old[k]
}

func (f *failures) exhausted(k failureKey) bool {
	if f.perMinute == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.young) == 0 && len(f.old) == 0 {
		return false
	}
	l := f.find(k)
	return l != nil && l.Tokens() < 1
}

func (f *failures) add(k failureKey) {
	if f.perMinute == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.find(k)
	if l == nil {
		l = rate.NewLimiter(rate.Every(time.Minute/time.Duration(f.perMinute)), f.perMinute)
	}
	if len(f.young) >= maxFailures || f.young == nil {
		f.old, f.young = f.young, map[failureKey]*rate.Limiter{}
	}
	f.young[k] = l
	l.Allow()
}
