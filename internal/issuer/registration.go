package issuer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Bounds of a client's registration.
const (
	maxClientID     = 64
	maxClientName   = 100
	maxRedirectURIs = 20
	maxAudiences    = 5
	maxAudience     = 255
	MaxSecrets      = 10
)

// A Registration is what an administrator says of a new client.
type Registration struct {
	ID           string // "" to have one generated
	Name         string
	RedirectURIs []string
	Scope        string
	GrantTypes   []string // nil for all
	Auth         store.AuthRule
	Native       bool
	NoPKCE       bool
	FirstParty   bool // the provider's own: users are not asked for consent
	NoRotation   bool
	RetryWindow  *time.Duration // nil for the deployment's
	// Access tokens: empty members are the defaults of store.Client.
	TokenFormat store.TokenFormat
	SigningAlg  keys.Purpose
	JWTType     string
	Audience    []string
	// Introspect makes it a resource server. One without redirect URIs gets no
	// grant types unless they are named.
	Introspect         bool
	IntrospectAudience []string
	// Secret is one that exists already; "" to have one generated, unless the
	// client is public.
	Secret oauth.Secret
}

// Client makes the client, and the secret that was generated for it: its text
// is to be shown once, and then only the ring can tell it.
func (r Registration) Client(realm string, ring *keys.Ring, policy grant.Policy, now grant.Instant) (c store.Client, secret oauth.Secret, err error) {
	c = store.Client{
		ID: r.ID, Realm: realm, State: store.ClientEnabled, CreatedAt: now, UpdatedAt: now, Version: 1, Secrets: []store.Secret{},
	}
	if c.ID == "" {
		c.ID = keys.RandomText(24)
	}
	if c, err = r.apply(c, policy); err != nil {
		return c, "", err
	}
	switch {
	case c.Public():
	case r.Secret != "":
		c.Secrets = append(c.Secrets, store.Secret{ID: keys.RandomText(12), Slow: keys.HashSlow(r.Secret), CreatedAt: now})
	default:
		c, _, secret, err = AddSecret(c, ring, now, 0)
	}
	return c, secret, err
}

// Registered is what has made c, but for its secrets and the window of retries,
// which only says what is to be changed.
func Registered(c store.Client) Registration {
	c = c.Clone()
	return Registration{
		ID: c.ID, Name: c.Name, RedirectURIs: c.RedirectURIs, Scope: string(c.Scope), GrantTypes: c.GrantTypes,
		Auth: c.Auth, Native: c.Native, NoPKCE: !c.RequirePKCE, FirstParty: c.FirstParty, NoRotation: c.NoRotation,
		TokenFormat: c.TokenFormat, SigningAlg: c.SigningAlg, JWTType: c.JWTType, Audience: c.Audience,
		Introspect: c.Introspect, IntrospectAudience: c.IntrospectAudience,
	}
}

// Change is c as r describes it, by the rules for a new client.
func (r Registration) Change(c store.Client, policy grant.Policy) (store.Client, error) {
	// A public client's grants were given to whoever held its id, and a
	// confidential one's to the holder of a secret.
	if (r.Auth == store.AuthNone) != c.Public() {
		return c, &oauth.Invalid{Field: "auth-method", Message: "a client does not become public or confidential: register another one"}
	}
	return r.apply(c.Clone(), policy)
}

// apply gives c everything that r says but secrets.
func (r Registration) apply(c store.Client, policy grant.Policy) (store.Client, error) {
	if r.Introspect && r.GrantTypes == nil && len(r.RedirectURIs) == 0 {
		r.GrantTypes = []string{}
	}
	if err := r.check(policy); err != nil {
		return c, err
	}
	if err := r.checkTokens(); err != nil {
		return c, err
	}
	scope, err := oauth.ParseScope(r.Scope)
	if err != nil {
		return c, &oauth.Invalid{Field: "scope", Message: err.Error()}
	}
	if scope == "" && (r.GrantTypes == nil || len(r.GrantTypes) > 0) {
		return c, &oauth.Invalid{Field: "scope", Message: "missing: a client needs at least one, because every answer names the scope"}
	}
	c.Name, c.Auth, c.Native, c.RequirePKCE, c.NoRotation, c.Scope = r.Name, r.Auth, r.Native, !r.NoPKCE, r.NoRotation, scope
	c.FirstParty = r.FirstParty
	c.TokenFormat, c.SigningAlg, c.JWTType, c.Audience = r.TokenFormat, r.SigningAlg, r.JWTType, r.Audience
	c.Introspect, c.IntrospectAudience = r.Introspect, r.IntrospectAudience
	c.GrantTypes, c.RedirectURIs = r.GrantTypes, r.RedirectURIs
	if c.GrantTypes == nil {
		c.GrantTypes = slices.Clone(store.GrantTypes)
	}
	if c.RedirectURIs == nil {
		c.RedirectURIs = []string{}
	}
	if r.RetryWindow != nil {
		ms := store.Milliseconds(r.RetryWindow.Milliseconds())
		c.RetryWindow = &ms
	}
	return c, nil
}

