package overload

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// throttled names a rate limit.
type throttled int

const (
	byAddressFailures throttled = iota
	byClientFailures
	byInteractions
	byAddressRequests
	byClientRequests
	throttles
)

// throttleNames are the names of the limits in the configuration, in metrics and
// in the log.
var throttleNames = [throttles]string{"address_failures", "client_failures", "interactions", "address_requests", "client_requests"}

// Throttle counts, per address and client (GCRA), failed authentications (RFC
// 6749 section 2.3.1 requires protection against guessing), interactions begun,
// and token requests. Nothing is counted for the zero address.
//
// Failures count for a client from one address, so that another caller cannot
// lock the client out. Requests count for a client once it has authenticated, so
// that another caller that knows its name cannot use up its limit. Its methods
// are safe for concurrent use.
type Throttle struct {
	mu       sync.Mutex
	limiters [throttles]Limiter[key]
	on       [throttles]atomic.Bool // has a limit
	met      func(limit string)
}

// key identifies what a limit counts: a network, a client, or a client in a network.
type key struct {
	network netip.Prefix
	client  string
}

// NewThrottle returns a Throttle that calls met with the name of the limit for
// each request that it refuses.
func NewThrottle(l RateLimits, met func(limit string)) *Throttle {
	t := &Throttle{met: met}
	t.SetLimits(l)
	return t
}

// RateLimits are numbers per minute. Zero: no limit.
type RateLimits struct {
	// Failed client authentications of one address, and of one client from one
	// address.
	AddressFailures, ClientFailures int
	// Interactions that one address may begin.
	Interactions int
	// Token requests of one address, and of one client.
	AddressRequests, ClientRequests int
}

// SetLimits changes the limits and keeps what was counted.
func (t *Throttle) SetLimits(l RateLimits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, l := range map[throttled]Limit{
		byAddressFailures: PerMinute(l.AddressFailures), byClientFailures: PerMinute(l.ClientFailures),
		byInteractions: PerMinute(l.Interactions), byAddressRequests: PerMinute(l.AddressRequests), byClientRequests: PerMinute(l.ClientRequests),
	} {
		t.limiters[of].Change(l)
		t.on[of].Store(l.Every > 0)
	}
}

// any reports whether anything is counted against a limit.
func (t *Throttle) any(of throttled) bool {
	if !t.on[of].Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limiters[of].Len() > 0
}

func (t *Throttle) add(of throttled, who key) {
	if !t.on[of].Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limiters[of].Add(who, time.Now())
}

// blocked reports whether key is over its limit.
func (t *Throttle) blocked(of throttled, who key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limiters[of].Wait(who, time.Now()) == 0 {
		return false
	}
	t.met(throttleNames[of])
	return true
}

// Begin counts an interaction of a weight and reports whether it is within the
// limit.
func (t *Throttle) Begin(a netip.Addr, weight int) bool {
	if !a.IsValid() || !t.on[byInteractions].Load() {
		return true
	}
	who, now := key{network: Network(a, 48)}, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limiters[byInteractions].WaitFor(who, weight, now) > 0 {
		t.met(throttleNames[byInteractions])
		return false
	}
	t.limiters[byInteractions].AddWeight(who, weight, now)
	return true
}

// GiveBack takes back an interaction of weight 1 that Begin has counted.
func (t *Throttle) GiveBack(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limiters[byInteractions].GiveBack(key{network: Network(a, 48)}, 1)
}

// AddressBlocked reports whether too many authentications have failed at the
// address.
func (t *Throttle) AddressBlocked(a netip.Addr) bool {
	return a.IsValid() && t.any(byAddressFailures) && t.blocked(byAddressFailures, key{network: Network(a, 64)})
}

// ClientBlocked reports whether too many authentications of the client have
// failed at the address.
func (t *Throttle) ClientBlocked(a netip.Addr, client string) bool {
	return a.IsValid() && t.any(byClientFailures) && t.blocked(byClientFailures, key{Network(a, 64), client})
}

// Failed counts a failed authentication of a client at an address. It does not count
// wider networks, so that failures do not block clients in a neighbouring /64.
func (t *Throttle) Failed(a netip.Addr, client string) {
	if !a.IsValid() {
		return
	}
	t.add(byAddressFailures, key{network: Network(a, 64)})
	t.add(byClientFailures, key{Network(a, 64), client})
}

// RequestOfAddress counts a token request of an address, or returns a *TooMany.
func (t *Throttle) RequestOfAddress(a netip.Addr) error {
	if !a.IsValid() {
		return nil
	}
	return t.request(byAddressRequests, key{network: Network(a, 64)})
}

// RequestOfClient counts a token request of an authenticated client, or returns a
// *TooMany.
func (t *Throttle) RequestOfClient(id string) error {
	return t.request(byClientRequests, key{client: id})
}

// RequestOfClientFrom is RequestOfClient for a public client, counted per address:
// anybody can use its name.
func (t *Throttle) RequestOfClientFrom(a netip.Addr, id string) error {
	if !a.IsValid() {
		return nil
	}
	return t.request(byClientRequests, key{Network(a, 64), id})
}

func (t *Throttle) request(of throttled, who key) error {
	if !t.on[of].Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if wait := t.limiters[of].Wait(who, now); wait > 0 {
		t.met(throttleNames[of])
		return &TooMany{of, wait}
	}
	t.limiters[of].Add(who, now)
	return nil
}

// TooMany is the error of a request over a rate limit.
type TooMany struct {
	of   throttled
	Wait time.Duration // until one request is allowed
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("throttle.%s exceeded: retry in %s", throttleNames[e.of], e.Wait.Round(time.Millisecond))
}
