// Package lease makes one of several nodes the leader of a piece of background work.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/mintage/mintage/internal/store"
)

const (
	// A leader renews its lease every renewal. Other nodes take over a lease that has not
	// changed for leaseTime by their own clocks. The leader stops earlier, after stopAfter.
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
	version int64     // latest version of another node's lease
	seen    time.Time // when this node first read version
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

// Held reports whether this node led at its last call of Leads, and has not called
// Release since.
func (l *Lease) Held() bool { return l.Alone || l.held }

// Leads reports whether this node leads. It takes or renews the lease. An error is that of
// the store: a leader continues for a while in spite of it.
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

// renew takes or renews the lease if it is free, is this node's, or has not changed for
// leaseTime.
func (l *Lease) renew(ctx context.Context, now time.Time) error {
	var b leaseBody
	d, err := store.ReadDocument(ctx, l.Store, store.DocumentDeployment, l.Key, &b)
	if err != nil {
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
	if err := store.PutDocument(ctx, l.Store, d, leaseBody{l.node()}); err != nil {
		return err
	}
	l.held, l.renewed = true, now
	return nil
}

// node is the name of this node in the document.
func (l *Lease) node() string { return hex.EncodeToString(l.id[:]) }

// Release frees the lease, so that another node can take it at once.
func (l *Lease) Release(ctx context.Context) {
	if !l.held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	l.held = false
	var b leaseBody
	d, err := store.ReadDocument(ctx, l.Store, store.DocumentDeployment, l.Key, &b)
	if err != nil || b.Node != l.node() {
		return
	}
	if err := store.PutDocument(ctx, l.Store, d, leaseBody{}); err != nil {
		l.Log.Debug("cannot release the lease; it expires by itself", "error", err)
	}
}
