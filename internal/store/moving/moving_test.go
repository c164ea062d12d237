package moving_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/moving"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// contents are all that the methods of a store return, which do not depend on moves.
type contents struct {
	Changes   store.Changes
	Clients   []store.Client
	Documents []store.Document
	Events    []store.Event
	Grants    []grant.Grant
}

func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%s: number %d is %.500v\nwant %.500v", what, i, fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]))
		}
	}
}

func read(t *testing.T, st store.Store) (c contents) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	c.Changes, err = st.Changes(t.Context(), 0)
	check(err)
	slices.SortFunc(c.Changes.Clients, func(a, b store.Client) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(c.Changes.Cutoffs, func(a, b store.Cutoff) int { return strings.Compare(a.Subject+a.ClientID, b.Subject+b.ClientID) })
	for i := range c.Changes.Keys {
		c.Changes.Keys[i].Wrapped = append([]byte{}, c.Changes.Keys[i].Wrapped...) // an engine may return empty for nil
	}
	slices.SortFunc(c.Changes.Keys, func(a, b keys.Stored) int { return cmp.Compare(a.ID, b.ID) })
	for _, client := range c.Changes.Clients {
		client, err = st.Client(t.Context(), client.ID)
		check(err)
		c.Clients = append(c.Clients, client)
	}
	for _, kind := range []store.DocumentKind{store.DocumentUser, store.DocumentSession, store.DocumentInteraction, store.DocumentConsents} {
		list, err := st.Documents(t.Context(), store.DocumentFilter{Kind: kind, Limit: 100})
		check(err)
		for i := range list {
			list[i].Body = append([]byte{}, list[i].Body...)
		}
		c.Documents = append(c.Documents, list...)
	}
	c.Events, err = st.Events(t.Context(), "billing", 100)
	check(err)
	c.Grants, err = st.Grants(t.Context(), store.GrantFilter{Limit: 100_000})
	check(err)
	// The grant with the zero id precedes every list.
	first, err := st.Grant(t.Context(), grant.ID{})
	check(err)
	c.Grants = append(c.Grants, first)
	return c
}

func TestEverythingMovesAsItIs(t *testing.T) {
	t.Parallel()
	dir := newSource(t, 5_300)
	old, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, old)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if len(before.Grants) != 5_300 || len(before.Changes.Clients) != 5 || len(before.Changes.Cutoffs) != 4 || len(before.Changes.Keys) != 2 ||
		len(before.Documents) != 5 || len(before.Events) != 7 {
		t.Fatalf("the source holds %d grants, %d clients, %d cutoffs, %d keys, %d documents, %d events",
			len(before.Grants), len(before.Changes.Clients), len(before.Changes.Cutoffs), len(before.Changes.Keys), len(before.Documents), len(before.Events))
	}

	// In a language's collation, a-1 is not where its bytes would put it.
	database := server.Database(t, `TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`)
	url := server.URL(database)
	o := mustMove(t, openSource(t, dir), openDestination(t, url))
	if o.Already || len(o.Tables) != len(store.Tables) {
		t.Errorf("outcome %+v", o)
	}
	for _, c := range o.Tables {
		if c.Source != c.Copy || c.Source.Rows == 0 || c.First != "" {
			t.Errorf("%s: %d rows and %d, first difference %q", c.Table, c.Source.Rows, c.Copy.Rows, c.First)
		}
	}

	serve := func(ctx context.Context, d postgres.Database) (*postgres.Store, error) {
		return postgres.Create(ctx, d, nil)
	}
	for name, open := range map[string]func(context.Context, postgres.Database) (*postgres.Store, error){"servers": serve, "commands": postgres.Open} {
		st, err := open(t.Context(), postgres.Database{URL: url})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer st.Close()
		after := read(t, st)
		// Values that no engine with text in UTF-8 can store.
		want := before
		want.Events = slices.Clone(before.Events)
		for i, e := range want.Events {
			fit := strings.NewReplacer("\x00", "\ufffd", "\xff\xfe\xf0", "\ufffd", "\xff", "\ufffd").Replace
			want.Events[i].Actor, want.Events[i].Detail = fit(e.Actor), fit(e.Detail)
		}
		if reflect.DeepEqual(want.Events, before.Events) {
			t.Error("no line of evidence needed a change")
		}
		same(t, name+": clients of the directory", after.Changes.Clients, want.Changes.Clients)
		same(t, name+": cutoffs", after.Changes.Cutoffs, want.Changes.Cutoffs)
		same(t, name+": restores", after.Changes.Restores, want.Changes.Restores)
		same(t, name+": keys", after.Changes.Keys, want.Changes.Keys)
		same(t, name+": clients", after.Clients, want.Clients)
		same(t, name+": documents", after.Documents, want.Documents)
		same(t, name+": events", after.Events, want.Events)
		same(t, name+": grants", after.Grants, want.Grants)
		if after.Changes.Version != 41 {
			t.Errorf("%s: directory version %d, want the source's 41", name, after.Changes.Version)
		}
	}

	if _, err := sqlite.Create(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "it has moved to postgres://127.0.0.1:") || !strings.Contains(err.Error(), "/"+database) {
		t.Errorf("a server opens the old store: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), dir); err == nil {
		t.Error("a command opens the old store")
	}
	if o := mustMove(t, openSource(t, dir), openDestination(t, url)); !o.Already {
		t.Errorf("the same command again: %+v", o)
	}
}

