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

// longestLogin is longer than the time from a provider's answer to the session's commit.
const longestLogin = time.Hour

// skewOfProviders is how far a provider's clock may be from ours.
const skewOfProviders = time.Minute

// providerKey returns the key of the document that lists the sessions here of a session at
// a provider.
func (ss *Sessions) providerKey(session string) store.DocumentKey {
	return store.KeyOf(store.DocumentProviderSession, ss.Realm, session)
}

// noteProvider adds to c that a new session belongs to a session at a provider.
func (ss *Sessions) noteProvider(ctx context.Context, who Identity, session store.Document, c *store.Change) error {
	if who.Provider == "" {
		return nil
	}
	d, list, err := ss.ofProvider(ctx, who.Provider)
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

func (ss *Sessions) ofProvider(ctx context.Context, session string) (d store.Document, list []store.DocumentKey, err error) {
	d, err = ss.document(ctx, store.DocumentProviderSession, ss.providerKey(session), &list)
	return d, list, err
}

// ErrProviderEnded means that a login comes from a session that has ended at the provider
// since the provider issued the id_token.
var ErrProviderEnded = errors.New("the session has ended at the OpenID Connect provider")

// endKey returns the key of the document with the latest end of a session at the provider,
// or of all sessions of a subject if session is "".
func (ss *Sessions) endKey(session, subject string) store.DocumentKey {
	if session != "" {
		return store.KeyOf(store.DocumentProviderLogout, ss.Realm, "session\x00"+session)
	}
	return store.KeyOf(store.DocumentProviderLogout, ss.Realm, "subject\x00"+subject)
}

// noteEnd stores when the provider ended the sessions that l names, before the caller looks
// for them here: a login that commits its session later finds this end. Each end has a
// later instant than the one before, so that no two are the same: the provider's instants
// have seconds only.
func (ss *Sessions) noteEnd(ctx context.Context, l ProviderLogout) error {
	return CommitEnd(ctx, ss.Store, func(c *store.Change) error {
		var at grant.Instant
		d, err := ss.document(ctx, store.DocumentProviderLogout, ss.endKey(l.Session, l.Subject), &at)
		if err != nil {
			return err
		}
		at = max(l.IssuedAt, at+1)
		d.Version++
		d.ExpiresAt = max(at, ss.now()).Add(longestLogin)
		d.Body, err = json.Marshal(at)
		c.Documents = []store.Document{d}
		return err
	})
}

// endsAtProvider returns the ends, at the provider, of the session of who and of all
// sessions of the subject, unless the provider certainly issued the id_token later. An end
// in the same second may be earlier or later. It omits the ends in seen, because the login
// began after they were stored.
func (ss *Sessions) endsAtProvider(ctx context.Context, who Identity, seen []string) (ends []string, err error) {
	if who.SaidAt == 0 {
		return nil, nil
	}
	for _, key := range []store.DocumentKey{ss.endKey(who.Provider, who.Subject), ss.endKey("", who.Subject)} {
		var at grant.Instant
		if _, err := ss.document(ctx, store.DocumentProviderLogout, key, &at); err != nil {
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
	Subject   string        // "": the token names no subject
	ID        string        // of the token, which counts once
	IssuedAt  grant.Instant // by the provider's clock
	ExpiresAt grant.Instant
}

// ErrReplayed means that a logout token was presented before.
var ErrReplayed = errors.New("logout token presented before")

// EndProviderSession ends the sessions that a provider's logout token names, and returns
// them. It is no error if there are none.
func (ss *Sessions) EndProviderSession(ctx context.Context, l ProviderLogout) (ended []*Session, err error) {
	id := store.KeyOf(store.DocumentProviderLogout, ss.Realm, l.ID)
	note := sync.OnceValue(func() error { return ss.noteEnd(ctx, l) }) // once, because a second call would store a later end
	err = CommitEnd(ctx, ss.Store, func(c *store.Change) (err error) {
		// After a conflict, another node may have accepted the token.
		switch _, err := ss.Store.Document(ctx, id); {
		case err == nil:
			return ErrReplayed
		case !errors.Is(err, store.ErrNotFound):
			return store.Unavailable(err)
		}
		if err := note(); err != nil {
			return err
		}
		c.Documents = []store.Document{{Kind: store.DocumentProviderLogout, Key: id, Version: 1, ExpiresAt: l.ExpiresAt.Add(ss.MaxSkew + skewOfProviders), Body: []byte("{}")}}
		ended, err = ss.ofLogout(ctx, l, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range ended {
		ss.ended(ctx, s)
	}
	return ended, nil
}

// ofLogout adds to c the end of the sessions that l names, and returns them.
func (ss *Sessions) ofLogout(ctx context.Context, l ProviderLogout, c *store.Change) (ended []*Session, err error) {
	var keys []store.DocumentKey
	if l.Session != "" {
		_, keys, err = ss.ofProvider(ctx, l.Session)
	} else {
		for d, fault := range store.EachDocument(ctx, ss.Store, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(ss.Realm, l.Subject)}) {
			if err = fault; err != nil {
				break
			}
			keys = append(keys, d.Key)
		}
	}
	if err != nil {
		return nil, store.Unavailable(err)
	}
	for _, key := range keys {
		s := &Session{}
		s.document, err = ss.document(ctx, store.DocumentSession, key, s)
		if err != nil {
			return nil, err
		}
		s.ExpiresAt = s.document.ExpiresAt
		told := slices.ContainsFunc(ended, func(o *Session) bool { return s.Reference != "" && o.Reference == s.Reference })
		if s.document.Version == 0 || s.Over != "" || l.Subject != "" && s.Subject != l.Subject || ss.now() >= s.ExpiresAt || told {
			continue
		}
		switch first, err := ss.end(ctx, s, c, "provider", "the OpenID Connect provider has ended the session"); {
		case err != nil:
			return nil, err
		case first:
			ended = append(ended, s)
		}
	}
	return ended, nil
}
