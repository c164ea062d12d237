package logout

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

const (
	hour = time.Hour
	// page is how many documents are read, and stored, at once.
	page = 100
)

// look finds the clients that the new ends concern, and looks again at those
// whose codes have expired since. It reports whether there is more to look at.
func (o *Outbox) look(ctx context.Context, iss *issuer.Issuer, view *directory.View) (more bool, err error) {
	list, err := o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Owner: ownerNew(o.Realm), Limit: page})
	if err != nil {
		return false, err
	}
	for _, d := range list {
		if err := o.expand(ctx, iss, view, d); err != nil {
			return false, err
		}
	}
	now := grant.At(o.Now())
	if now < o.later {
		return len(list) == page, nil
	}
	again, err := o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Owner: ownerLater(o.Realm), Limit: page})
	if err != nil {
		return false, err
	}
	for _, d := range again {
		r, err := decode[End](d)
		if err != nil {
			return false, err
		}
		if due := r.At.Add(iss.InFlight()); due > now {
			o.later = due
			return len(list) == page, nil
		}
		if err := o.expand(ctx, iss, view, d); err != nil {
			return false, err
		}
	}
	if o.later = grant.Never; len(again) == page {
		o.later = 0
	}
	return len(list) == page || len(again) == page, nil
}

// A receiver is a client to notify, and the session that its token names; zero: all
// sessions.
type receiver struct {
	clientID string
	session  [16]byte
}

// expand stores the tokens of an End. If the node stops before the End says so, another
// node repeats it, and stores nothing twice.
func (o *Outbox) expand(ctx context.Context, iss *issuer.Issuer, view *directory.View, d store.Document) error {
	r, err := decode[End](d)
	if err != nil {
		return err
	}
	now := grant.At(o.Now())
	again := r.Looked != 0
	receivers, seen, err := o.receivers(ctx, iss, view, r, again)
	if err != nil {
		return err
	}
	d.Version++
	var documents []store.Document
	var clients []string
	for _, to := range receivers {
		t := Token{ClientID: to.clientID, Subject: r.Subject, At: r.At, State: Pending}
		if to.session != [16]byte{} {
			t.SessionID = openid.SessionID(to.session, to.clientID)
		} else {
			t.Until = r.At
		}
		doc := t.document(o.Realm, d.Key, again)
		if again {
			// The first token is enough if it waits. Storing it again makes the commit
			// of an attempt already in flight conflict, so the token is sent again.
			first, err := o.Store.Document(ctx, t.document(o.Realm, d.Key, false).Key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if first.Owner == doc.Owner {
				first.Version++
				if err := o.Store.Commit(ctx, store.Change{Documents: []store.Document{first}}); err != nil {
					return err
				}
				continue
			}
		}
		documents, clients = append(documents, doc), append(clients, to.clientID)
		if len(r.Tokens) < maxRefs {
			r.Tokens = append(r.Tokens, TokenRef{to.clientID, hex.EncodeToString(doc.Key[:])})
		} else {
			r.More++
		}
	}
	r.Looked, r.Done, r.Seen = now, again || now >= r.At.Add(iss.InFlight()), seen
	if r.Done {
		d.Owner, d.ExpiresAt, r.Seen = store.OwnerOf(o.Realm, r.Subject), max(now, r.At).Add(pendingFor+shownFor), nil
	} else {
		d.Owner = ownerLater(o.Realm)
		o.later = min(o.later, r.At.Add(iss.InFlight()))
	}
	d.Body = encode(r)
	all := append(documents, d)
	for chunk := range slices.Chunk(all, page) {
		err := o.commit(ctx, chunk, func() {
			// A token may already have been sent for an earlier grant, before the grant
			// that was found now was made.
			r.Seen = nil
			all[len(documents)].Body = encode(r)
		})
		if err != nil {
			return err
		}
	}
	for i, doc := range documents {
		o.added(clients[i], doc.Key)
	}
	return nil
}

// commit stores documents. On ErrConflict, it calls repeated and stores each document by
// itself, the End last, so that tokens which are already stored do not block the
// others.
func (o *Outbox) commit(ctx context.Context, documents []store.Document, repeated func()) error {
	err := o.Store.Commit(ctx, store.Change{Documents: documents})
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	repeated()
	for _, d := range documents {
		err := o.Store.Commit(ctx, store.Change{Documents: []store.Document{d}})
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// document returns the first version of a token.
func (t Token) document(realm string, of store.DocumentKey, again bool) store.Document {
	round := ""
	if again {
		round = "again"
	}
	return store.Document{
		Kind: store.DocumentLogoutToken, Key: store.KeyAt(t.At, realm, string(of[:]), t.ClientID, t.SessionID, round), Version: 1,
		ExpiresAt: t.At.Add(pendingFor), Owner: ownerQueue(realm, t.ClientID), Body: encode(t),
	}
}

// receivers returns the clients that an End concerns: those of the subject's grants that
// refer to the session, whatever the state of the grants. With again, it returns the
// clients that have redeemed a code since the last look, each with its session, so that
// no later session ends. seen are the grants that a later look may find again.
func (o *Outbox) receivers(ctx context.Context, iss *issuer.Issuer, view *directory.View, r End, again bool) (list []receiver, seen []string, err error) {
	from := r.At.Add(-iss.InFlight())
	listed := map[receiver]bool{}
	for g, err := range store.EachGrant(ctx, o.Store, store.GrantFilter{Realm: o.Realm, Subject: r.Subject}) {
		if err != nil {
			return nil, nil, err
		}
		c, ok := view.Client(o.Realm, g.ClientID)
		if !ok || c.LogoutURI == "" || again && (g.AuthorizedAt < from || slices.Contains(r.Seen, g.ID.String())) {
			continue
		}
		to := receiver{g.ClientID, g.Session}
		switch {
		case r.Session != "":
			if g.Session != r.reference() {
				continue
			}
		case g.AuthorizedAt > r.At:
			continue
		case !again && !c.LogoutSession:
			to.session = [16]byte{}
		case to.session == [16]byte{}:
			continue // no id_token has named it
		}
		if !listed[to] {
			listed[to] = true
			list = append(list, to)
		}
		if g.AuthorizedAt >= from && len(seen) < maxRefs {
			seen = append(seen, g.ID.String())
		}
	}
	return list, seen, nil
}
