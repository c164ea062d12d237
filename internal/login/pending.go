package login

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/overload"
)

// Pending limits the interactions that one node has begun, by their size in kilobytes. It
// divides time into stretches as long as an interaction lives, and counts those of the
// present stretch and of the one before. The zero value is ready; it is safe for concurrent
// use.
type Pending struct {
	mu           sync.Mutex
	stretch      int64 // the number of the present one
	young, older begun
}

// maxPending bounds, in kilobytes, the interactions that one node begins within
// the lifetime of one, because unauthenticated requests begin them. The last fifth is
// reserved for users who are signed in.
const (
	maxPending      = 128 << 10
	maxPendingGuest = maxPending * 4 / 5
	// One network may have 1/pendingOfParty of the free kilobytes (see overload.Fair):
	// enough for the ordinary logins that throttle.interactions allows an address.
	pendingOfParty = 8
)

// begun is the size of the interactions that began in one stretch, in total and by network.
// An interaction counts as at least one kilobyte, so that maxPending also limits the number
// of networks.
type begun struct {
	kilobytes int
	of        map[netip.Prefix]int
}

// errShare is for a network that has as many pending interactions as one network may have.
var errShare = fmt.Errorf("%w: its network has its share of all", ErrLimited)

// add counts so many kilobytes for a network, if there is room for them and the
// network has no more than its share. The zero network is not limited to a share.
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

// admit charges a visitor for a record of so many kilobytes. Signed-in users may also use
// the reserved fifth of maxPending.
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

// kilobytes returns the weight of a record whose texts have so many bytes.
func kilobytes(size int) int { return 1 + size/1024 }

// A Visitor is the browser that sends a request: its cookies and its network.
type Visitor struct {
	Browser string // content of the browser's cookie
	Session string // content of the session's cookie
	// Network limits the visitor to a share of all interactions; it is the zero prefix
	// if networks do not distinguish visitors.
	Network netip.Prefix
	// Charge, if set, charges the visitor's address for an interaction of so many
	// kilobytes. It returns false if the address has begun too much.
	Charge func(kilobytes int) bool
}
