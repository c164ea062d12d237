package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Settings are all fields of a registration that people choose, in the order in
// which they are shown and checked.
var Settings = slices.Concat(generalSettings, exchangeSettings, assertionSettings)

// Client returns the new client, and the secret that was generated for it. Show the secret
// once: the client contains only its HMAC under the ring's pepper.
func (r Registration) Client(realm string, ring *keys.Ring, policy grant.Policy, now grant.Instant) (c store.Client, secret oauth.Secret, err error) {
	c = store.Client{
		ID: r.ID, Realm: realm, State: store.ClientEnabled, CreatedAt: now, UpdatedAt: now, Version: 1, Secrets: []store.Secret{},
	}
	if c.ID == "" {
		c.ID = keys.RandomText(24)
	}
	if c.ID == "." || c.ID == ".." {
		return c, "", &oauth.Invalid{Field: "id", Message: fmt.Sprintf("%q means another address in a URL (RFC 3986 section 5.2.4): choose another id", c.ID)}
	}
	if c.ID == "self_registered" {
		return c, "", &oauth.Invalid{Field: "id", Message: "is the label of clients that registered themselves in the metrics: choose another id"}
	}
	if c, err = r.apply(c, policy); err != nil {
		return c, "", err
	}
	c.DateBeyond(now)
	switch {
	case c.Public(), c.Auth.Asserts():
	case r.Secret != "":
		c.Secrets = append(c.Secrets, store.Secret{ID: keys.RandomText(12), Slow: keys.HashSlow(r.Secret), CreatedAt: now})
	default:
		c, _, secret, err = AddSecret(c, ring, now, 0)
	}
	return c, secret, err
}

// Registered returns the registration of c, without its secrets.
func Registered(c store.Client) Registration {
	return Registration{ID: c.ID, Settings: c.Settings.Clone()}
}

// Change returns c with the settings of r, which follow the rules for a new client.
func (r Registration) Change(c store.Client, policy grant.Policy) (store.Client, error) {
	// The grants of a public client could have been obtained without a secret: they must
	// not become those of a client that proves itself by one, nor the other way round.
	if (r.Auth == store.AuthNone) != c.Public() {
		return c, &oauth.Invalid{Field: "auth-method", Message: "a client does not become public or confidential: register another one"}
	}
	r.kept = c.Settings
	return r.apply(c.Clone(), policy)
}

// Check completes the settings and returns an error about the first one that is wrong. It
// makes only the checks that do not depend on the deployment.
func (r *Registration) Check() error {
	for i, name := range r.GrantTypes { // before the checks of other settings compare them
		if strings.HasSuffix(store.GrantDeviceCode, ":"+name) {
			r.GrantTypes[i] = store.GrantDeviceCode
		}
	}
	for _, s := range Settings {
		if s.check == nil {
			continue
		}
		err := s.check(r)
		if errors.As(err, new(*oauth.Invalid)) {
			return err
		}
		if err != nil {
			return &oauth.Invalid{Field: s.Flag, Message: err.Error()}
		}
	}
	return nil
}

// apply checks r and copies its settings, but no secret, to c.
func (r Registration) apply(c store.Client, policy grant.Policy) (store.Client, error) {
	if r.GrantTypes == nil {
		r.GrantTypes = slices.Clone(store.DefaultGrantTypes)
		if (r.Introspect || len(r.ExchangeFrom) > 0) && len(r.RedirectURIs) == 0 {
			r.GrantTypes = []string{}
		}
	}
	if len(r.ID) > maxClientID || strings.ContainsFunc(r.ID, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return c, &oauth.Invalid{Field: "id", Message: fmt.Sprintf("at most %d printable ASCII characters without spaces", maxClientID)}
	}
	if err := r.Check(); err != nil {
		return c, err
	}
	switch longest := policy.AccessLifetime - time.Minute; {
	case r.Secret != "" && r.Auth == store.AuthNone:
		return c, &oauth.Invalid{Field: "secret", Message: "a public client has none"}
	case r.Secret != "" && r.Auth.Asserts():
		return c, &oauth.Invalid{Field: "secret", Message: "a client that presents assertions has none"}
	case r.Secret != "" && (len(r.Secret) < 8 || len(r.Secret) > 512):
		return c, &oauth.Invalid{Field: "secret-stdin", Message: "an existing secret has 8 to 512 bytes"}
	case r.RetryWindow == nil:
	case c.RetryWindow != nil && *c.RetryWindow == *r.RetryWindow:
		// It was valid when it was set, and stays if the limit is lower now.
	case *r.RetryWindow < 0 || r.RetryWindow.Duration() > longest:
		return c, &oauth.Invalid{Field: "retry-window", Message: fmt.Sprintf("0s to %s: a minute less than the access token's lifetime", longest)}
	}
	c.LongestIDToken = store.Milliseconds(c.LongestIDTokens().Milliseconds())
	c.Settings = r.Settings
	if c.RedirectURIs == nil {
		c.RedirectURIs = []string{}
	}
	var err error
	c.Scope, err = oauth.ParseScope(string(r.Scope))
	c.Scope = c.Scope.Without(oauth.OfflineAccess) // every client gets refresh tokens
	return c, err
}

// AddSecret gives c another secret, which expires at the given instant unless
// that is zero. Its text is to be shown once.
func AddSecret(c store.Client, ring *keys.Ring, now, expires grant.Instant) (store.Client, store.Secret, oauth.Secret, error) {
	if c.Public() {
		return c, store.Secret{}, "", &oauth.Invalid{Field: "client", Message: "it is public and has no secret"}
	}
	if c.Auth.Asserts() {
		return c, store.Secret{}, "", &oauth.Invalid{Field: "client", Message: "it presents assertions and has no secret"}
	}
	if len(c.Secrets) >= MaxSecrets {
		return c, store.Secret{}, "", &oauth.Invalid{Field: "client", Message: fmt.Sprintf("it has %d secrets already: revoke one first", MaxSecrets)}
	}
	if expires != 0 && expires <= now {
		return c, store.Secret{}, "", &oauth.Invalid{Field: "expires", Message: "must be in the future"}
	}
	text := keys.NewSecret()
	s := store.Secret{ID: keys.RandomText(12), Digest: ring.Digest(text), CreatedAt: now, ExpiresAt: expires}
	c = c.Clone()
	c.Secrets = append(c.Secrets, s)
	return c, s, text, nil
}

// SecretVerdict returns why a secret should not be revoked at now, or "" if it is
// safe.
func SecretVerdict(c store.Client, s store.Secret, now grant.Instant) string {
	live := 0
	for _, other := range c.Secrets {
		if !other.Expired(now) {
			live++
		}
	}
	switch {
	case s.Expired(now):
		return ""
	case live == 1:
		return "it is the client's only secret"
	case s.LastUsedAt != 0 && now.Since(s.LastUsedAt) < 24*time.Hour:
		return fmt.Sprintf("it was used %s ago", max(0, now.Since(s.LastUsedAt)).Round(time.Second))
	}
	return ""
}