func (r Registration) check(policy grant.Policy) error {
	if len(r.ID) > maxClientID || strings.ContainsFunc(r.ID, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return &oauth.Invalid{Field: "id", Message: fmt.Sprintf("at most %d printable ASCII characters without spaces", maxClientID)}
	}
	if strings.TrimSpace(r.Name) == "" || len(r.Name) > maxClientName {
		return &oauth.Invalid{Field: "name", Message: fmt.Sprintf("missing or too long: 1 to %d bytes that tell people whose client it is", maxClientName)}
	}
	if !oauth.IsText(r.Name, maxClientName) {
		return &oauth.Invalid{Field: "name", Message: fmt.Sprintf("%q is not UTF-8 text without control characters", r.Name)}
	}
	for _, g := range r.GrantTypes {
		if !slices.Contains(store.GrantTypes, g) {
			return &oauth.Invalid{Field: "grant-types", Message: fmt.Sprintf("%q is none of %s", g, strings.Join(store.GrantTypes, ", "))}
		}
	}
	switch r.Auth {
	case store.AuthEither, store.AuthPost, store.AuthBasic:
	case store.AuthNone:
		if r.Secret != "" {
			return &oauth.Invalid{Field: "secret", Message: "a public client has none"}
		}
	default:
		return &oauth.Invalid{Field: "auth-method", Message: fmt.Sprintf("%q is none of post, basic, either, none", string(r.Auth))}
	}
	codes := r.GrantTypes == nil || slices.Contains(r.GrantTypes, store.GrantAuthorizationCode)
	if codes && len(r.RedirectURIs) == 0 {
		return &oauth.Invalid{Field: "redirect-uri", Message: "missing: the code reaches the client through it"}
	}
	if len(r.RedirectURIs) > maxRedirectURIs {
		return &oauth.Invalid{Field: "redirect-uri", Message: fmt.Sprintf("at most %d", maxRedirectURIs)}
	}
	for _, uri := range r.RedirectURIs {
		if err := oauth.CheckRedirectURI(uri, r.Native); err != nil {
			return &oauth.Invalid{Field: "redirect-uri", Message: err.Error()}
		}
	}
	if r.NoRotation && r.Auth == store.AuthNone {
		return &oauth.Invalid{Field: "no-rotation", Message: "a public client's refresh tokens must rotate (RFC 9700 section 4.14.2): leave it out, or give the client a secret"}
	}
	if w := r.RetryWindow; w != nil && (*w < 0 || *w > policy.AccessLifetime-time.Minute) {
		return &oauth.Invalid{Field: "retry-window", Message: fmt.Sprintf("0s to %s: a minute less than the access token's lifetime", policy.AccessLifetime-time.Minute)}
	}
	if r.Secret != "" && (len(r.Secret) < 8 || len(r.Secret) > 512) {
		return &oauth.Invalid{Field: "secret-stdin", Message: "an existing secret has 8 to 512 bytes"}
	}
	return nil
}

// checkTokens checks what r says of access tokens: those that the client gets
// and those that it may ask about.
func (r Registration) checkTokens() error {
	switch r.TokenFormat {
	case "", store.TokenOpaque, store.TokenJWT:
	default:
		return &oauth.Invalid{Field: "access-token-format", Message: fmt.Sprintf("%q is neither opaque nor jwt", string(r.TokenFormat))}
	}
	if r.SigningAlg != "" && !slices.Contains(keys.SigningAlgorithms, r.SigningAlg) {
		return &oauth.Invalid{Field: "signing-alg", Message: fmt.Sprintf("%q is none of %s", string(r.SigningAlg), "ES256, EdDSA, RS256")}
	}
	if r.JWTType != "" && !slices.Contains(store.JWTTypes, r.JWTType) {
		return &oauth.Invalid{Field: "jwt-type", Message: fmt.Sprintf("%q is none of %s", r.JWTType, strings.Join(store.JWTTypes, ", "))}
	}
	if r.Introspect && r.Auth == store.AuthNone {
		return &oauth.Invalid{Field: "introspect", Message: "a public client cannot: anybody could ask in its name (RFC 7662 section 2.1)"}
	}
	if len(r.IntrospectAudience) > 0 && !r.Introspect {
		return &oauth.Invalid{Field: "introspect-audience", Message: "it limits what --introspect allows, which is not given"}
	}
	for field, list := range map[string][]string{"audience": r.Audience, "introspect-audience": r.IntrospectAudience} {
		if len(list) > maxAudiences {
			return &oauth.Invalid{Field: field, Message: fmt.Sprintf("at most %d", maxAudiences)}
		}
		for _, a := range list {
			if a == "" || len(a) > maxAudience || strings.ContainsFunc(a, func(c rune) bool { return c <= ' ' || c > '~' }) {
				return &oauth.Invalid{Field: field, Message: fmt.Sprintf("%q is not 1 to %d printable ASCII characters without spaces, such as https://api.example.com", a, maxAudience)}
			}
		}
	}
	return nil
}

// AddSecret gives c another secret, which expires at the given instant unless
// that is zero. Its text is to be shown once.
func AddSecret(c store.Client, ring *keys.Ring, now, expires grant.Instant) (store.Client, store.Secret, oauth.Secret, error) {
	if c.Public() {
		return c, store.Secret{}, "", &oauth.Invalid{Field: "client", Message: "it is public and has no secret"}
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

// SecretVerdict tells why a secret should not be revoked at now, or "" if it is
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
		return fmt.Sprintf("it was used %s ago", now.Since(s.LastUsedAt).Round(time.Second))
	}
	return ""
}
