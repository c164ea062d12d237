// Package client registers clients and authenticates them.
package client

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Slow hashes are for imported secrets only, until their first use.
const (
	// SlowChecks is how many slow hashes may run or wait at once: one runs.
	SlowChecks = 16
	// SlowChecksOfOne is how many of them may be for one client. A network is
	// limited too, whichever clients it names.
	SlowChecksOfOne = 2
)

// An Authenticator authenticates the clients of a realm. It lives as long as the process,
// so that its limits survive a reload of the configuration.
type Authenticator struct {
	Realm     string
	Store     store.Store
	Directory *directory.Directory
	Now       func() time.Time
	Log       *slog.Logger
	// OldSecretUsed, if it is set, is called for each use of a secret that is not its
	// client's newest. It must be quick.
	OldSecretUsed func(ctx context.Context, realm, clientID, secretID string)
	Slow          *keys.SlowPool // made by NewSlowPool

	// Issuer is the audience of client assertions, and TokenEndpoint lists further
	// ones, which a client's registration may allow.
	Issuer        string
	TokenEndpoint []string
	// Keys returns the key set at an address. CA holds certificates (PEM) to trust
	// there, or "". A cached set that is not enough is fetched again, at most once a
	// minute. A set that was fetched before since does not count.
	Keys func(ctx context.Context, uri, ca string, since time.Time, enough func(keyset.Set) bool) (keyset.Set, error)
	// Discovered is like Keys, for the jwks_uri in the metadata of an issuer, which must
	// name that issuer.
	Discovered func(ctx context.Context, issuer, ca string, since time.Time, enough func(keyset.Set) bool) (keyset.Set, error)
	// UpstreamSubject maps the claims of an issuer's id_token to the subject that a login at
	// that issuer gets. Nil: users sign in at no other issuer.
	UpstreamSubject func(issuer string, claims map[string]json.RawMessage) (string, error)
	// OwnKeys is like Keys for clients that registered themselves, on behalf of a caller's
	// network: it fetches from public addresses only.
	OwnKeys func(ctx context.Context, uri string, from netip.Prefix, enough func(keyset.Set) bool) (keyset.Set, error)
	// Described returns the client that a document describes. It fetches the document on
	// behalf of a caller's network. Nil: no client is described by a document.
	Described func(ctx context.Context, id string, from netip.Prefix) (*store.Client, error)
	// Shared reports that other nodes use the store, which then records used assertions.
	// Otherwise they are kept in memory, and those issued before the server began are
	// refused. Running returns for how long the server has run, by a monotonic clock; nil:
	// for ever.
	Shared  bool
	Running func() time.Duration

	used, ownUsed used // ownUsed is of clients that registered themselves
}

// NewSlowPool returns the pool that limits the checks of imported secrets.
func NewSlowPool() *keys.SlowPool { return keys.NewSlowPool(1, SlowChecks-1) }

// A method is a way in which a client authenticates.
type method struct {
	name  oauth.AuthMethod
	check func(a *Authenticator, ctx context.Context, view *directory.View, cred oauth.Credentials, from netip.Addr) (*store.Client, error)
}

// methods are the authentication methods of all endpoints, in their order in the
// metadata. To add one, add a row, and to store.AuthRule the rules that allow it.
var methods = []method{
	{oauth.AuthBasic, (*Authenticator).bySecret},
	{oauth.AuthPost, (*Authenticator).bySecret},
	{oauth.AuthPrivateKeyJWT, (*Authenticator).byAssertion},
	{oauth.AuthNone, (*Authenticator).byName},
}

// Metadata returns the members of the metadata about authentication at an endpoint:
// its methods, and the algorithms of assertions, which RFC 8414 section 2 requires
// beside private_key_jwt. Confidential leaves out public clients.
func Metadata(endpoint string, confidential bool) map[string]any {
	var names []oauth.AuthMethod
	for _, m := range methods {
		if m.name != oauth.AuthNone || !confidential {
			names = append(names, m.name)
		}
	}
	return map[string]any{
		endpoint + "_endpoint_auth_methods_supported":            names,
		endpoint + "_endpoint_auth_signing_alg_values_supported": keyset.Algorithms,
	}
}

// Authenticate returns the client that the credentials authenticate. A client that does
// not exist costs the same work as a wrong secret. From is the caller's address, or the
// zero address if callers cannot be told apart by theirs.
func (a *Authenticator) Authenticate(ctx context.Context, cred oauth.Credentials, from netip.Addr) (*store.Client, error) {
	view, err := a.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	for i := range methods {
		if methods[i].name == cred.Method {
			return methods[i].check(a, ctx, view, cred, from)
		}
	}
	return nil, unfit(view, a.Realm, cred.ClientID)
}

// byName finds a client by its id alone: a public client, or one that bySealedID has
// authenticated.
func (a *Authenticator) byName(ctx context.Context, view *directory.View, cred oauth.Credentials, _ netip.Addr) (*store.Client, error) {
	c, err := a.Directory.Client(ctx, view, a.Realm, cred.ClientID)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, unfit(view, a.Realm, cred.ClientID)
	case !c.Auth.Allows(cred.Method):
		return nil, WrongMethod
	}
	return c, nil
}

