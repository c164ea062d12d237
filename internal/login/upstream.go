package login

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// maxOfProvider is how many sessions here one session at a provider can have: a browser
// has one, and logins of two tabs at once make another.
const maxOfProvider = 8

// skewOfProviders is how far a provider's clock may be from ours.
const skewOfProviders = time.Minute

// providerKey is the key of the sessions that a session at a provider has here.
func (a *Authorizer) providerKey(session string) store.DocumentKey {
	return store.KeyOf(store.DocumentProviderSession, a.Issuer.Realm, session)
}

// noteProvider adds to c that a session which begins comes from one at a provider.
func (a *Authorizer) noteProvider(ctx context.Context, who Identity, session store.Document, c *store.Change) error {
	if who.Provider == "" {
		return nil
	}
	d, list, err := a.ofProvider(ctx, who.Provider)
	if err != nil {
		return err
	}
	list = append(list, session.Key)
	d.Version++
	d.ExpiresAt, d.Owner = session.ExpiresAt, session.Owner
	if d.Body, err = json.Marshal(list[max(0, len(list)-maxOfProvider):]); err != nil {
		return err
	}
	c.Documents = append(c.Documents, d)
	return nil
}

func (a *Authorizer) ofProvider(ctx context.Context, session string) (d store.Document, list []store.DocumentKey, err error) {
	d, err = a.Issuer.Store.Document(ctx, a.providerKey(session))
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{Kind: store.DocumentProviderSession, Key: a.providerKey(session)}, nil, nil
	}
	if err != nil {
		return d, nil, unavailable(err)
	}
	return d, list, json.Unmarshal(d.Body, &list)
}

// A ProviderLogout is a verified logout token of a provider.
type ProviderLogout struct {
	Session   string // at the provider; "": all of Subject
	Subject   string // "": whoever it is
	ID        string // of the token, which counts once
	ExpiresAt grant.Instant
}

// ErrReplayed means that a logout token was presented before.
var ErrReplayed = errors.New("logout token presented before")

// EndProviderSession ends the sessions that a provider says have ended, and returns how
// many. It is no error if there are none.
func (a *Authorizer) EndProviderSession(ctx context.Context, l ProviderLogout) (ended []*Session, err error) {
	id := store.KeyOf(store.DocumentProviderLogout, a.Issuer.Realm, l.ID)
	switch _, err := a.Issuer.Store.Document(ctx, id); {
	case err == nil:
		return nil, ErrReplayed
	case !errors.Is(err, store.ErrNotFound):
		return nil, unavailable(err)
	}
	c := store.Change{Documents: []store.Document{{Kind: store.DocumentProviderLogout, Key: id, Version: 1, ExpiresAt: l.ExpiresAt.Add(a.Issuer.Policy.MaxSkew + skewOfProviders), Body: []byte("{}")}}}
	var keys []store.DocumentKey
	if l.Session != "" {
		_, keys, err = a.ofProvider(ctx, l.Session)
	} else {
		for d, fault := range store.DocumentsOfOwner(ctx, a.Issuer.Store, store.DocumentSession, store.OwnerOf(a.Issuer.Realm, l.Subject)) {
			if err = fault; err != nil {
				break
			}
			keys = append(keys, d.Key)
		}
	}
	if err != nil {
		return nil, unavailable(err)
	}
	for _, key := range keys {
		d, err := a.Issuer.Store.Document(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, unavailable(err)
		}
		s := &Session{ExpiresAt: d.ExpiresAt}
		if err := json.Unmarshal(d.Body, s); err != nil {
			return nil, err
		}
		told := slices.ContainsFunc(ended, func(o *Session) bool { return s.Reference != "" && o.Reference == s.Reference })
		if l.Subject != "" && s.Subject != l.Subject || a.now() >= s.ExpiresAt || told {
			continue
		}
		if !slices.Contains(c.Delete, key) {
			c.Delete = append(c.Delete, key)
		}
		if err := a.end(ctx, s, &c); err != nil {
			return nil, err
		}
		ended = append(ended, s)
	}
	if err := a.Issuer.Store.Commit(ctx, c); err != nil {
		// Another node was faster with the token, or with the end of a session, which
		// is no reason to drop the others.
		if _, absent := a.Issuer.Store.Document(ctx, id); errors.Is(err, store.ErrConflict) && absent == nil {
			return nil, ErrReplayed
		}
		return nil, unavailable(err)
	}
	for _, s := range ended {
		a.ended(ctx, s)
	}
	return ended, nil
}
