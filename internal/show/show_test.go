package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

func TestWordsForPeople(t *testing.T) {
	t.Parallel()
	now := grant.Instant(1_700_000_000_000)
	for want, got := range map[string]string{
		"-": OrDash(""), "a": OrDash("a"),
		"0 ms": Roughly(-1200 * time.Millisecond), "999 ms": Roughly(999 * time.Millisecond), "119 s": Roughly(119 * time.Second), "119 min": Roughly(119 * time.Minute), "47 h": Roughly(47 * time.Hour), "2 days": Roughly(48 * time.Hour),
		"90 s ago": Ago(now, now.Add(-90*time.Second)), "in 90 s": Ago(now, now.Add(90*time.Second)),
		"0 keys": Count(0, "key", "keys"), "1 key": Count(1, "key", "keys"), "2 keys": Count(2, "key", "keys"),
		"1023 B": Bytes(1023), "1.5 KiB": Bytes(1536), "2048.0 TiB": Bytes(2 << 50),
		"/var/lib/mintage": Quote("/var/lib/mintage"), `'it'\''s $HOME'`: Quote("it's $HOME"),
		"2023-11-14T22:13:20Z": Instant(now), "": Instant(0),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Bounded(strings.Repeat("x", 300)); len(got) != 203 || Bounded("x") != "x" {
		t.Errorf("%d characters are left of 300", len(got))
	}
	if JSONInstant(0) != nil || !JSONInstant(now).Equal(now.Time()) {
		t.Errorf("%v, %v", JSONInstant(0), JSONInstant(now))
	}
}

func TestAGrantIsShownAsItStands(t *testing.T) {
	t.Parallel()
	now := grant.Instant(1_700_000_000_000)
	g := grant.Grant{Realm: "/api", ClientID: "shop", Subject: "alice", State: grant.Active, AuthorizedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}
	cut := func(subject, client string, at time.Duration) []store.Cutoff {
		return []store.Cutoff{{Realm: "/api", Subject: subject, ClientID: client, At: now.Add(at)}}
	}
	for _, c := range []struct {
		state    string
		cutoffs  []store.Cutoff
		lifetime time.Duration
		at       grant.Instant
		change   func(*grant.Grant)
	}{
		{"active", nil, 0, now, func(*grant.Grant) {}},
		{"active", nil, time.Hour + 1e6, now, func(*grant.Grant) {}},
		{"expired", nil, time.Hour, now, func(*grant.Grant) {}}, // a lifetime that was shortened since
		{"expired", nil, 0, g.ExpiresAt, func(*grant.Grant) {}},
		{"cut off", cut("alice", "", 0), 0, now, func(*grant.Grant) {}},
		{"cut off", cut("", "shop", -time.Hour), 0, g.ExpiresAt, func(*grant.Grant) {}},
		{"active", cut("alice", "shop", -2*time.Hour), 0, now, func(*grant.Grant) {}},
		{"active", cut("bob", "", 0), 0, now, func(*grant.Grant) {}},
		{"active", cut("alice", "other", 0), 0, now, func(*grant.Grant) {}},
		{"revoked", cut("alice", "", 0), 0, now, func(g *grant.Grant) { g.State = grant.Revoked }},
	} {
		changed := g
		c.change(&changed)
		v := GrantAt(changed, store.Changes{Cutoffs: c.cutoffs}, grant.Policy{GrantLifetime: c.lifetime}, c.at)
		if v.State != c.state || (v.Cutoff != nil) != (c.state == "cut off") {
			t.Errorf("%s with %+v: state %s, cutoff %v", c.state, c.cutoffs, v.State, v.Cutoff)
		}
	}
}

// Texts from elsewhere are shown without control sequences for the operator's terminal.
func TestNothingShownSpeaksToTheTerminal(t *testing.T) {
	t.Parallel()
	forged := "alice\n\x1b[2Jtold     it is well \u202e\u0000"
	var table, fields strings.Builder
	if err := Table(&table, "SUBJECT|X", [][]string{{forged, "ö 請求"}}); err != nil {
		t.Fatal(err)
	}
	if err := Fields(&fields, [][2]string{{"subject", forged}}); err != nil {
		t.Fatal(err)
	}
	if _, row, _ := strings.Cut(table.String(), "\n"); row != "alice\\n\\x1b[2Jtold     it is well \\u202e\\x00  ö 請求\n" {
		t.Errorf("table: %q", row)
	}
	if strings.Count(fields.String(), "\n") != 1 || strings.ContainsRune(fields.String(), 0x1b) {
		t.Errorf("fields: %q", fields.String())
	}
	if got := Bounded(forged); got != `alice\n\x1b[2Jtold     it is well \u202e\x00` {
		t.Errorf("bounded: %q", got)
	}
}

func TestTheAPIsOfAGrantAreShownByTheirIDs(t *testing.T) {
	t.Parallel()
	registered := []store.API{{ID: "https://a.example", Realm: "/api", Number: 1}, {ID: "https://b.example", Realm: "/api", Number: 2, Deleted: true}, {ID: "https://c.example", Realm: "/other", Number: 3}}
	v := GrantAt(grant.Grant{Realm: "/api", Facts: grant.Facts{APIs: grant.APIs{3, 1, 2, store.IssuerAPI, store.ClientAudience}}}, store.Changes{APIs: registered}, grant.Policy{}, 0)
	if want := []string{"deleted API 3", "https://a.example", "deleted API 2", "issuer", "client audience"}; !slices.Equal(v.APIs, want) {
		t.Errorf("%q", v.APIs)
	}
	if v := GrantAt(grant.Grant{}, store.Changes{APIs: registered}, grant.Policy{}, 0); v.APIs != nil {
		t.Errorf("%q of a grant without APIs", v.APIs)
	}
}

func TestErrorsOfSeveralLinesAreShownAsOne(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"one; line: ": "one; line: ",
		"failed to connect to `user=a`:\n\t10.0.0.1:5432 (db1): dial error\n\t10.0.0.2:5432 (db2): refused": "failed to connect to `user=a`: 10.0.0.1:5432 (db1): dial error; 10.0.0.2:5432 (db2): refused",
		"store\n\nclock\r\n": "store; clock",
		"\n":                 "",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
