// Package lease makes one of several nodes the leader of a piece of background work.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// A Lease elects one node as the leader: it is a document that nodes write by
// compare-and-swap. Clocks of nodes are not compared. Two nodes may lead for a
// moment, so the work must bear repetition. One goroutine uses a Lease.
type Lease struct {
	Store store.Store
	// Key is the document of the lease, of kind store.DocumentDeployment.
	Key store.DocumentKey
	// Alone is set if no other node can use the store: this one leads, and writes nothing.
	Alone     bool
	Monotonic func() time.Time // the monotonic clock
	Log       *slog.Logger

	id      [16]byte // of this node
	held    bool
	renewed time.Time // last success
	version int64     // of another node's lease, first seen at:
	seen    time.Time
}

// New returns a Lease for this node, which does not lead yet.
func New(l Lease) *Lease {
	rand.Read(l.id[:])
	return &l
}

// leaseBody is the body of the document.
type leaseBody struct {
	Node string `json:"node"` // "": free
}

// Held reports whether this node has led since its last call of Leads.
func (l *Lease) Held() bool { return l.Alone || l.held }

// Leads reports whether this node leads, and takes or renews the lease for that. An
// error is that of the store: a leader goes on for a while in spite of it.
func (l *Lease) Leads(ctx context.Context) (bool, error) {
	now := l.Monotonic()
	if l.Alone || l.held && now.Sub(l.renewed) < renewal {
		return true, nil
	}
	err := l.renew(ctx, now)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrConflict), now.Sub(l.renewed) >= stopAfter:
		l.held = false
	}
	return l.held, err
}

// renew takes the lease, if it is free or this node's.
func (l *Lease) renew(ctx context.Context, now time.Time) error {
	d, err := l.Store.Document(ctx, l.Key)
	if errors.Is(err, store.ErrNotFound) {
		d, err = store.Document{Kind: store.DocumentDeployment, Key: l.Key, Body: []byte("{}")}, nil
	}
	if err != nil {
		return err
	}
	var b leaseBody
	if err := json.Unmarshal(d.Body, &b); err != nil {
		return err
	}
	if b.Node != "" && b.Node != l.node() {
		l.held = false
		if d.Version != l.version {
			l.version, l.seen = d.Version, now
		}
		if now.Sub(l.seen) < leaseTime {
			return nil
		}
	}
	if err := l.put(ctx, d, l.node()); err != nil {
		return err
	}
	l.held, l.renewed = true, now
	return nil
}

// node is the name of this node in the document.
func (l *Lease) node() string { return hex.EncodeToString(l.id[:]) }

// put stores the next version of the document.
func (l *Lease) put(ctx context.Context, d store.Document, node string) error {
	body, err := json.Marshal(leaseBody{node})
	if err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	d.Version++
	d.Body = body
	return l.Store.Commit(ctx, store.Change{Documents: []store.Document{d}})
}

// Release frees the lease, so that another node goes on at once.
func (l *Lease) Release(ctx context.Context) {
	if !l.held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	l.held = false
	d, err := l.Store.Document(ctx, l.Key)
	var b leaseBody
	if err != nil || json.Unmarshal(d.Body, &b) != nil || b.Node != l.node() {
		return
	}
	if err := l.put(ctx, d, ""); err != nil {
		l.Log.Debug("the lease runs out by itself", "error", err)
	}
}
