package overload

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A throttled request meets one of these limits.
type throttled int

const (
	byAddressFailures throttled = iota
	byClientFailures
	byInteractions
	byAddressRequests
	byClientRequests
	throttles
)

// throttleNames are what metrics and the log call them: the names of their
// settings.
var throttleNames = [throttles]string{"address_failures", "client_failures", "interactions", "address_requests", "client_requests"}

// A Throttle counts what comes from one address, and what one client does, in
// a minute: failed authentications (RFC 6749 section 2.3.1 demands protection
// against guessing), interactions that are begun, and token requests. Each may
// happen as often as its limit says, and then once for each share of a minute.
//
// The zero address counts nothing. Failures count for the client from this address, so that a stranger cannot
// lock the owner out. Requests count for a client once it is authenticated, so
// that a stranger who knows its name cannot use up its share.
type Throttle struct {
	mu   sync.Mutex
	sets [throttles]Set[party]
	on   [throttles]atomic.Bool // has a limit
	met  func(limit string)
}

type party struct {
	network netip.Prefix
	client  string
}

// NewThrottle makes a Throttle. Met is called with the name of a limit's setting
// when a request meets it.
func NewThrottle(l ThrottleLimits, met func(limit string)) *Throttle {
	t := &Throttle{met: met}
	t.SetLimits(l)
	return t
}

// ThrottleLimits are in a minute. Zero: no limit.
type ThrottleLimits struct {
	// Failed client authentications of one address, and of one client from one
	// address.
	AddressFailures, ClientFailures int
	// Interactions that one address may begin.
	Interactions int
	// Token requests of one address, and of one client.
	AddressRequests, ClientRequests int
}

// SetLimits changes the limits. What has been counted stays, as far as it counts
// under the new ones.
func (t *Throttle) SetLimits(l ThrottleLimits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, l := range map[throttled]Limit{
		byAddressFailures: PerMinute(l.AddressFailures).Times(LevelScale), byClientFailures: PerMinute(l.ClientFailures),
		byInteractions: PerMinute(l.Interactions), byAddressRequests: PerMinute(l.AddressRequests), byClientRequests: PerMinute(l.ClientRequests),
	} {
		t.sets[of].Change(l)
		t.on[of].Store(l.Every > 0)
	}
}

// any reports whether anything counts against a limit.
func (t *Throttle) any(of throttled) bool {
	if !t.on[of].Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sets[of].Len() > 0
}

func (t *Throttle) add(of throttled, who party, weight int) {
	if !t.on[of].Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sets[of].AddWeight(who, weight, time.Now())
}

// blocked reports whether the party has to wait.
func (t *Throttle) blocked(of throttled, who party, weight int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets[of].WaitFor(who, weight, time.Now()) == 0 {
		return false
	}
	t.met(throttleNames[of])
	return true
}

// Begin counts an interaction of a weight, unless there were too many.
func (t *Throttle) Begin(a netip.Addr, weight int) bool {
	if !a.IsValid() || !t.on[byInteractions].Load() {
		return true
	}
	who, now := party{network: Network(a, 48)}, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets[byInteractions].WaitFor(who, weight, now) > 0 {
		t.met(throttleNames[byInteractions])
		return false
	}
	t.sets[byInteractions].AddWeight(who, weight, now)
	return true
}

// GiveBack takes back an interaction of weight 1 that was counted.
func (t *Throttle) GiveBack(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sets[byInteractions].GiveBack(party{network: Network(a, 48)}, 1)
}

// AddressBlocked reports whether too many authentications have failed at the
// address, or in a network around it.
func (t *Throttle) AddressBlocked(a netip.Addr) bool {
	if !a.IsValid() || !t.any(byAddressFailures) {
		return false
	}
	levels, n := Levels(a)
	for _, l := range levels[:n] {
		if t.blocked(byAddressFailures, party{network: l.Network}, l.Weight) {
			return true
		}
	}
	return false
}

// ClientBlocked reports whether too many authentications of the client have
// failed at the address.
func (t *Throttle) ClientBlocked(a netip.Addr, client string) bool {
	return a.IsValid() && t.any(byClientFailures) && t.blocked(byClientFailures, party{Network(a, 64), client}, 1)
}

// Failed counts a failed authentication of a client at an address.
func (t *Throttle) Failed(a netip.Addr, client string) {
	if !a.IsValid() {
		return
	}
	levels, n := Levels(a)
	for _, l := range levels[:n] {
		t.add(byAddressFailures, party{network: l.Network}, l.Weight)
	}
	t.add(byClientFailures, party{Network(a, 64), client}, 1)
}

// RequestOfAddress counts a token request of an address, unless there were too
// many.
func (t *Throttle) RequestOfAddress(a netip.Addr) error {
	if !a.IsValid() {
		return nil
	}
	return t.request(byAddressRequests, party{network: Network(a, 64)})
}

// RequestOfClient counts a token request of a client that has authenticated,
// unless there were too many.
func (t *Throttle) RequestOfClient(id string) error {
	return t.request(byClientRequests, party{client: id})
}

// RequestOfClientFrom is RequestOfClient for a client that cannot authenticate:
// anybody can use its name, so each address is one of its own.
func (t *Throttle) RequestOfClientFrom(a netip.Addr, id string) error {
	if !a.IsValid() {
		return nil
	}
	return t.request(byClientRequests, party{Network(a, 64), id})
}

func (t *Throttle) request(of throttled, who party) error {
	if !t.on[of].Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if wait := t.sets[of].Wait(who, now); wait > 0 {
		t.met(throttleNames[of])
		return &TooMany{of, wait}
	}
	t.sets[of].Add(who, now)
	return nil
}

// TooMany is a request that comes too early.
type TooMany struct {
	of   throttled
	Wait time.Duration
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("throttle.%s: free in %s", throttleNames[e.of], e.Wait.Round(time.Millisecond))
}
