package fetch

import "net/netip"

// special are the blocks of globally routed space that are not globally reachable,
// or not unicast: the IANA IPv4 and IPv6 special-purpose address registries (RFC
// 6890, as updated to October 2025). They include the anycast exceptions inside
// 192.0.0.0/24 and 2001::/23, which serve no documents.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// unicast is the only space of IPv6 that IANA has allocated to global unicast (RFC
// 4291 section 2.4). Mapped, translated (64:ff9b::/96), unique local, link-local and
// multicast addresses are outside of it.
var unicast = netip.MustParsePrefix("2000::/3")

func prefixes(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Global reports whether a is globally reachable: a unicast address of the public
// Internet, and not one of a private network, of loopback or of another special block.
func Global(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !unicast.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
