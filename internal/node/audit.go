package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// openAuditLog opens the audit log of the server; nil if there is none.
// Its lines get MACs by the keys of the directory, once that is open. Before it
// removes lines, anchors records the removal in the store.
func openAuditLog(cfg config.Config, version string, directory *atomic.Pointer[directory.Directory], anchors *anchoring, log *slog.Logger) *audit.Log {
	if cfg.AuditDirectory() == "" {
		log.Warn("there is no audit log", "advice", "leave audit.directory out to have one in the data directory")
		return nil
	}
	auditLog := audit.Open(audit.Options{
		Directory: cfg.AuditDirectory(), Owner: cfg.Data, Node: deployment.HostName(), Routine: cfg.Audit.Refreshes,
		Server: true, Retention: cfg.Audit.Retention.Std(), MaxSize: int64(cfg.Audit.MaxSize), Now: time.Now, Log: log,
		Keys: func() (*keys.Ring, bool) {
			d := directory.Load()
			if d == nil {
				return nil, false
			}
			ring := d.Ring()
			return ring, ring.HasAudit() // the server makes one, now or in the next seconds
		},
		OnRemove: anchors.remove,
	})
	auditLog.Record(audit.Event{Name: audit.ServerStarted, Actor: "server", Detail: "version " + version})
	return auditLog
}

// audited returns st with its changes recorded in the audit log, if there is one.
func audited(st store.Store, auditLog *audit.Log) store.Store {
	if auditLog == nil {
		return st
	}
	return audit.NewStore(st, auditLog)
}

// anchorEvery is the interval at which the anchor is written.
const anchorEvery = time.Minute

// An anchoring keeps the anchor of the audit log in the store current.
type anchoring struct {
	auditLog *audit.Log
	store    store.Store
	dir      string
	keep     time.Duration // retention of anchors of ended chains; 0: for ever
	log      *slog.Logger
	outage   *store.Outage
	last     audit.Head // written last, by put
	failing  bool

	mu    sync.Mutex // guards chain, and the anchor in the store
	chain string     // the one that compare has accepted
}

func newAnchoring(cfg config.Config, st store.Store, outage *store.Outage, log *slog.Logger) *anchoring {
	return &anchoring{store: st, outage: outage, dir: cfg.AuditDirectory(), keep: cfg.Audit.Retention.Std(), log: log}
}

// run keeps the anchor current until ctx ends.
func (a *anchoring) run(ctx context.Context) {
	pause := time.Second // until the first anchor: before, the log could be exchanged
	for directory.Pause(ctx, pause) {
		if a.put(ctx); a.last != (audit.Head{}) {
			pause = anchorEvery
		}
	}
}

// end records the stop, closes the audit log and anchors its end.
func (a *anchoring) end() {
	if a.auditLog == nil {
		return
	}
	a.auditLog.Record(audit.Event{Name: audit.ServerStopped, Actor: "server"})
	a.auditLog.Close() // it logs what it could not write
	a.put(context.Background())
}

func (a *anchoring) put(ctx context.Context) {
	settling, settled := context.WithTimeout(ctx, deployment.AnchorTime)
	a.auditLog.Settle(settling) // commands may have recorded something
	settled()
	head := a.auditLog.Head()
	if head == a.last {
		return
	}
	try, cancel := context.WithTimeout(ctx, deployment.AnchorTime)
	defer cancel()
	err := a.write(try, head, 0)
	if err != nil && !store.Interrupted(err) && !errors.Is(err, errRewritten) {
		// A write whose connection broke may have succeeded, whatever its error is. Only
		// the error of another write shows whether the store can be used.
		err = a.write(try, head, 0)
	}
	if err != nil && ctx.Err() != nil {
		return // the server stops, and end writes it
	}
	combined := a.outage.Combines(err, time.Now())
	switch {
	case err == nil || combined || a.failing:
	case errors.Is(err, errRewritten):
		a.log.Error("the audit log does not contain the record that its anchor in the store names; see: mintage audit verify", "error", err)
	default:
		a.log.Warn("cannot store the anchor of the audit log; retrying", "error", err)
	}
	if a.failing = err != nil && !combined; err == nil {
		a.last = head
	}
}

// remove records in the store which lines retention is about to remove.
func (a *anchoring) remove(last audit.Head) error {
	ctx, cancel := context.WithTimeout(context.Background(), deployment.AnchorTime)
	defer cancel()
	return a.write(ctx, a.auditLog.Head(), last.Seq)
}

var errRewritten = errors.New("the record of the anchor is missing")

// write stores the head of the audit log, and the seq of the last removed record, or 0
// if no more was removed.
func (a *anchoring) write(ctx context.Context, head audit.Head, removed uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := grant.At(time.Now())
	key := store.KeyOf(store.DocumentAuditHead, oauth.DefaultRealm, head.Chain)
	var was deployment.Anchor
	d, err := store.ReadDocument(ctx, a.store, store.DocumentAuditHead, key, &was)
	if err != nil {
		return err
	}
	if err := a.compare(ctx, head, &was); err != nil {
		return err
	}
	next := deployment.Anchor{Chain: head.Chain, Node: deployment.HostName(), Directory: deployment.DirectoryName(a.dir), Seq: head.Seq, Hash: head.Hash.String(), At: now, Removed: max(removed, was.Removed)}
	if d.ExpiresAt = 0; a.keep > 0 {
		d.ExpiresAt = now.Add(a.keep)
	}
	return store.PutDocument(ctx, a.store, d, next)
}

// compare checks, once for each chain, that the audit log contains the record that its
// anchor names: a new anchor would vouch for an audit log that was rewritten. An audit log
// without an anchor is new, and compare accepts where it begins. It then logs the chain
// that the store has for the same directory, if any.
func (a *anchoring) compare(ctx context.Context, head audit.Head, was *deployment.Anchor) error {
	if a.chain == head.Chain && was.Chain != "" {
		return nil
	}
	hash, _ := audit.ParseHash(was.Hash)
	place, err := audit.Find(a.dir, audit.Head{Seq: was.Seq, Hash: hash})
	if err != nil {
		return err
	}
	if was.Seq >= place.First && !place.Found && was.Chain != "" {
		return fmt.Errorf("%w: seq %d, of %s", errRewritten, was.Seq, show.Instant(was.At))
	}
	if was.Chain == "" {
		was.Removed = max(place.First, 1) - 1
		known, err := deployment.Anchors(ctx, a.store)
		if err != nil {
			return err
		}
		for _, k := range known {
			if k.Of(a.dir) && k.Chain != head.Chain { // that of this chain may be stored meanwhile
				a.log.Error("a new audit log begins, and the one that an anchor in the store names is missing; see: mintage audit verify", "chain", k.Chain, "records", k.Seq, "until", show.Instant(k.At))
			}
		}
	}
	a.chain = head.Chain
	return nil
}
