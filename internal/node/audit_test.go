package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// storeAndAudit creates a store, and returns a configuration with an audit log directory
// beside it.
func storeAndAudit(t *testing.T) (config.Config, store.Store) {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return config.Config{Data: dir, Audit: config.Audit{Directory: filepath.Join(dir, "audit")}}, st
}

// ended writes a number of records, and returns the closed audit log.
func ended(t *testing.T, cfg config.Config, log *slog.Logger, records int) *audit.Log {
	t.Helper()
	auditLog := audit.Open(audit.Options{Directory: cfg.AuditDirectory(), Now: time.Now, Log: log})
	for range records {
		auditLog.Record(audit.Event{Name: audit.ServerStarted})
	}
	if err := auditLog.Close(); err != nil {
		t.Fatal(err)
	}
	return auditLog
}

// If the audit log has been rewritten, a server that starts must not store an anchor for
// it: the stored anchor would be lost.
func TestAnAnchorIsNotMovedToAnAuditLogThatWasWrittenAnew(t *testing.T) {
	cfg, st := storeAndAudit(t)
	run := func() error {
		log := slog.New(slog.DiscardHandler)
		a := newAnchoring(cfg, st, nil, log)
		a.auditLog = ended(t, cfg, log, 4)
		return a.write(t.Context(), a.auditLog.Head(), 0)
	}
	for range 2 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	before, err := deployment.Anchors(t.Context(), st)
	if err != nil || len(before) != 1 || before[0].Seq != 9 || before[0].Removed != 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	rewrite(t, filepath.Join(cfg.AuditDirectory(), "00000001.jsonl"))
	if err := run(); !errors.Is(err, errRewritten) {
		t.Errorf("the end of the audit log is stored: %v", err)
	}
	if after, err := deployment.Anchors(t.Context(), st); err != nil || after[0].Seq != 9 || after[0].Hash != before[0].Hash {
		t.Errorf("%+v, %v", after, err)
	}
}

// A server that starts without the audit log to which the stored anchors belong logs a
// warning.
func TestAMissingAuditLogIsLogged(t *testing.T) {
	cfg, st := storeAndAudit(t)
	run := func() string {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		a := newAnchoring(cfg, st, nil, log)
		a.auditLog = ended(t, cfg, log, 1)
		a.put(t.Context())
		return out.String()
	}
	if text := run() + run(); text != "" {
		t.Fatal(text)
	}
	if err := os.RemoveAll(cfg.AuditDirectory()); err != nil {
		t.Fatal(err)
	}
	if text := run(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "the one that an anchor in the store names is missing") {
		t.Errorf("after the audit log was removed, the log is %q", text)
	}
	if text := run(); text != "" {
		t.Errorf("it is logged again: %s", text)
	}
}

// A shutdown interrupts the storing of an anchor. That is neither a failure nor an outage,
// and the anchor is stored later.
func TestAShutdownIsNoOutage(t *testing.T) {
	cfg, st := storeAndAudit(t)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	a := newAnchoring(cfg, st, &store.Outage{Log: log}, log)
	a.auditLog = ended(t, cfg, log, 1)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	a.put(stopped)
	if out.Len() > 0 {
		t.Errorf("a stop is logged: %s", &out)
	}
	a.put(t.Context())
	if noted, err := deployment.Anchors(t.Context(), st); err != nil || len(noted) != 1 || noted[0].Seq != a.auditLog.Head().Seq {
		t.Errorf("%+v, %v", noted, err)
	}
	if out.Len() > 0 {
		t.Error(&out)
	}
}

// overtaken is a store that commits an earlier write after the first read.
type overtaken struct {
	store.Store
	earlier func()
}

func (o *overtaken) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	d, err := o.Store.Document(ctx, key)
	if earlier := o.earlier; earlier != nil {
		o.earlier = nil
		earlier()
	}
	return d, err
}

// A shutdown interrupts the storing of the first anchor, which the database commits while
// the anchor is stored again. That anchor belongs to the same audit log, which is not missing.
func TestAnInterruptedAnchorIsNotThatOfAMissingAuditLog(t *testing.T) {
	cfg, st := storeAndAudit(t)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	auditLog := ended(t, cfg, log, 1)
	interrupted := newAnchoring(cfg, st, nil, log)
	interrupted.auditLog = auditLog
	a := newAnchoring(cfg, &overtaken{st, func() { interrupted.put(t.Context()) }}, nil, log)
	a.auditLog = auditLog
	a.put(t.Context())
	if noted, err := deployment.Anchors(t.Context(), st); err != nil || len(noted) != 1 || out.Len() > 0 {
		t.Errorf("%+v, %v, logged %s", noted, err, &out)
	}
}

// breaking is a store that fails during a write, with unknown outcome.
type breaking struct {
	store.Store
	gone, fault error
}

func (b *breaking) Commit(context.Context, store.Change) error {
	b.gone = b.fault
	return errors.New("unexpected EOF")
}

func (b *breaking) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	if b.gone != nil {
		return store.Document{}, b.gone
	}
	return b.Store.Document(ctx, key)
}

// If a connection breaks while an anchor is written, the failure is counted as part of an
// outage if the store is gone, and logged as a failure of its own if the store responds.
func TestABrokenWriteCountsAsPartOfTheOutage(t *testing.T) {
	cfg, st := storeAndAudit(t)
	for fault, want := range map[error]string{
		store.Unavailable(errors.New("connection refused")): "operations on the store fail",
		nil: "cannot store the anchor of the audit log",
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		a := newAnchoring(cfg, &breaking{Store: st, fault: fault}, &store.Outage{Log: log}, log)
		a.auditLog = ended(t, cfg, log, 1)
		a.put(t.Context())
		a.put(t.Context())
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("%v: %s", fault, text)
		}
	}
}

// rewrite changes the first record of a file, and renews the hash chain of the others.
func rewrite(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	prev, actor := "", "somebody else"
	for line := range bytes.Lines(text) {
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		e.Prev, e.Actor, actor = prev, actor+e.Actor, ""
		if line, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(line)
		prev, lines = hex.EncodeToString(sum[:]), append(append(lines, line...), '\n')
	}
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		t.Fatal(err)
	}
}
