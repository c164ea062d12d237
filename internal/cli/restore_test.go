package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/restore"
	"github.com/mintage/mintage/internal/store"
)

func TestAClockTooFarBehindCausesAWarning(t *testing.T) {
	const now = grant.Instant(1_700_000_000_000)
	for ahead, told := range map[time.Duration]bool{-time.Hour: false, time.Minute: false, time.Minute + time.Millisecond: true} {
		var w strings.Builder
		warnOfClock(&w, now, grant.Issued{Latest: now.Add(ahead)})
		if strings.Contains(w.String(), "set the clock first") != told {
			t.Errorf("%s ahead: %q", ahead, &w)
		}
	}
}

func TestWhatHasEndedIsListed(t *testing.T) {
	const at = grant.Instant(1_700_000_000_000)
	ended := plan{Since: restore.Since{EndedGrants: 7, Missing: []string{"client new, created"}, Ended: admin.Ended{
		Keys:    []grant.KeyID{0x24b2ed15},
		Clients: []admin.EndedClient{{ID: "shop", State: store.ClientDisabled}, {Realm: "/eu", ID: "shop", Secrets: []string{"s1"}}},
		APIs:    []admin.EndedAPI{{ID: "https://api.example:8443/orders", Deleted: true}, {ID: "https://api.example", Closed: true, Scope: "b"}},
		Trusts:  []admin.EndedTrust{{ID: "acme", Deleted: true}, {Realm: "/eu", ID: "ci"}},
		Users:   []admin.EndedUser{{Username: "alice", Disabled: true}, {Subject: "s-bob"}},
		Cutoffs: []store.Cutoff{{ClientID: "shop", At: at}, {Subject: "s-bob", At: at}, {Realm: "/eu", Subject: "s-bob", ClientID: "shop", At: at}},
		Tokens:  []admin.EndedEntry{{Name: "ci"}}, Operators: []admin.EndedEntry{{Name: "eve"}}, Sessions: make([]store.DocumentKey, 3),
	}}, auditNotes: []string{"it begins late"}}
	const lines = `
  key 24b2ed15, withdrawn
  client shop, disabled
  secret s1 of client shop of realm eu, revoked
  API https://api.example:8443/orders, deleted
  API https://api.example, closed to clients that registered themselves
  scope b of API https://api.example, removed
  trust acme, deleted
  trust ci of realm eu, changed or disabled
  user alice, disabled
  sessions, password or second factor of user s-bob, as they were before the last change
  everything of client shop until 2023-11-14T22:13:20Z
  everything of subject "s-bob" until 2023-11-14T22:13:20Z
  everything of subject "s-bob" at client shop of realm eu until 2023-11-14T22:13:20Z
  admin token ci, revoked
  operator eve of the console, removed
  grants that were revoked: 7
  sessions of browsers that were signed out: 3

Missing afterwards; repeat it:
  client new, created

The audit log:
  it begins late
`
	for revive, title := range map[bool]string{false: "\nEnded since the backup, and ended in the restored store as well:", true: "\nEnded since the backup, and valid again (--undo-revocations):"} {
		ended.revive = revive
		var w strings.Builder
		if ended.printSince(&w); w.String() != title+lines {
			t.Errorf("undone %t:\n%s\nwant:\n%s", revive, &w, title+lines)
		}
	}
}

func TestALongListIsCutShort(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "\nTitle\n  x\n", 21: "\nTitle\n" + strings.Repeat("  x\n", 21), 22: "\nTitle\n" + strings.Repeat("  x\n", 20) + "  ... and 2 more\n"} {
		var w strings.Builder
		if printList(&w, "Title", slices.Repeat([]string{"x"}, n)); w.String() != want {
			t.Errorf("%d lines:\n%s", n, &w)
		}
	}
}

// The question shows the consequences of the restore before the operator confirms it.
func TestARestoreSaysWhatItCosts(t *testing.T) {
	const issuer, age = "\nIt belongs to another issuer: https://a.example, and this one is https://b.example/oauth2.\n", "\nThe backup is older than key_lead allows: since 2023-11-14T22:13:20Z, keys"
	const unknown = "  all changes since; there is no present store to compare with\n"
	made := []restore.MadeBy{{ClientID: "shop", Grants: 4}, {ClientID: "app", Grants: 1}}
	for name, c := range map[string]struct {
		set  func(*plan)
		want string
		not  string
	}{
		"another issuer": {func(p *plan) {}, issuer, "of which"},
		"same issuer":    {func(p *plan) { p.backup.Manifest.Issuer = p.cfg.IssuerID() }, "into /data\n\nContinues:\n  9 grants\n", issuer},
		"no issuer":      {func(p *plan) { p.backup.Manifest.Issuer = "" }, "Continues:\n  9 grants\n", "another issuer"},
		"old":            {func(p *plan) { p.cfg.KeyLifetime = config.Duration(time.Hour) }, age, "refreshed since"},
		"keys are kept":  {func(p *plan) {}, "Lost for good:\n" + unknown + "  there is no audit log that lists them\n", "key_lead"},
		"unreadable":     {func(p *plan) { p.present, p.unreadable = true, errors.New("malformed") }, "since; the present store cannot be read (malformed)\n", "of which"},
		"audit log":      {func(p *plan) { p.auditLast = time.Unix(1_700_000_000, 0).UTC() }, "  the audit log in /data/audit has 0 changes since; its last record is of 2023-11-14T22:13:20Z\n", "no audit log"},
		"ended since":    {func(p *plan) { p.Missing = []string{"client new"} }, "Missing afterwards; repeat it:\n  client new\n", "set the clock"},
		"clock":          {func(p *plan) { p.seen.Latest = grant.At(time.Now().Add(time.Hour)) }, "set the clock first", "Missing"},
		"broken log":     {func(p *plan) { p.auditFault = errors.New("a gap") }, "  the audit log in /data/audit is not intact: a gap\n", "no audit log"},
		"to compare": {func(p *plan) {
			p.present, p.lost = true, restore.Lost{Refreshed: 2, Made: 5, MadeBy: made, Sessions: 3, Keys: 1}
		}, "  9 grants, of which 2 were refreshed since: their clients continue with their tokens\n\nLost for good:\n" +
			"  5 newer grants: their users log in again (shop: 4, app: 1)\n  3 browser sessions: their users log in again\n  1 key\n", "audit log"},
		"of many clients":   {func(p *plan) { p.present, p.lost.MadeBy = true, slices.Repeat(made[1:], 11) }, "(" + strings.Repeat("app: 1, ", 10) + "...)\n", "sessions"},
		"of enough clients": {func(p *plan) { p.present, p.lost.MadeBy = true, slices.Repeat(made[1:], 10) }, "app: 1, app: 1)\n", "..."},
	} {
		p := &plan{at: 1_700_000_000_000, backup: &backup.File{File: "b", Manifest: backup.Manifest{Issuer: "https://a.example", Rows: map[string]int64{"grants": 9}}}}
		p.cfg.PublicURL, p.cfg.Data = "https://b.example", "/data"
		c.set(p)
		var w strings.Builder
		if err := p.print(&w); err != nil || !strings.Contains(w.String(), c.want) || strings.Contains(w.String(), c.not) {
			t.Errorf("%s: %v\n%s\nwant: %s\nnot: %s", name, err, &w, c.want, c.not)
		}
	}
}
