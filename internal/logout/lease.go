package logout

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/mintage/mintage/internal/store"
)

const (
	// A leader renews its lease every renewal. Others take it over after it has not
	// changed for leaseTime by their own clock, and the leader stops before that.
	renewal   = 3 * time.Second
	leaseTime = 10 * time.Second
	stopAfter = leaseTime - renewal
)

// A lease elects one node as the leader: it is a document that nodes write by
// compare-and-swap. If two nodes lead for a moment, a client gets a token twice.
type lease struct {
	id      [16]byte // of this node
	held    bool
	renewed time.Time // last success
	version int64     // of another node's lease, first seen at:
	seen    time.Time
}

type leaseBody struct {
	Node string `json:"node"` // "": free
}

func leaseKey(realm string) store.DocumentKey {
	return store.KeyOf(store.DocumentDeployment, realm, "logout leader")
}

// leads reports whether this node delivers. An error is that of the store.
func (o *Outbox) leads(ctx context.Context) (bool, error) {
	l := &o.lease
	now := o.Monotonic()
	if o.Alone || l.held && now.Sub(l.renewed) < renewal {
		return true, nil
	}
	err := o.renew(ctx, now)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrConflict), now.Sub(l.renewed) >= stopAfter:
		l.held = false
	}
	return l.held, err
}

// renew takes the lease, if it is free or this node's.
func (o *Outbox) renew(ctx context.Context, now time.Time) error {
	l := &o.lease
	if !l.held {
		if needed, err := o.needed(ctx); err != nil || !needed {
			return err
		}
	}
	d, err := o.Store.Document(ctx, leaseKey(o.Realm))
	if errors.Is(err, store.ErrNotFound) {
		d, err = store.Document{Kind: store.DocumentDeployment, Key: leaseKey(o.Realm), Body: []byte("{}")}, nil
	}
	if err != nil {
		return err
	}
	var b leaseBody
	if err := json.Unmarshal(d.Body, &b); err != nil {
		return err
	}
	if mine := hex.EncodeToString(l.id[:]); b.Node != "" && b.Node != mine {
		l.held = false
		if d.Version != l.version {
			l.version, l.seen = d.Version, now
		}
		if now.Sub(l.seen) < leaseTime {
			return nil
		}
	}
	d.Version++
	d.Body = encode(leaseBody{hex.EncodeToString(l.id[:])})
	if err := o.Store.Commit(ctx, store.Change{Documents: []store.Document{d}}); err != nil {
		return err
	}
	l.held, l.renewed = true, now
	return nil
}

// needed reports whether there is anything to deliver, or may be.
func (o *Outbox) needed(ctx context.Context) (bool, error) {
	iss := o.issuer.Load()
	view, err := iss.Directory.View()
	if err != nil {
		return false, err
	}
	for c := range view.Clients(o.Realm) {
		if c.LogoutURI != "" || c.LogoutEndsGrants {
			return true, nil
		}
	}
	for _, owner := range []store.Owner{ownerNew(o.Realm), ownerLater(o.Realm)} {
		list, err := o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Owner: owner, Limit: 1})
		if err != nil || len(list) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// release frees the lease, so that another node goes on at once.
func (o *Outbox) release(ctx context.Context) {
	if !o.lease.held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := o.Store.Document(ctx, leaseKey(o.Realm))
	var b leaseBody
	if err != nil || json.Unmarshal(d.Body, &b) != nil || b.Node != hex.EncodeToString(o.lease.id[:]) {
		return
	}
	d.Version++
	d.Body = encode(leaseBody{})
	if err := o.Store.Commit(ctx, store.Change{Documents: []store.Document{d}}); err != nil {
		o.Log.Debug("the lease on logouts runs out by itself", "error", err)
	}
	o.lease.held = false
}