func TestWhatNoTextCanHoldIsNamedAndNotChanged(t *testing.T) {
	t.Parallel()
	dir := newSource(t, 10)
	if _, err := raw(t, dir).Exec(`UPDATE grants SET subject = 'a' || char(0) || 'b' WHERE subject = 'alice'`); err != nil {
		t.Fatal(err)
	}
	_, url := server.Schema(t)
	_, err := moving.Run(t.Context(), openSource(t, dir), openDestination(t, url), silent)
	if want := `copy grants: the subject of grants 80000000000000000000000000000000 is not valid text: "a\x00b"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestACopyThatDiffersIsFoundAndNotOpened(t *testing.T) {
	t.Parallel()
	dir := settled(t, newSource(t, 150))
	for statement, want := range map[string]string{
		`UPDATE S.grants SET attempt = attempt + 1 WHERE id = '\x80000000000000000000000000000000'`: "150 rows of grants against 150; the first difference is grants 80000000000000000000000000000000",
		`DELETE FROM S.grants WHERE id = '\x80000000000000000000000000000000'`:                      "149 rows of grants against 150; the first difference is grants 80000000000000000000000000000000",
		`DELETE FROM S.grants WHERE id = '\xffffffffffffffff0000000000000000'`:                      "the first difference is grants ffffffffffffffff0000000000000000",
		`INSERT INTO S.grants SELECT '\xfffffffffffffffff000000000000000', realm, client, subject, scope, authorized_at, auth_time, claims, generation, version, rotated_at,
			key_id, expires_at, delete_after, access_floor, attempt, state, reason FROM S.grants LIMIT 1`: "151 rows of grants against 150; the first difference is grants fffffffffffffffff000000000000000",
		`UPDATE S.clients SET doc = replace(doc, 'deleted', 'enabled') WHERE id = 'alpha1'`: `the first difference is clients "alpha1"`,
		`UPDATE S.clients SET changed = 1 WHERE id = 'Zeta'`:                                `the first difference is clients "Zeta"`,
		`UPDATE S.secret_uses SET used_at = 1 WHERE secret = ''`:                            `the first difference is secret_uses ""`,
		`DELETE FROM S.cutoffs WHERE subject = 'alice'`:                                     `3 rows of cutoffs against 4; the first difference is cutoffs "/api" "alice" ""`,
		`UPDATE S.keys SET wrapped = '\x00ff01' WHERE purpose = 'ES256'`:                    "the first difference is keys 4294967295",
		`INSERT INTO S.keys VALUES (77, 'mac', 1, 1, '\x00', 1)`:                            "3 rows of keys against 2; the first difference is keys 77",
		`UPDATE S.documents SET expires_at = 9 WHERE version = 1`:                           "rows of documents against 5",
		`UPDATE S.events SET detail = detail || ' ' WHERE at = 2`:                           "the first difference is events 024a",
		`UPDATE S.directory SET version = 40`:                                               "version 40, which is before the source's 41",
	} {
		t.Run(strings.Fields(statement)[0]+" "+want, func(t *testing.T) {
			t.Parallel()
			name, url := server.Schema(t)
			from, to := openSource(t, duplicate(t, dir)), openDestination(t, url)
			// After everything is copied, and before it is compared.
			tampered := false
			_, err := moving.Run(t.Context(), from, tamper{to, func() {
				tampered = true
				server.Run(t, "postgres", strings.ReplaceAll(statement, "S.", name+"."))
			}}, silent)
			if !tampered || err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("tampered: %t; %v, want %s", tampered, err, want)
			}
			if source, destination := served(t, from, to); source || destination {
				t.Errorf("served: source %t, destination %t", source, destination)
			}
			// Follow the error's advice: undo, and move again.
			if _, err := moving.Undo(t.Context(), from, nil, false); err != nil {
				t.Fatal(err)
			}
			mustMove(t, from, to)
			if source, destination := served(t, from, to); source || !destination {
				t.Errorf("after another move, served: source %t, destination %t", source, destination)
			}
		})
	}
}

// A tamper is a destination that another process changes after the copy.
type tamper struct {
	*postgres.Moving
	meddle func()
}

func (d tamper) RaiseDirectory(ctx context.Context, version int64) error {
	err := d.Moving.RaiseDirectory(ctx, version)
	d.meddle()
	return err
}

func TestAnInterruptedCopyIsMadeAnew(t *testing.T) {
	t.Parallel()
	from := openSource(t, newSource(t, 1_530))
	name, url := server.Schema(t)
	to := openDestination(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := moving.Run(ctx, from, to, func(p moving.Progress) {
		if p.AllDone > p.AllTotal || p.Done > p.Total {
			t.Errorf("progress %+v", p)
		}
		if p.Table == "grants" && p.Done >= 500 { // as Ctrl-C does
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if source, destination := served(t, from, to); source || destination {
		t.Errorf("interrupted, served: source %t, destination %t", source, destination)
	}
	if n := server.Run(t, "postgres", `SELECT count(*) FROM `+name+`.grants`); n == "0" {
		t.Error("it was interrupted before it copied a grant")
	}
	mustMove(t, from, to)
	if n := server.Run(t, "postgres", `SELECT count(*) FROM `+name+`.grants`); n != "1530" {
		t.Errorf("%s grants", n)
	}
}

func TestKeysAreOrderedAsBytesAndNumbers(t *testing.T) {
	table := store.Table{Name: "t", Key: 2, Columns: []store.Column{{Name: "a", Kind: store.Number}, {Name: "b", Kind: store.Text}}}
	row := func(n int64, text string) store.Row { return store.Row{{Number: n}, {Text: text}} }
	list := []store.Row{row(math.MinInt64, ""), row(-1, "b"), row(0, "B"), row(0, "a"), row(0, "a-"), row(0, "ä"), row(math.MaxInt64, "")}
	for i := range list {
		for j := range list {
			if got := store.CompareKeys(table, list[i], list[j]); got != cmp.Compare(i, j) {
				t.Errorf("%v and %v: %d", list[i], list[j], got)
			}
		}
	}
}
