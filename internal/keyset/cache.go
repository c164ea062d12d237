package keyset

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/fetch"
)

// A Cache fetches key sets and keeps them. Its methods are safe for concurrent use.
type Cache struct{ registered, discovered, own *fetch.Cache[Set] }

// NewCache returns an empty Cache. Own fetches the sets of clients that registered
// themselves, and done, unless it is nil, is called after each of these fetches.
func NewCache(now func() time.Time, own *fetch.Client, done func(address string, err error)) *Cache {
	anywhere := func(key string) (string, *fetch.Client, error) {
		uri, ca, _ := strings.Cut(key, "\n")
		roots, err := Roots(ca)
		return uri, &fetch.Client{Reachable: func(netip.Addr) bool { return true }, Roots: roots}, err
	}
	get := func(ctx context.Context, key string) (fetch.Answer, error) {
		uri, c, err := anywhere(key)
		if err != nil {
			return fetch.Answer{}, err
		}
		return c.Get(ctx, uri)
	}
	discover := func(ctx context.Context, key string) (fetch.Answer, error) {
		issuer, c, err := anywhere(key)
		if err != nil {
			return fetch.Answer{}, err
		}
		return discovered(ctx, c, issuer)
	}
	read := func(operators bool) func(string, []byte) (Set, error) {
		return func(_ string, body []byte) (Set, error) { return ParseFetched(body, operators) }
	}
	c := &Cache{fetch.NewCache(get, read(true), now), fetch.NewCache(discover, read(true), now), fetch.NewCache(own.Get, read(false), now)}
	c.registered.Stale, c.discovered.Stale, c.own.Stale, c.own.Done = stale, stale, stale, done
	return c
}

// discovered fetches the key set that the metadata of an issuer name: those of OpenID
// Connect Discovery or, if they cannot be fetched, those of RFC 8414.
func discovered(ctx context.Context, c *fetch.Client, issuer string) (fetch.Answer, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return fetch.Answer{}, fmt.Errorf("%w: not a URL", fetch.ErrAddress)
	}
	a, err := c.Get(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		path := strings.TrimSuffix(u.Path, "/")
		u.Path, u.RawPath = "/.well-known/oauth-authorization-server"+path, ""
		var again error
		if a, again = c.Get(ctx, u.String()); again != nil {
			return a, err
		}
	}
	var m struct {
		Issuer  string `json:"issuer"`
		KeysURI string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(a.Body, &m); {
	case err != nil:
		return a, fmt.Errorf("%w: %w", fetch.ErrAnswer, err)
	case m.Issuer != issuer: // OpenID Connect Discovery section 4.3
		return a, fmt.Errorf("%w: the metadata name another issuer", fetch.ErrAnswer)
	}
	return c.Get(ctx, m.KeysURI)
}

// stale is how long expired keys are still used while they cannot be fetched.
const stale = 24 * time.Hour

// Registered returns the key set at an address that an operator has registered, which
// may be private. Ca is PEM certificates to trust beside the system's. If enough reports
// false for the set, it is fetched again, at most once a minute; within the minute, it is
// returned in any case. A set that was fetched before since is ignored.
func (c *Cache) Registered(ctx context.Context, uri, ca string, since time.Time, enough func(Set) bool) (Set, error) {
	return c.registered.GetSince(ctx, uri+"\n"+ca, since, netip.Prefix{}, enough)
}

// Discovered is Registered for the key set that the metadata of an issuer name.
func (c *Cache) Discovered(ctx context.Context, issuer, ca string, since time.Time, enough func(Set) bool) (Set, error) {
	return c.discovered.GetSince(ctx, issuer+"\n"+ca, since, netip.Prefix{}, enough)
}

// SelfRegistered is Registered for an address that a client has registered itself, which
// must be globally reachable. The fetch counts for the network from.
func (c *Cache) SelfRegistered(ctx context.Context, uri string, from netip.Prefix, enough func(Set) bool) (Set, error) {
	return c.own.Get(ctx, uri, from, enough)
}
