package login

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/overload"
)

// Pending counts the kilobytes of the interactions that one node began in this
// stretch of time and in the one before. The zero value is ready; it is safe for
// concurrent use.
type Pending struct {
	mu           sync.Mutex
	stretch      int64
	young, older begun
}

// maxPending bounds, in kilobytes, the interactions that one node begins within
// the lifetime of one, because unauthenticated requests begin them. The last fifth is
// reserved for users who are signed in.
const (
	maxPending      = 128 << 10
	maxPendingGuest = maxPending * 4 / 5
	// pendingOfParty is which part of what is free one network may have: enough
	// for as many ordinary logins as throttle.interactions allows an address.
	pendingOfParty = 8
)

// begun is what was begun in a stretch: together, and by each network. Each of
// these has a kilobyte at least, so that maxPending bounds them too.
type begun struct {
	kilobytes int
	of        map[netip.Prefix]int
}

// errShare is for a network that has as many pending interactions as one network may have.
var errShare = fmt.Errorf("%w: its network has its share of all", ErrLimited)

// add counts so many kilobytes for a network, if there is room for them and the
// network has no more than its share. The zero network has no share.
func (p *Pending) add(now grant.Instant, lifetime int64, network netip.Prefix, kilobytes, most int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch stretch := int64(now) / max(1, lifetime); stretch {
	case p.stretch:
	case p.stretch + 1:
		p.stretch, p.older, p.young = stretch, p.young, begun{}
	default:
		p.stretch, p.older, p.young = stretch, begun{}, begun{}
	}
	free := most - p.young.kilobytes - p.older.kilobytes
	switch {
	case kilobytes > free:
		return ErrCrowded
	case network.IsValid() && !overload.Fair(p.young.of[network]+p.older.of[network], kilobytes, free, pendingOfParty):
		return errShare
	}
	p.young.kilobytes += kilobytes
	if network.IsValid() {
		if p.young.of == nil {
			p.young.of = map[netip.Prefix]int{}
		}
		p.young.of[network] += kilobytes
	}
	return nil
}

// admit charges a visitor, whose user is signed in or not, for so many kilobytes of
// what is stored until it is answered.
func (p *Pending) admit(now grant.Instant, lifetime int64, v Visitor, weight int, signedIn bool) error {
	if v.Charge != nil && !v.Charge(weight) {
		return ErrLimited
	}
	most := maxPendingGuest
	if signedIn {
		most = maxPending
	}
	return p.add(now, lifetime, v.Network, weight, most)
}

// kilobytes is how much of the store a record takes whose texts have so many bytes.
func kilobytes(size int) int { return 1 + size/1024 }

// A Visitor is what a browser shows of itself.
type Visitor struct {
	Browser string // content of the browser's cookie
	Session string // content of the session's cookie
	// Network is where the visitor is, to have a share of the interactions of
	// all; the zero prefix if visitors cannot be told apart by it.
	Network netip.Prefix
	// Charge, if set, charges the visitor's address for an interaction of so many
	// kilobytes. It returns false if the address has begun too much.
	Charge func(kilobytes int) bool
}
