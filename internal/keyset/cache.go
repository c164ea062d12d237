package keyset

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/fetch"
)

// A Cache fetches key sets and keeps them. Its methods are safe for concurrent use.
type Cache struct{ registered, own *fetch.Cache[Set] }

// NewCache returns an empty Cache. Own fetches the sets of clients that registered
// themselves, and done, unless it is nil, is called after each of these fetches.
func NewCache(now func() time.Time, own *fetch.Client, done func(address string, err error)) *Cache {
	get := func(ctx context.Context, key string) (fetch.Answer, error) {
		uri, ca, _ := strings.Cut(key, "\n")
		roots, err := Roots(ca)
		if err != nil {
			return fetch.Answer{}, err
		}
		anywhere := &fetch.Client{Reachable: func(netip.Addr) bool { return true }, Roots: roots}
		return anywhere.Get(ctx, uri)
	}
	read := func(operators bool) func(string, []byte) (Set, error) {
		return func(_ string, body []byte) (Set, error) { return ParseFetched(body, operators) }
	}
	c := &Cache{fetch.NewCache(get, read(true), now), fetch.NewCache(own.Get, read(false), now)}
	c.registered.Stale, c.own.Stale, c.own.Done = stale, stale, done
	return c
}

// stale is how long keys serve after their time if they cannot be fetched.
const stale = 24 * time.Hour

// Registered returns the key set at an address that an operator has registered,
// which may be private, with certificates (PEM) to trust there beside the system's. A
// set that is not enough is fetched anew, at most once a minute, and returned as it is
// until then.
func (c *Cache) Registered(ctx context.Context, uri, ca string, enough func(Set) bool) (Set, error) {
	return c.registered.Get(ctx, uri+"\n"+ca, netip.Prefix{}, enough)
}

// SelfRegistered is Registered for an address that a client has given itself: it is
// fetched, for the network of who uses it, only if it is globally reachable.
func (c *Cache) SelfRegistered(ctx context.Context, uri string, from netip.Prefix, enough func(Set) bool) (Set, error) {
	return c.own.Get(ctx, uri, from, enough)
}
