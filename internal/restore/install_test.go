package restore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/restore"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A fixture is a data directory with a store that has changed since its backup.
type fixture struct {
	dir, file  string
	kept, lost grant.Grant // kept is in the backup, lost is not
	declared   grant.Restore
	t          *testing.T
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	h := fixture{dir: t.TempDir(), file: filepath.Join(t.TempDir(), "backup"), t: t,
		declared: grant.Restore{Backup: base, At: base + 1, Until: base + 2}}
	st := create(t, h.dir)
	h.kept = put(t, st, 1)[0]
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{invitation}}); err != nil {
		t.Fatal(err)
	}
	makeBackup(t, h.dir, h.file)
	h.lost = put(t, st, 1)[0]
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}

// invitation is an invitation to the console.
var invitation = store.Document{Kind: store.DocumentConsoleInvitation, Key: store.KeyOf(store.DocumentConsoleInvitation, "", "x"), Version: 1, ExpiresAt: grant.Never, Body: []byte("{}")}

// copyOf returns a copy of h for another test.
func (h fixture) copyOf(t *testing.T) fixture {
	t.Helper()
	t.Parallel()
	copyOf := h
	copyOf.t, copyOf.dir = t, t.TempDir()
	if err := os.CopyFS(copyOf.dir, os.DirFS(h.dir)); err != nil {
		t.Fatal(err)
	}
	return copyOf
}

func (h fixture) prepare() *restore.Replacement {
	h.t.Helper()
	b := openBackup(h.t, h.file)
	r, err := restore.Prepare(h.t.Context(), h.dir, b, ignore)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// restored is the event of a restore.
var restored = store.Event{At: base, Name: store.EventRestored, About: "store"}

// asItIs merges nothing into the copy.
func asItIs(store.Store) error { return nil }

// restore executes all steps of the command, up to the one that fails.
func (h fixture) restore(onStep func(string) error) (kept []string, err error) {
	h.t.Helper()
	r := h.prepare()
	r.OnStep(onStep)
	if err := r.Declare(h.t.Context(), asItIs, h.declared, restored); err != nil {
		return nil, err
	}
	aside, err := restore.AsideName(h.dir, base.Time())
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Install(h.t.Context(), aside)
}

func always(string) error { return nil }

// isOld and isNew check all of a store's contents for one of the two states.
func (h fixture) isOld(dir string) {
	h.t.Helper()
	st := create(h.t, dir)
	defer st.Close()
	holds(h.t, st, h.kept)
	holds(h.t, st, h.lost)
	if ch, err := st.Changes(h.t.Context(), 0); err != nil || len(ch.Restores) > 0 {
		h.t.Errorf("restores %v, %v", ch.Restores, err)
	}
}

func (h fixture) isNew() {
	h.t.Helper()
	st := create(h.t, h.dir)
	defer st.Close()
	holds(h.t, st, h.kept)
	absent(h.t, st, h.lost)
	if ch, err := st.Changes(h.t.Context(), 0); err != nil || !slices.Equal(ch.Restores, []grant.Restore{h.declared}) {
		h.t.Errorf("restores %v, %v", ch.Restores, err)
	}
	if list, err := st.Events(h.t.Context(), "store", 2); err != nil || len(list) != 1 || list[0].Name != store.EventRestored {
		h.t.Errorf("the events %v, %v", list, err)
	}
	if _, err := st.Document(h.t.Context(), invitation.Key); !errors.Is(err, store.ErrNotFound) {
		h.t.Errorf("an invitation that may have been used since: %v", err)
	}
	if tables := tablesOf(h.t, h.dir); slices.Contains(tables, "backup") {
		h.t.Errorf("the store has the tables %v", tables)
	}
}

func tablesOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	db := raw(t, dir)
	defer db.Close() // an open connection would block a restore
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		list = append(list, name)
	}
	return list
}

// keptIsOld opens the files that were kept as a store.
func (h fixture) keptIsOld(kept []string) {
	h.t.Helper()
	dir := h.t.TempDir()
	for _, name := range kept {
		end := ""
		if strings.HasSuffix(name, "-wal") {
			end = "-wal"
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, sqlite.FileName+end), text, 0o600)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.isOld(dir)
}

func TestARestoreReplacesTheStoreAndKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	kept, err := h.restore(always)
	if err != nil || len(kept) != 1 || filepath.Base(kept[0]) != "mintage.db.before-20231114T221320Z" {
		t.Fatalf("%v, %v", kept, err)
	}
	h.isNew()
	h.keptIsOld(kept)
	// A second restore at the same instant keeps the current store beside the first one.
	again, err := h.restore(always)
	if err != nil || len(again) != 1 || again[0] != kept[0]+"-2" {
		t.Fatalf("%v, %v", again, err)
	}
	h.isNew()
}

func TestABackupIsInstalledWhereThereIsNoStore(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(h.dir, sqlite.FileName+end)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	// A stale write-ahead log would be applied to the new store.
	gone := t.TempDir()
	put(t, create(t, gone), 20)
	log, err := os.ReadFile(filepath.Join(gone, sqlite.FileName+"-wal"))
	if err == nil {
		err = os.WriteFile(filepath.Join(h.dir, sqlite.FileName+"-wal"), log, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := h.restore(always)
	if err != nil || len(kept) != 1 || !strings.HasSuffix(kept[0], "Z-wal") {
		t.Fatalf("%v, %v", kept, err)
	}
	h.isNew()
}

// steps returns the names of all steps.
func (h fixture) steps(t *testing.T) (list []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(h.dir)); err != nil {
		t.Fatal(err)
	}
	h.dir = dir
	if _, err := h.restore(func(name string) error { list = append(list, name); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(list) < 6 {
		t.Fatalf("only the steps %q", list)
	}
	return list
}

func TestACrashAtAnyStepLeavesOneStoreWholeAndTheSameCommandEndsIt(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	model := newFixture(t)
	for _, stop := range model.steps(t) {
		t.Run(stop, func(t *testing.T) {
			h := model.copyOf(t)
			if _, err := h.restore(func(name string) error {
				if name == stop {
					return crash
				}
				return nil
			}); !errors.Is(err, crash) {
				t.Fatal(err)
			}
			if stop == "make the switch durable" {
				h.isNew()
			} else {
				h.isOld(h.dir)
			}
			kept, err := h.restore(always)
			if err != nil {
				t.Fatal(err)
			}
			h.isNew()
			if stop != "make the switch durable" {
				h.keptIsOld(kept)
			}
			names, err := filepath.Glob(filepath.Join(h.dir, "*restor*"))
			if err != nil || len(names) > 0 {
				t.Errorf("%v is left, %v", names, err)
			}
		})
	}
}

// damageStore damages a store so that SQLite cannot checkpoint its log.
func damageStore(h fixture) {
	h.t.Helper()
	path := filepath.Join(h.dir, sqlite.FileName)
	for name, text := range map[string]string{path: "no database at all", path + "-wal": "its log"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
}

func TestOfADamagedStoreNothingIsLostAndNobodyServesTheHalfOfIt(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	model := newFixture(t)
	damageStore(model)
	for _, stop := range append(model.steps(t), "none") {
		t.Run(stop, func(t *testing.T) {
			h := model.copyOf(t)
			seen := false
			_, err := h.restore(func(name string) error {
				if name == stop {
					seen = true
					return crash
				}
				return nil
			})
			if seen != errors.Is(err, crash) || !seen && err != nil {
				t.Fatal(err)
			}
			db, err := os.ReadFile(filepath.Join(h.dir, sqlite.FileName))
			if err != nil {
				t.Fatal(err)
			}
			_, noLog := os.Stat(filepath.Join(h.dir, sqlite.FileName+"-wal"))
			_, unfinished := os.Stat(filepath.Join(h.dir, sqlite.FileName+".restore-unfinished"))
			if string(db) == "no database at all" && noLog != nil && unfinished != nil {
				t.Error("the store has lost its log, and can still be opened")
			}
			if unfinished == nil {
				for name, try := range map[string]func() (*sqlite.Store, error){
					"server":  func() (*sqlite.Store, error) { return sqlite.Create(t.Context(), h.dir) },
					"command": func() (*sqlite.Store, error) { return sqlite.Open(t.Context(), h.dir) },
				} {
					if st, err := try(); err == nil || !strings.Contains(err.Error(), "a restore was interrupted: give the same mintage restore command again") {
						t.Errorf("%s: %v", name, err)
						st.Close()
					}
				}
			}
			if seen {
				if _, err := h.restore(always); err != nil {
					t.Fatal(err)
				}
			}
			h.isNew()
			found := map[string]bool{}
			names, err := filepath.Glob(filepath.Join(h.dir, "*.before-*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				found[string(text)] = true
			}
			if !found["no database at all"] || !found["its log"] {
				t.Errorf("kept is %v", names)
			}
		})
	}
}

func TestAStoreThatACommandHasOpenIsNotReplaced(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	st := create(t, h.dir)
	r := h.prepare()
	if err := r.Declare(t.Context(), asItIs, h.declared, restored); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Install(t.Context(), filepath.Join(h.dir, "aside"))
		done <- err
	}()
	// Install waits; until then the command writes to the old store.
	late := put(t, st, 1)[0]
	select {
	case err := <-done:
		t.Fatalf("Install did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.isNew()
	old := t.TempDir()
	if err := os.Link(filepath.Join(h.dir, "aside"), filepath.Join(old, sqlite.FileName)); err != nil {
		t.Fatal(err)
	}
	kept := create(t, old)
	holds(t, kept, late)
}

// A command that opens the store during the switch must not continue with the old file.
func TestACommandThatComesDuringTheSwitchDoesNotWriteToTheOldStore(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	opened := make(chan error, 1)
	_, err := h.restore(func(name string) error {
		if name == "switch" {
			begun := make(chan struct{})
			go func() {
				close(begun)
				st, err := sqlite.Open(t.Context(), h.dir)
				if err == nil {
					// Afterwards it reads the new one.
					if _, e := st.Grant(t.Context(), h.lost.ID); !errors.Is(e, store.ErrNotFound) {
						err = errors.New("it has the old store")
					}
					err = errors.Join(err, st.Close())
				}
				opened <- err
			}()
			<-begun
			time.Sleep(50 * time.Millisecond) // it now waits for the lock
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil && !strings.Contains(err.Error(), "the file was replaced while it was") {
		t.Error(err)
	}
	h.isNew()
}

func TestWhatABackupLacksIsTold(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "b")
	st := create(t, dir)
	list := put(t, st, 3)
	alice := store.Document{Kind: store.DocumentUser, Key: store.KeyOf(store.DocumentUser, "/api", "alice"), Version: 1, Body: []byte(`{"name":"then"}`)}
	old := store.Client{ID: "old", Realm: "/api", State: store.ClientEnabled, Version: 1, Secrets: []store.Secret{{ID: "s1"}}}
	gone := store.Document{Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, "/api", "gone"), Version: 1, ExpiresAt: base}
	err := errors.Join(st.Commit(t.Context(), store.Change{Documents: []store.Document{alice}}), st.Commit(t.Context(), store.Change{Documents: []store.Document{gone}}), st.Commit(t.Context(), store.Change{Entries: []store.Entry{old.Entry()}}))
	if err != nil {
		t.Fatal(err)
	}
	tokens := store.Document{Kind: store.DocumentAdminTokens, Key: store.KeyOf(store.DocumentAdminTokens, "", ""), Version: 1, Body: []byte(`[{"name":"alice"},{"name":"watch"}]`)}
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{tokens}}); err != nil {
		t.Fatal(err)
	}
	api := store.API{ID: "https://api.example/", Number: 1, Version: 1, Open: true}
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{api.Entry()}}); err != nil {
		t.Fatal(err)
	}
	kek := newKEK(t)
	key := addKey(t, st, kek)
	makeBackup(t, dir, file)

	update := func(g grant.Grant, decide store.Decide) {
		t.Helper()
		if err := st.UpdateGrant(t.Context(), g.ID, decide); err != nil {
			t.Fatal(err)
		}
	}
	update(list[0], func(g grant.Grant) (grant.Grant, []store.Event) { return rotated(g, 9), nil })
	update(list[1], func(g grant.Grant) (grant.Grant, []store.Event) { return g.Revoke(grant.ReasonOperator).Next, nil })
	update(list[2], func(g grant.Grant) (grant.Grant, []store.Event) {
		g.AccessFloor, g.Version = base+7, g.Version+1
		return g, nil
	})
	made := put(t, st, 2)
	alice.Version, alice.Body = 2, []byte(`{"name":"now"}`)
	old.Version, old.State = 2, store.ClientDisabled
	cut := store.Cutoff{Realm: "/api", Subject: "alice", At: base}
	session := store.Document{Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, "/api", "x"), Version: 1, ExpiresAt: base}
	err = errors.Join(st.Commit(t.Context(), store.Change{Documents: []store.Document{alice}}), st.Commit(t.Context(), store.Change{Documents: []store.Document{session}}), st.Commit(t.Context(), store.Change{Entries: []store.Entry{old.Entry()}}),
		st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: "young", Version: 1}.Entry()}}), st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{cut}}), st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{gone.Key}}))
	if err != nil {
		t.Fatal(err)
	}
	tokens.Version, tokens.Body = 2, []byte(`[{"name":"watch"}]`)
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{tokens}}); err != nil {
		t.Fatal(err)
	}
	api.Version, api.Deleted = 2, true
	young := store.API{ID: "https://young.example", Number: 2, Version: 1}
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{api.Entry(), young.Entry()}}); err != nil {
		t.Fatal(err)
	}
	addKey(t, st, kek)
	ch, err := st.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	withdrawn, err := kek.Withdraw(key, base)
	if err := errors.Join(err, st.Commit(t.Context(), store.Change{Expect: ch.Version, Keys: []keys.Stored{withdrawn}}), st.Close()); err != nil {
		t.Fatal(err)
	}
	b := openBackup(t, file)
	l, err := restore.CompareWith(t.Context(), b, dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.Refreshed != 1 || l.Made != int64(len(made)) || len(l.MadeBy) != 1 || l.MadeBy[0] != (restore.MadeBy{ClientID: made[0].ClientID, Grants: 2}) {
		t.Errorf("refreshed %d, made %d by %v", l.Refreshed, l.Made, l.MadeBy)
	}
	if l.Ended != 1 {
		t.Errorf("%d grants have ended", l.Ended)
	}
	var ended []grant.Grant
	err = restore.EachEnded(t.Context(), b, dir, func(g grant.Grant) error { ended = append(ended, g); return nil })
	want := []grant.Grant{
		{ID: list[1].ID, State: grant.Revoked, Reason: grant.ReasonOperator, AccessFloor: list[1].AccessFloor},
		{ID: list[2].ID, State: grant.Active, AccessFloor: base + 7},
	}
	slices.SortFunc(want, func(a, b grant.Grant) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	if err != nil || !slices.Equal(ended, want) {
		t.Errorf("ended: %v, %v; want %v", ended, err, want)
	}
	if !slices.Equal(l.Cutoffs, []store.Cutoff{cut}) || l.Keys != 1 || l.Sessions != 1 || !slices.Equal(l.SignedOut, []store.DocumentKey{gone.Key}) {
		t.Errorf("cutoffs %v, keys %d, sessions %d and %d", l.Cutoffs, l.Keys, l.Sessions, l.SignedOut)
	}
	if !slices.Equal(l.Withdrawn, []grant.KeyID{key.ID}) {
		t.Errorf("withdrawn keys %v, want %v", l.Withdrawn, key.ID)
	}
	if len(l.Clients) != 2 || l.Clients[0].Was.State != store.ClientEnabled || l.Clients[0].Is.State != store.ClientDisabled ||
		l.Clients[1].Was != nil || l.Clients[1].Is.ID != "young" {
		t.Errorf("clients %+v", l.Clients)
	}
	if len(l.APIs) != 2 || l.APIs[0].Was.Deleted || !l.APIs[0].Is.Deleted || l.APIs[1].Was != nil || l.APIs[1].Is.Number != 2 {
		t.Errorf("APIs %+v", l.APIs)
	}
	if len(l.Users) != 1 || l.Users[0].Was.Name != "then" || l.Users[0].Is.Name != "now" {
		t.Errorf("users %+v", l.Users)
	}
	if len(l.Tokens.Was) != 2 || len(l.Tokens.Is) != 1 || l.Tokens.Is[0].Name != "watch" {
		t.Errorf("admin tokens %+v", l.Tokens)
	}
	if want := newGrant(1).Issued().And(rotated(list[0], 9).Issued()); l.Issued != want {
		t.Errorf("issued %+v, want %+v", l.Issued, want)
	}
	for _, g := range list[:2] {
		if has, err := b.HasGrant(t.Context(), g.ID); err != nil || !has {
			t.Errorf("the backup's grant: %t, %v", has, err)
		}
	}
	if has, err := b.HasGrant(t.Context(), made[0].ID); err != nil || has {
		t.Errorf("a later grant: %t, %v", has, err)
	}
	onlyFiles(t, filepath.Dir(file), "b")
}
