package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// This file joins the audit trail to the server and to the commands.

// openTrail opens the audit trail of the server; nil if there is none.
func openTrail(cfg config.Config, log *slog.Logger) *audit.Log {
	if cfg.AuditDirectory() == "" {
		log.Warn("there is no audit trail", "advice", "leave audit.directory out to have one in the data directory")
		return nil
	}
	trail := audit.Open(audit.Options{
		Directory: cfg.AuditDirectory(), Owner: cfg.Data, Node: hostName(), Routine: cfg.Audit.Refreshes,
		Server: true, Retention: cfg.Audit.Retention.Std(), MaxSize: int64(cfg.Audit.MaxSize), Now: time.Now, Log: log,
	})
	trail.Record(audit.Event{Name: audit.ServerStarted, Actor: "server", Detail: "version " + buildVersion()})
	return trail
}

// A trailedStore is a served store whose changes are in the audit trail.
type trailedStore struct {
	*audit.Store
	served servedStore
}

func trailed(st servedStore, trail *audit.Log) servedStore {
	if trail == nil {
		return st
	}
	return trailedStore{audit.NewStore(st, trail), st}
}

func (s trailedStore) Ready(ctx context.Context) error { return s.served.Ready(ctx) }
func (s trailedStore) Load() store.Load                { return s.served.Load() }

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "?"
	}
	return host
}

// An anchor says, in the store, how far the trail had got: lines that are cut
// off its end do not show in the chain.
type anchor struct {
	Chain string        `json:"chain"`
	Node  string        `json:"node"`
	Seq   uint64        `json:"seq"`
	Hash  string        `json:"hash"`
	At    grant.Instant `json:"at"`
}

const (
	anchorEvery = time.Minute
	anchorTime  = 2 * time.Second
)

// An anchoring keeps the anchor of a trail current.
type anchoring struct {
	trail   *audit.Log
	store   store.Store
	keep    time.Duration // how long anchors of trails stay that have ended; 0: for ever
	log     *slog.Logger
	last    audit.Head
	failing bool
}

func newAnchoring(cfg config.Config, trail *audit.Log, st store.Store, log *slog.Logger) *anchoring {
	return &anchoring{trail: trail, store: st, keep: cfg.Audit.Retention.Std(), log: log}
}

// run keeps the anchor current until ctx ends.
func (a *anchoring) run(ctx context.Context) {
	tick := time.NewTicker(anchorEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.put(ctx)
		}
	}
}

// end records the stop, closes the trail and anchors its end.
func (a *anchoring) end() {
	if a.trail == nil {
		return
	}
	a.trail.Record(audit.Event{Name: audit.ServerStopped, Actor: "server"})
	a.trail.Close() // it logs what it could not write
	a.put(context.Background())
}

func (a *anchoring) put(ctx context.Context) {
	head := a.trail.Head()
	if head == a.last {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTime)
	defer cancel()
	err := a.write(ctx, head)
	if err != nil && !a.failing {
		a.log.Warn("cannot note in the store how far the audit trail is; trying again", "error", err)
	}
	if a.failing = err != nil; !a.failing {
		a.last = head
	}
}

func (a *anchoring) write(ctx context.Context, head audit.Head) error {
	now := grant.At(time.Now())
	body, err := json.Marshal(anchor{head.Chain, hostName(), head.Seq, head.Hash.String(), now})
	if err != nil {
		return err
	}
	key := store.KeyOf(store.DocumentAuditHead, realm, head.Chain)
	d, err := a.store.Document(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	d = store.Document{Kind: store.DocumentAuditHead, Key: key, Version: d.Version + 1, Body: body}
	if a.keep > 0 {
		d.ExpiresAt = now.Add(a.keep)
	}
	return a.store.PutDocument(ctx, d, nil)
}

// anchors are all that the store has.
func anchors(ctx context.Context, st store.Store) (list []anchor, err error) {
	var after store.DocumentKey
	for {
		page, err := st.Documents(ctx, store.DocumentAuditHead, after, 100)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			var a anchor
			if err := json.Unmarshal(d.Body, &a); err != nil {
				return nil, fmt.Errorf("how far an audit trail was, in the store: %w", err)
			}
			list, after = append(list, a), d.Key
		}
		if len(page) == 0 {
			return list, nil
		}
	}
}

// A notingStore is the store of a command, whose changes are in the audit trail
// when it is closed.
type notingStore struct {
	*audit.Store
	trail  *audit.Log
	stderr io.Writer
}

// commandTrail opens the audit trail for a command; nil if there is none.
// Nothing is made before there is something to record.
func commandTrail(cfg config.Config) *audit.Log {
	if cfg.AuditDirectory() == "" {
		return nil
	}
	return audit.Open(audit.Options{
		Directory: cfg.AuditDirectory(), Owner: cfg.Data, Node: hostName(), Routine: true, AtOnce: true,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// openNoting has a command's changes of the store recorded.
func openNoting(cfg config.Config, st store.Store) (store.Store, *audit.Log) {
	trail := commandTrail(cfg)
	if trail == nil {
		return st, nil
	}
	return notingStore{audit.NewStore(st, trail), trail, os.Stderr}, trail
}

// Close writes the records. What was done is done: if they cannot be written,
// the operator is told, and the command has not failed.
func (s notingStore) Close() error {
	err := s.Store.Close()
	if missing := s.trail.Close(); missing != nil {
		fmt.Fprintf(s.stderr, "mintage: it is done, but not in the audit trail: %v\n", missing)
		fmt.Fprintf(s.stderr, "         name the server's data directory with --data, and run this as its user\n")
	}
	return err
}
