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

// A round is one of the searches for the clients of an End. Rounds after the first find
// clients that have redeemed a code since.
type round struct {
	name  string // part of the keys of its tokens
	owner func(realm string) store.Owner
	wait  func(*issuer.Issuer) time.Duration // after the end
}

var rounds = []round{
	{"", ownerNew, func(*issuer.Issuer) time.Duration { return 0 }},
	{"again", ownerLater, (*issuer.Issuer).InFlight},
	{"devices", ownerDevices, issuer.InFlightToDevices},
}

// look processes the Ends whose next round is due: it stores tokens for the clients that
// they concern. It reports whether more Ends are due. Its error is errDecode if it has
// processed all Ends that it could decode.
func (o *Outbox) look(ctx context.Context, iss *issuer.Issuer, view *directory.View) (more bool, err error) {
	var unread error
	now, later := grant.At(o.Now()), grant.Never
	for i, round := range rounds {
		if i > 0 && now < o.later {
			return more, unread
		}
		list, err := o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Owner: round.owner(o.Realm), Limit: page})
		if err != nil {
			return false, err
		}
		whole := len(list) < page
		for _, d := range list {
			r, err := decode[End](d)
			if err != nil {
				unread = err
				continue
			}
			if due := r.At.Add(round.wait(iss)); i > 0 && due > now {
				whole, later = true, min(later, due)
				break
			}
			if err := o.expand(ctx, iss, view, d, r, i); err != nil {
				return false, err
			}
		}
		if !whole {
			more, later = true, 0
		}
	}
	o.later = later
	return more, unread
}

// A receiver is a client to notify, and the session that its token names; zero: all
// sessions.
type receiver struct {
	clientID string
	session  [16]byte
}

// expand stores the tokens of an End in a round. If the node stops before it has stored
// the End as well, another node repeats the round, but stores no token twice.
func (o *Outbox) expand(ctx context.Context, iss *issuer.Issuer, view *directory.View, d store.Document, r End, round int) error {
	now := grant.At(o.Now())
	receivers, seen, err := o.receivers(ctx, iss, view, r, round > 0)
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
		doc := t.document(o.Realm, d.Key, rounds[round].name)
		if round > 0 {
			// A pending token of the first round is enough. Storing it again makes the commit of an
			// attempt in flight conflict, so the token is sent again.
			first, err := o.Store.Document(ctx, t.document(o.Realm, d.Key, rounds[0].name).Key)
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
	next := round + 1
	for next < len(rounds) && now >= r.At.Add(rounds[next].wait(iss)) {
		next++
	}
	r.Looked, r.Done, r.Seen = now, next == len(rounds), seen
	if r.Done {
		d.Owner, d.ExpiresAt, r.Seen = store.OwnerOf(o.Realm, r.Subject), max(now, r.At).Add(pendingFor+shownFor), nil
	} else {
		d.Owner = rounds[next].owner(o.Realm)
		o.later = min(o.later, r.At.Add(rounds[next].wait(iss)))
	}
	d.Body = encode(r)
	all := append(documents, d)
	for chunk := range slices.Chunk(all, page) {
		err := o.commit(ctx, chunk, func() {
			// A repeated token may have been sent before a grant that was found now was made: let
			// the next round find that grant again.
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
func (t Token) document(realm string, of store.DocumentKey, round string) store.Document {
	return store.Document{
		Kind: store.DocumentLogoutToken, Key: store.KeyAt(t.At, realm, string(of[:]), t.ClientID, t.SessionID, round), Version: 1,
		ExpiresAt: t.At.Add(pendingFor), Owner: ownerQueue(realm, t.ClientID), Body: encode(t),
	}
}

// receivers returns the clients that an End concerns: those of the subject's grants that
// refer to the session, whatever the state of the grants. With again, it returns only
// clients with grants that no earlier round has found, each with its session, so that no
// later session ends. seen are the grants of this and earlier rounds that a later round
// must skip.
func (o *Outbox) receivers(ctx context.Context, iss *issuer.Issuer, view *directory.View, r End, again bool) (list []receiver, seen []string, err error) {
	from := r.At.Add(-issuer.InFlightToDevices(iss))
	seen = r.Seen
	listed := map[receiver]bool{}
	for g, err := range store.EachGrant(ctx, o.Store, store.GrantFilter{Realm: o.Realm, Subject: r.Subject}) {
		if err != nil {
			return nil, nil, err
		}
		c, ok := o.notifiable(view, g.ClientID)
		if !ok || again && (g.AuthorizedAt < from || slices.Contains(r.Seen, g.ID.String())) {
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
			continue // no id_token has named a session to the client
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
