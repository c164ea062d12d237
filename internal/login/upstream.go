package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// maxOfProvider is how many sessions here one session at a provider can have: a browser
// has one, and logins of two tabs at once make another.
const maxOfProvider = 8

// longestLogin is longer than it takes until a provider's answer has become a session.
const longestLogin = time.Hour

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
	d, err = a.document(ctx, store.DocumentProviderSession, a.providerKey(session), &list)
	return d, list, err
}

// document reads a document and its body, which may be absent: its version is 0 then.
func (a *Authorizer) document(ctx context.Context, kind store.DocumentKind, key store.DocumentKey, body any) (store.Document, error) {
	d, err := a.Issuer.Store.Document(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{Kind: kind, Key: key}, nil
	}
	if err != nil {
		return d, unavailable(err)
	}
	return d, json.Unmarshal(d.Body, body)
}

// ErrProviderEnded means that a login comes from a session that has ended at the provider
// since the provider told of it.
var ErrProviderEnded = errors.New("the session has ended at the OpenID Connect provider")

// endKey is the key of the latest end of a session at the provider, or of all those of
// a subject.
func (a *Authorizer) endKey(session, subject string) store.DocumentKey {
	if session != "" {
		return store.KeyOf(store.DocumentProviderLogout, a.Issuer.Realm, "session\x00"+session)
	}
	return store.KeyOf(store.DocumentProviderLogout, a.Issuer.Realm, "subject\x00"+subject)
}

// noteEnd stores when the provider has ended what l names, before its sessions here are
// looked for: a login that they do not have yet looks for this after its commit. Each
// end is noted with a later instant than the one before, so that no two are the same:
// the provider's instants have seconds only.
func (a *Authorizer) noteEnd(ctx context.Context, l ProviderLogout) error {
	return CommitEnd(ctx, a.Issuer.Store, func(c *store.Change) error {
		var at grant.Instant
		d, err := a.document(ctx, store.DocumentProviderLogout, a.endKey(l.Session, l.Subject), &at)
		if err != nil {
			return err
		}
		at = max(l.IssuedAt, at+1)
		d.Version++
		d.ExpiresAt = max(at, a.now()).Add(longestLogin)
		d.Body, err = json.Marshal(at)
		c.Documents = []store.Document{d}
		return err
	})
}

// endsAtProvider returns the ends, at the provider, of the session from which who comes
// and of all of the subject, unless the provider has certainly said later who that is.
// Ends in the same second may be earlier or later. What the provider says about a login
// that began here after an end was seen is later than that end.
func (a *Authorizer) endsAtProvider(ctx context.Context, who Identity, seen []string) (ends []string, err error) {
	if who.SaidAt == 0 {
		return nil, nil
	}
	for _, key := range []store.DocumentKey{a.endKey(who.Provider, who.Subject), a.endKey("", who.Subject)} {
		var at grant.Instant
		if _, err := a.document(ctx, store.DocumentProviderLogout, key, &at); err != nil {
			return nil, err
		}
		if end := fmt.Sprintf("%x %d", key[:8], at); at >= who.SaidAt && !slices.Contains(seen, end) {
			ends = append(ends, end)
		}
	}
	return ends, nil
}

// A ProviderLogout is a verified logout token of a provider.
type ProviderLogout struct {
	Session   string        // at the provider; "": all of Subject
	Subject   string        // "": whoever it is
	ID        string        // of the token, which counts once
	IssuedAt  grant.Instant // by the provider's clock
	ExpiresAt grant.Instant
}

// ErrReplayed means that a logout token was presented before.
var ErrReplayed = errors.New("logout token presented before")

// EndProviderSession ends the sessions that a provider says have ended, and returns how
// many. It is no error if there are none.
func (a *Authorizer) EndProviderSession(ctx context.Context, l ProviderLogout) (ended []*Session, err error) {
	id := store.KeyOf(store.DocumentProviderLogout, a.Issuer.Realm, l.ID)
	note := sync.OnceValue(func() error { return a.noteEnd(ctx, l) }) // another one would be a later end
	err = CommitEnd(ctx, a.Issuer.Store, func(c *store.Change) (err error) {
		// After a conflict, another node may have been faster with the token.
		switch _, err := a.Issuer.Store.Document(ctx, id); {
		case err == nil:
			return ErrReplayed
		case !errors.Is(err, store.ErrNotFound):
			return unavailable(err)
		}
		if err := note(); err != nil {
			return err
		}
		c.Documents = []store.Document{{Kind: store.DocumentProviderLogout, Key: id, Version: 1, ExpiresAt: l.ExpiresAt.Add(a.Issuer.Policy.MaxSkew + skewOfProviders), Body: []byte("{}")}}
		ended, err = a.ofLogout(ctx, l, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range ended {
		a.ended(ctx, s)
	}
	return ended, nil
}

// ofLogout adds to c the end of the sessions that l names, and returns them.
func (a *Authorizer) ofLogout(ctx context.Context, l ProviderLogout, c *store.Change) (ended []*Session, err error) {
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
		s := &Session{}
		s.document, err = a.document(ctx, store.DocumentSession, key, s)
		if err != nil {
			return nil, err
		}
		s.ExpiresAt = s.document.ExpiresAt
		told := slices.ContainsFunc(ended, func(o *Session) bool { return s.Reference != "" && o.Reference == s.Reference })
		if s.document.Version == 0 || s.Over != "" || l.Subject != "" && s.Subject != l.Subject || a.now() >= s.ExpiresAt || told {
			continue
		}
		switch first, err := a.end(ctx, s, c, "provider", "the OpenID Connect provider has ended the session"); {
		case err != nil:
			return nil, err
		case first:
			ended = append(ended, s)
		}
	}
	return ended, nil
}