// bySecret authenticates a client by a secret (RFC 6749 section 2.3.1).
func (a *Authenticator) bySecret(ctx context.Context, view *directory.View, cred oauth.Credentials, from netip.Addr) (*store.Client, error) {
	now := grant.At(a.Now())
	digest := view.Ring.Digest(cred.Secret)
	// An imported secret is stored as its client spells it, with or without the form
	// encoding of a Basic header. Generated secrets are spelled the same in both.
	raw := digest
	if cred.RawSecret != "" && cred.RawSecret != cred.Secret {
		raw = view.Ring.Digest(cred.RawSecret)
	}
	c, ok := view.Client(a.Realm, cred.ClientID)
	if !ok && keys.IsRegistration(cred.ClientID) {
		return a.bySealedID(ctx, view, cred)
	}
	if !ok || !c.Auth.Allows(cred.Method) {
		return nil, unfit(view, a.Realm, cred.ClientID)
	}
	slow := -1
	for i, s := range c.Secrets {
		switch {
		case s.Expired(now):
		case subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1:
			view.NoteUse(c, i, now)
			a.noteOldSecret(ctx, c, i)
			return c, nil
		case s.Slow != "":
			slow = i
		}
	}
	if slow < 0 {
		return nil, wrong(c, now, digest, raw)
	}
	proven, err := a.checkSlow(ctx, c.Secrets[slow].Slow, cred, from)
	if err != nil {
		return nil, err
	}
	if proven == "" {
		return nil, wrong(c, now, digest, raw)
	}
	view.NoteUse(c, slow, now)
	a.noteOldSecret(ctx, c, slow)
	a.upgradeSecret(ctx, c.ID, c.Secrets[slow].ID, view.Ring.Digest(proven), now)
	return c, nil
}

// bySealedID authenticates a client that registered itself, whose secret is computed from
// its id. If the secret is wrong, it does not read the store.
func (a *Authenticator) bySealedID(ctx context.Context, view *directory.View, cred oauth.Credentials) (*store.Client, error) {
	secret, err := view.Ring.Registrations(a.Realm).Secret(cred.ClientID)
	if err != nil {
		return nil, unfit(view, a.Realm, cred.ClientID)
	}
	if subtle.ConstantTimeCompare([]byte(secret), []byte(cred.Secret)) != 1 {
		return nil, WrongSecret
	}
	return a.byName(ctx, view, cred, netip.Addr{})
}

// checkSlow compares the credentials with an imported secret and returns the
// spelling that matched, or "". Some programs send Basic credentials without
// the form encoding of RFC 6749 section 2.3.1, which matters only for secrets
// that we did not make.
func (a *Authenticator) checkSlow(ctx context.Context, hash string, cred oauth.Credentials, from netip.Addr) (oauth.Secret, error) {
	spellings := []oauth.Secret{cred.Secret}
	if cred.RawSecret != "" && cred.RawSecret != cred.Secret {
		spellings = append(spellings, cred.RawSecret)
	}
	shares := []keys.Share{{Name: store.InRealm(a.Realm, cred.ClientID), Most: SlowChecksOfOne}}
	if from.IsValid() {
		// The network's share comes first: it is a part of all slots, not of the client's.
		shares = []keys.Share{{Name: overload.Party(from).String()}, shares[0]}
	}
	i, err := a.Slow.Match(ctx, hash, spellings, shares...)
	switch {
	case errors.Is(err, keys.ErrPoolFull) || err != nil && ctx.Err() != nil:
		return "", &store.ExternalFault{Cause: err}
	case err != nil || i < 0:
		return "", err
	}
	return spellings[i], nil
}

// upgradeSecret replaces an imported secret's slow hash by the fast form, now
// that the secret is known. If it fails, the next use does it.
func (a *Authenticator) upgradeSecret(ctx context.Context, clientID, secretID string, digest []byte, now grant.Instant) {
	c, err := a.Store.Client(ctx, clientID)
	if err == nil {
		c = c.Clone()
		for i := range c.Secrets {
			if s := &c.Secrets[i]; s.ID == secretID && s.Slow != "" {
				s.Digest, s.Slow = digest, ""
				c.Version++
				c.UpdatedAt = now
				err = a.Store.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{{
					At: now, Name: store.EventSecretUpgraded, About: c.ID, Actor: c.ID, Detail: "secret " + secretID,
				}}})
			}
		}
	}
	if err == nil {
		err = a.Directory.Poll(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		a.Log.Warn("cannot store the fast form of an imported secret; retrying at its next use", "client_id", clientID, "error", err)
	}
}

// noteOldSecret reports the use of a secret, by its index, if the client has a newer one:
// a deployment of the client does not have the newer secret yet, or the old one was
// stolen.
func (a *Authenticator) noteOldSecret(ctx context.Context, c *store.Client, i int) {
	if a.OldSecretUsed == nil {
		return
	}
	for _, s := range c.Secrets {
		if s.CreatedAt > c.Secrets[i].CreatedAt {
			a.OldSecretUsed(ctx, c.Realm, c.ID, c.Secrets[i].ID)
			return
		}
	}
}

// unfit returns why a client may not authenticate, whatever its secret.
func unfit(v *directory.View, realm, id string) error {
	c, known := v.Registered(realm, id)
	switch {
	case !known && keys.IsRegistration(id):
		return ErrUnregistered
	case !known:
		return UnknownClient
	case c.State != store.ClientEnabled:
		return ClientInactive
	}
	return WrongMethod
}

// wrong returns why none of a client's secrets matches.
func wrong(c *store.Client, now grant.Instant, digest, raw []byte) error {
	for _, s := range c.Secrets {
		if s.Expired(now) && subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1 {
			return ExpiredSecret
		}
	}
	return WrongSecret
}
