package issuer

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/netip"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Slow hashes are for imported secrets only, until their first use.
const (
	hashersAtOnce  = 1
	hashersWaiting = 15
	// hashersOfOne is how many of them may be for one client. One network has its
	// share too, whatever clients it names.
	hashersOfOne = 2
)

// ErrClient is the one error for a client that does not exist, is disabled or
// belongs to another realm, and for a wrong credential or method. What Authenticate
// returns is also an AuthFault.
var ErrClient = errors.New("client authentication failed")

// Authenticate finds the client that the credentials prove. A client that does
// not exist costs the same work as a wrong secret. From is where they come from,
// or the zero address if callers cannot be told apart by theirs.
func (iss *Issuer) Authenticate(ctx context.Context, cred oauth.Credentials, from netip.Addr) (*store.Client, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	if cred.Method == oauth.AuthNone {
		c, ok := view.Client(iss.Realm, cred.ClientID)
		if !ok || !c.Auth.Allows(cred.Method) {
			return nil, view.unfit(iss.Realm, cred.ClientID)
		}
		return c, nil
	}
	now := iss.now()
	digest := view.Ring.Digest(cred.Secret)
	// A secret that was imported is kept as its client spells it, encoded in a
	// Basic header or not. Generated ones read the same in both ways.
	raw := digest
	if cred.RawSecret != "" && cred.RawSecret != cred.Secret {
		raw = view.Ring.Digest(cred.RawSecret)
	}
	c, ok := view.Client(iss.Realm, cred.ClientID)
	if !ok || !c.Auth.Allows(cred.Method) {
		return nil, view.unfit(iss.Realm, cred.ClientID)
	}
	slow := -1
	for i, s := range c.Secrets {
		switch {
		case s.Expired(now):
		case subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1:
			view.used(c.ID, i, now)
			iss.noteOldSecret(ctx, c, i)
			return c, nil
		case s.Slow != "":
			slow = i
		}
	}
	if slow < 0 {
		return nil, wrong(c, now, digest, raw)
	}
	proven, err := iss.checkSlow(ctx, c.Secrets[slow].Slow, cred, from)
	if err != nil {
		return nil, err
	}
	if proven == "" {
		return nil, wrong(c, now, digest, raw)
	}
	view.used(c.ID, slow, now)
	iss.noteOldSecret(ctx, c, slow)
	iss.upgradeSecret(ctx, c.ID, c.Secrets[slow].ID, view.Ring.Digest(proven), now)
	return c, nil
}

// used notes the use of a client's secret, in memory.
func (v *View) used(clientID string, secret int, now grant.Instant) {
	u := v.clients[clientID].uses[secret]
	// A second is fine enough for people, and spares the cache line.
	if last := u.at.Load(); int64(now)-last >= 1000 {
		u.at.CompareAndSwap(last, int64(now))
	}
}

// checkSlow compares the credentials with an imported secret and returns the
// spelling that matched, or "". Some programs send Basic credentials without
// the form encoding of RFC 6749 section 2.3.1, which matters only for secrets
// that we did not make.
func (iss *Issuer) checkSlow(ctx context.Context, hash string, cred oauth.Credentials, from netip.Addr) (oauth.Secret, error) {
	spellings := []oauth.Secret{cred.Secret}
	if cred.RawSecret != "" && cred.RawSecret != cred.Secret {
		spellings = append(spellings, cred.RawSecret)
	}
	shares := []keys.Share{{Name: cred.ClientID, Most: hashersOfOne}}
	if from.IsValid() {
		// In front: the client's share is not what is divided among networks.
		shares = []keys.Share{{Name: overload.Party(from).String()}, shares[0]}
	}
	i, err := iss.slow.Match(ctx, hash, spellings, shares...)
	switch {
	case errors.Is(err, keys.ErrPoolFull) || err != nil && ctx.Err() != nil:
		return "", store.Unavailable(err)
	case err != nil || i < 0:
		return "", err
	}
	return spellings[i], nil
}

// upgradeSecret replaces an imported secret's slow hash by the fast form, now
// that the secret is known. If it fails, the next use does it.
func (iss *Issuer) upgradeSecret(ctx context.Context, clientID, secretID string, digest []byte, now grant.Instant) {
	c, err := iss.Store.Client(ctx, clientID)
	if err == nil {
		c = c.Clone()
		for i := range c.Secrets {
			if s := &c.Secrets[i]; s.ID == secretID && s.Slow != "" {
				s.Digest, s.Slow = digest, ""
				c.Version++
				c.UpdatedAt = now
				err = iss.Store.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{{
					At: now, Name: store.EventSecretUpgraded, About: c.ID, Actor: c.ID, Detail: "secret " + secretID,
				}}})
			}
		}
	}
	if err == nil {
		err = iss.Directory.Poll(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		iss.Log.Warn("cannot keep an imported secret in its fast form; the next use tries again", "client_id", clientID, "error", err)
	}
}
