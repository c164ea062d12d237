package overload

import "net/netip"

// Network returns the network of an IPv4 address alone, or of the first bits of an IPv6
// address.
func Network(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap()
	if !a.Is6() {
		bits = a.BitLen()
	}
	p, _ := a.Prefix(bits)
	return p
}

// Party returns the largest network that one party gets without effort: 24 bits of an
// IPv4 address, 48 of an IPv6 address (RFC 6177). Shared resources are divided among
// these networks; see Fair.
func Party(a netip.Addr) netip.Prefix {
	if a = a.Unmap(); a.Is4() {
		p, _ := a.Prefix(24)
		return p
	}
	return Network(a, 48)
}

// A Level is a network around an address, and what an event weighs there.
type Level struct {
	Network netip.Prefix
	Weight  int
}

// LevelScale is the weight of an event at its own address. A limit for Levels must be
// that many times the limit of one address.
const LevelScale = 4

// Levels returns the networks in which an event at an address counts: an IPv4
// address; or the 64, 56 and 48 bits of IPv6, of which a rented machine, a home
// and a site have their own (RFC 6177). A /56 may do twice as much as a /64, and
// a /48 four times.
func Levels(a netip.Addr) (levels [3]Level, n int) {
	levels[0] = Level{Network(a, 64), LevelScale}
	if a = a.Unmap(); !a.Is6() {
		return levels, 1
	}
	levels[1], levels[2] = Level{Network(a, 56), LevelScale / 2}, Level{Network(a, 48), LevelScale / 4}
	return levels, 3
}
