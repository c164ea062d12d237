package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// scriptRechain removes the fourth record of an audit log file, and chains the others
// again under the same or a new name, as an attacker with write access and without the
// keys could. It keeps the MACs, or omits them.
func scriptRechain(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(rechain(ts.MkAbs(args[0]), args[1] == "new", !slices.Contains(args, "without")))
}

func rechain(path string, anew, macs bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	text = nil
	prev := ""
	for i, line := range slices.Delete(lines, 3, 4) {
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if anew && i == 0 {
			e.Detail = "chain 0123456789abcdef"
		}
		if e.Seq, e.Prev = uint64(i+1), prev; !macs {
			e.MAC = ""
		}
		if line, err = json.Marshal(e); err != nil {
			return err
		}
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		text = append(append(text, line...), '\n')
	}
	return os.WriteFile(path, text, 0o600)
}

// An attacker with a copy of the keys can forge the record of a removal. It counts only
// as far as the store confirms it, or a restored store has lost that.
func TestARemovalIsBelievedUpToWhatTheStoreSays(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		removed  uint64
		restores []grant.Restore
		macs     uint64
		holds    bool
	}{
		"as the store says":                {removed: 100, holds: true},
		"less than the store says":         {removed: 300, holds: true},
		"more than the store says":         {removed: 99},
		"nothing was removed":              {removed: 0, macs: 5},
		"the store was restored since":     {removed: 50, restores: []grant.Restore{{At: grant.At(at.Add(day)), Backup: grant.At(at.Add(-day))}}, macs: 5, holds: true},
		"restored since, and without MACs": {removed: 50, restores: []grant.Restore{{At: grant.At(at.Add(day)), Backup: grant.At(at.Add(-day))}}},
		"restored from a backup after it":  {removed: 50, restores: []grant.Restore{{At: grant.At(at.Add(2 * day)), Backup: grant.At(at.Add(day))}}, macs: 5},
		"restored before the removal":      {removed: 50, restores: []grant.Restore{{At: grant.At(at.Add(-day)), Backup: grant.At(at.Add(-2 * day))}}, macs: 5},
	} {
		hash := audit.Hash{1}
		v := &verification{restores: c.restores, anchors: []deployment.Anchor{{Chain: "c", Node: deployment.HostName(), Seq: 120, Hash: hash.String(), Removed: c.removed}},
			verdict: audit.Verdict{Head: audit.Head{Chain: "c", Seq: 130}, Removed: 100, RemovedAt: at, MACs: c.macs, Anchors: map[audit.Hash]uint64{hash: 120}}}
		if err := v.judge(nil); (err == nil) != c.holds || err != nil && !strings.Contains(err.Error(), "somebody else removed the others") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server removes old files while the audit log is read; it has recorded the removal in
// the store.
func TestARemovalWhileTheAuditLogIsReadIsNoBreak(t *testing.T) {
	ctx, cfg := t.Context(), config.Config{Data: t.TempDir(), Store: config.StoreSQLite}
	dir := filepath.Join(cfg.Data, "audit")
	st, err := sqlite.Create(ctx, cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	version := int64(0)
	note := func(head audit.Head, removed uint64) error {
		body, err := json.Marshal(deployment.Anchor{Chain: head.Chain, Node: deployment.HostName(), Seq: head.Seq, Hash: head.Hash.String(), Removed: removed})
		version++
		return errors.Join(err, st.Commit(ctx, store.Change{Documents: []store.Document{{
			Kind: store.DocumentAuditHead, Key: store.KeyOf(store.DocumentAuditHead, oauth.DefaultRealm, head.Chain), Version: version, Body: body,
		}}}))
	}
	o := audit.Options{Directory: dir, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	record := func(o audit.Options) *audit.Log {
		auditLog := audit.Open(o)
		auditLog.Record(audit.Event{Name: audit.ServerStarted})
		return auditLog
	}
	var head audit.Head
	for range 3 { // one file per day
		auditLog := record(o)
		if err := auditLog.Close(); err != nil {
			t.Fatal(err)
		}
		head, now = auditLog.Head(), now.Add(24*time.Hour)
	}
	if err := note(head, 0); err != nil {
		t.Fatal(err)
	}
	remove := sync.OnceFunc(func() {
		noted := make(chan error, 1)
		server := o
		server.Server, server.MaxSize = true, 1
		server.OnRemove = func(last audit.Head) error { noted <- note(head, last.Seq); return nil }
		auditLog := record(server)
		if err := errors.Join(<-noted, auditLog.Close()); err != nil {
			t.Error(err)
		}
	})
	v := &verification{check: audit.Check{Progress: func(_, _ int64) { remove() }}}
	v.verify(ctx, cfg, dir)
	if err := v.judge(nil); err != nil || v.verdict.Removed == 0 || !v.compared {
		t.Errorf("%v; removed are %d records, compared %t", err, v.verdict.Removed, v.compared)
	}
}

// The store of several nodes records the audit logs of all of them. Only this machine's
// must exist here.
func TestTheAuditLogOfThisMachineMustExist(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		alone  bool
		absent []string
		holds  bool
		in     string
	}{
		"of another server here":     {node: deployment.HostName(), in: "/var/lib/other/audit", holds: true},
		"of this server":             {node: deployment.HostName(), in: "/var/lib/mintage/audit"},
		"of another node":            {node: "elsewhere", holds: true},
		"of a machine of before":     {node: "elsewhere", alone: true},
		"moved elsewhere on purpose": {node: deployment.HostName(), alone: true, absent: []string{"gone"}, holds: true},
		"another one was moved":      {node: deployment.HostName(), in: "/var/lib/mintage/audit", absent: []string{"other"}},
	} {
		v := &verification{alone: c.alone, absent: c.absent, dir: "/var/lib/mintage/audit", anchors: []deployment.Anchor{{Chain: "gone", Node: c.node, Directory: c.in, Seq: 12}}, verdict: audit.Verdict{Head: audit.Head{Chain: "c", Seq: 130}}}
		if err := v.judge(nil); (err == nil) != c.holds || err != nil && !strings.Contains(err.Error(), "the store has a record of chain gone") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMomentsAreTimesDaysOrDurations(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), "90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7),
		"2026-11-20T08:00": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), "2026-11-20T08:00:00+01:00": time.Date(2026, 11, 20, 7, 0, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "2026-13-01", "5"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// A text from an unauthenticated caller neither breaks a line nor controls the terminal.
func TestAnEntryIsOneLineOfATerminal(t *testing.T) {
	var b bytes.Buffer
	e := audit.Entry{Event: audit.LoginFailed, Outcome: audit.Refused, Subject: "a\nb\x1b[2J", Detail: "two words", ClientID: "plain", Generation: 3}
	if err := printEntry(&b, e, false); err != nil {
		t.Fatal(err)
	}
	if want := ` login_failed       refused client=plain subject="a\nb\x1b[2J" generation=3 detail="two words"` + "\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q", b.String())
	}
}

// Two realms can have clients and users of one name. The default realm is not named, as in
// a deployment without others.
func TestAnEntryNamesItsRealm(t *testing.T) {
	for realm, want := range map[string]string{"/staff": " success realm=/staff client=billing\n", "/api": " success client=billing\n", "": " success client=billing\n"} {
		var b bytes.Buffer
		if err := printEntry(&b, audit.Entry{Event: audit.CodeRedeemed, Outcome: audit.Success, Realm: realm, ClientID: "billing"}, false); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%q: %q", realm, b.String())
		}
	}
}

func TestVerifyingALongAuditLogShowsHowFarItIs(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var b bytes.Buffer
	show := newProgress(&b, func() time.Time { return now }).verified
	const total = 100 << 20
	for done := int64(0); done < total; done += 10 << 20 {
		show(done, total)
		now = now.Add(3 * time.Second)
	}
	show(total, total)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 || lines[0] != "mintage: 20 of 100 MiB verified, 24s left" || lines[4] != "mintage: 100 of 100 MiB verified" {
		t.Errorf("%q", lines)
	}
	b.Reset()
	newProgress(&b, func() time.Time { return now }).verified(total, total)
	if b.Len() > 0 {
		t.Errorf("a short verification shows progress: %q", b.String())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// audit show --follow begins with the last records, as many as --limit says, and
// continues with each new one.
func TestFollowingBeginsWithTheLastRecords(t *testing.T) {
	for limit, want := range map[string]int{"1": 1, "2": 2, "0": 3} {
		dir := t.TempDir()
		write := func(subjects ...string) {
			l := audit.Open(audit.Options{Directory: filepath.Join(dir, "audit"), Node: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			for _, s := range subjects {
				l.Record(audit.Event{Name: audit.LoginSucceeded, Subject: s})
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		write("s1", "s2", "s3")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var got []string
		root := Root("test")
		root.SetErr(io.Discard)
		root.SetOut(writerFunc(func(p []byte) (int, error) {
			var e audit.Entry
			if err := json.Unmarshal(p, &e); err != nil {
				t.Error(err)
			}
			switch got = append(got, e.Subject); e.Subject {
			case "s3":
				go write("s4", "s5")
			case "s5":
				stop()
			}
			return len(p), nil
		}))
		root.SetArgs([]string{"audit", "show", "--data", dir, "--json", "--follow", "--limit", limit, "--event", "login_succeeded"})
		err := root.ExecuteContext(ctx)
		stop()
		if all := []string{"s1", "s2", "s3", "s4", "s5"}; err != nil || !slices.Equal(got, all[3-want:]) {
			t.Errorf("--limit %s: %q, %v", limit, got, err)
		}
	}
}

// An unreadable file does not prove a manipulation.
func TestAnUnreadableAuditLogIsNotReportedAsBroken(t *testing.T) {
	unread := &os.PathError{Op: "open", Path: "00000001.jsonl", Err: os.ErrPermission}
	for err, broken := range map[error]bool{unread: false, audit.ErrNone: false, &audit.Break{File: "00000001.jsonl", Why: "no JSON"}: true, errors.New("cut off"): true} {
		if got := brokenAuditLog(err, audit.Verdict{}); strings.Contains(got.Error(), "is not intact") != broken {
			t.Errorf("%v: %v", err, got)
		}
	}
}
