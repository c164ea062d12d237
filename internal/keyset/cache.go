package keyset

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/fetch"
)

// A Cache fetches key sets and keeps them. Its methods are safe for concurrent use.
type Cache struct{ registered *fetch.Cache[Set] }

// NewCache returns an empty Cache.
func NewCache(now func() time.Time) *Cache {
	get := func(ctx context.Context, key string) (fetch.Answer, error) {
		uri, ca, _ := strings.Cut(key, "\n")
		roots, err := Roots(ca)
		if err != nil {
			return fetch.Answer{}, err
		}
		anywhere := &fetch.Client{Reachable: func(netip.Addr) bool { return true }, Roots: roots}
		return anywhere.Get(ctx, uri)
	}
	c := &Cache{fetch.NewCache(get, func(_ string, body []byte) (Set, error) { return Parse(body) }, now)}
	c.registered.Stale = 24 * time.Hour
	return c
}

// Registered returns the key set at an address that an operator has registered,
// which may be private, with certificates (PEM) to trust there beside the system's. A
// set that is not enough is fetched anew, at most once a minute.
func (c *Cache) Registered(ctx context.Context, uri, ca string, enough func(Set) bool) (Set, error) {
	return c.registered.Get(ctx, uri+"\n"+ca, netip.Prefix{}, enough)
}
