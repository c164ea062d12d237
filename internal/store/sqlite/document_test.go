package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// newDocument returns a session document of typical size.
func newDocument(n int) store.Document {
	d := store.Document{Kind: store.DocumentSession, Version: 1, ExpiresAt: base + 1000, Body: bytes.Repeat([]byte{byte(n)}, 200)}
	rand.Read(d.Key[:])
	return d
}

func successor(d store.Document, n int) store.Document {
	d.Version++
	d.Body = bytes.Repeat([]byte{byte(n)}, 300)
	return d
}

func holdsDocument(t testing.TB, st *sqlite.Store, want store.Document) {
	t.Helper()
	got, err := st.Document(t.Context(), want.Key)
	if err != nil || got.Kind != want.Kind || got.Version != want.Version || got.ExpiresAt != want.ExpiresAt || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("Document = version %d, %d bytes, %v; want version %d, %d bytes", got.Version, len(got.Body), err, want.Version, len(want.Body))
	}
}

func documentAbsent(t testing.TB, st *sqlite.Store, d store.Document) {
	t.Helper()
	if _, err := st.Document(t.Context(), d.Key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Document: %v, want ErrNotFound", err)
	}
}

func TestTheBudgetOfADocument(t *testing.T) {
	st := create(t, t.TempDir())
	take := st.Watch(t)
	d := newDocument(1)
	large := successor(d, 2)
	large.Body = make([]byte, store.MaxDocument)
	other := d
	other.Body = nil
	for _, c := range []struct {
		what       string
		do         func() error
		want       error
		statements map[string]int
		rows       int
	}{
		{"a new one", func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}) }, nil,
			map[string]int{"begin": 1, "insert document": 1, "commit": 1}, 1},
		{"the same again", func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}) }, nil,
			map[string]int{"begin": 1, "insert document": 1, "commit": 1}, 0},
		{"another in its place", func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{other}}) }, store.ErrConflict,
			map[string]int{"begin": 1, "insert document": 1, "commit": 1}, 0},
		{"the next version, as large as can be", func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{large}}) }, nil,
			map[string]int{"begin": 1, "update document": 1, "commit": 1}, 1},
		{"a version too late", func() error {
			return st.Commit(t.Context(), store.Change{Documents: []store.Document{successor(d, 3)}})
		}, store.ErrConflict,
			map[string]int{"begin": 1, "update document": 1, "commit": 1}, 0},
		{"a read", func() error { _, err := st.Document(t.Context(), d.Key); return err }, nil, nil, 0},
		{"a deletion", func() error { return st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{d.Key}}) }, nil,
			map[string]int{"begin": 1, "delete document": 1, "commit": 1}, 1},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Fatalf("%s: %v, want %v", c.what, err, c.want)
		}
		if tally := take(); !maps.Equal(tally.Statements, c.statements) || tally.Rows != c.rows {
			t.Errorf("%s: statements %v, %d rows; want %v, %d", c.what, tally.Statements, tally.Rows, c.statements, c.rows)
		}
	}
}

func TestOperationsOnOneDocumentInOneBatchSeeEachOther(t *testing.T) {
	st := create(t, t.TempDir())
	take := st.Watch(t)
	d := newDocument(1)
	second := successor(d, 2)
	third, other := successor(second, 3), second
	other.Body = nil
	again := d
	again.Body = []byte("again")
	g := newGrant(1)
	put := func(d store.Document) func() error {
		return func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}) }
	}
	remove := func() error { return st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{d.Key}}) }
	steps := []struct {
		do   func() error
		want error
	}{
		{put(second), store.ErrConflict}, // the document does not exist yet
		{remove, nil},
		{put(d), nil},
		{put(d), nil}, // an equal creation succeeds again
		{put(again), store.ErrConflict},
		{put(third), store.ErrConflict},
		{put(second), nil},
		{put(other), store.ErrConflict},
		{put(second), nil},
		{put(d), store.ErrConflict},
		{func() error { return st.CreateGrant(t.Context(), g) }, nil}, // an operation on a grant between those on documents
		{put(third), nil},
		{remove, nil},
		{put(third), store.ErrConflict},
		{put(again), nil},
	}
	take()
	for n, err := range together(t, st, len(steps), func(n int) error { return steps[n].do() }) {
		if !errors.Is(err, steps[n].want) {
			t.Errorf("operation %d: %v, want %v", n, err, steps[n].want)
		}
	}
	if tally := take(); tally.Statements["commit"] != 1 {
		t.Errorf("%d transactions, want 1", tally.Statements["commit"])
	}
	holdsDocument(t, st, again)
	holds(t, st, g)
}

func TestADocumentThatFailsDoesNotUndoItsNeighbours(t *testing.T) {
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			st := create(t, dir)
			db := raw(t, dir)
			run(t, db, fmt.Sprintf(`CREATE TRIGGER bad_put BEFORE UPDATE ON documents WHEN NEW.expires_at = 666 BEGIN SELECT RAISE(%s, 'bad put'); END`, how))
			run(t, db, fmt.Sprintf(`CREATE TRIGGER bad_insert AFTER INSERT ON documents WHEN NEW.expires_at = 666 BEGIN SELECT RAISE(%s, 'bad put'); END`, how))
			run(t, db, fmt.Sprintf(`CREATE TRIGGER bad_delete BEFORE DELETE ON documents WHEN OLD.expires_at = 667 BEGIN SELECT RAISE(%s, 'bad delete'); END`, how))
			list := make([]store.Document, 12)
			for i := range list {
				list[i] = newDocument(i)
				if i == 7 {
					list[i].ExpiresAt = 667
				}
				if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{list[i]}}); err != nil {
					t.Fatal(err)
				}
			}
			next := make([]store.Document, len(list))
			fresh, g := newDocument(99), newGrant(1)
			errs := together(t, st, len(list), func(n int) error {
				next[n] = successor(list[n], 100+n)
				switch n {
				case 3:
					return st.CreateGrant(t.Context(), g)
				case 5:
					next[n].ExpiresAt = 666
				case 7:
					return st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{list[n].Key}})
				case 8:
					return st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{list[n].Key}})
				case 9:
					fresh.ExpiresAt = 666
					return st.Commit(t.Context(), store.Change{Documents: []store.Document{fresh}})
				}
				return st.Commit(t.Context(), store.Change{Documents: []store.Document{next[n]}})
			})
			for n, err := range errs {
				switch n {
				case 5, 7, 9:
					if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
						t.Errorf("operation %d, which fails: %v", n, err)
					}
					holdsDocument(t, st, list[n])
				case 3:
					if err != nil {
						t.Errorf("a grant among them: %v", err)
					}
				case 8:
					if err != nil {
						t.Errorf("a deletion: %v", err)
					}
					documentAbsent(t, st, list[n])
				default:
					if err != nil {
						t.Errorf("neighbour %d: %v", n, err)
					}
					holdsDocument(t, st, next[n])
				}
			}
			documentAbsent(t, st, fresh)
			holds(t, st, g)
		})
	}
}

func TestTheErrorOfATooLargeDocumentStatesItsSize(t *testing.T) {
	st := create(t, t.TempDir())
	d := newDocument(1)
	d.Body = make([]byte, store.MaxDocument+1)
	err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}})
	if err == nil || !strings.Contains(err.Error(), "session") || !strings.Contains(err.Error(), "16385") || !strings.Contains(err.Error(), "16384") {
		t.Errorf("%v, want the kind and both sizes", err)
	}
	// A kind that is too large for a row fails alone, like a subject that is too large.
	d = newDocument(2)
	d.Kind = store.DocumentKind(strings.Repeat("k", 20_000))
	for range 50 {
		if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err == nil || errors.Is(err, store.ErrConflict) {
			t.Fatalf("a kind of 20,000 bytes: %v", err)
		}
	}
	d = newDocument(3)
	d.Body = make([]byte, store.MaxDocument)
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Errorf("after those that failed: %v", err)
	}
	holdsDocument(t, st, d)
}

func TestAGrantAndADocumentAreReadInOneTransaction(t *testing.T) {
	st := create(t, t.TempDir())
	g, d := newGrant(1), newDocument(1)
	if err := errors.Join(st.CreateGrant(t.Context(), g), st.Commit(t.Context(), store.Change{Documents: []store.Document{d}})); err != nil {
		t.Fatal(err)
	}
	statements, gotGrant, gotDocument, err := st.ReadBoth(g.ID, d.Key)
	if want := map[string]int{"begin": 1, "select grant": 1, "select document": 1, "commit": 1}; err != nil || !maps.Equal(statements, want) {
		t.Errorf("%v, %v; want %v", statements, err, want)
	}
	if gotGrant != g || gotDocument.Key != d.Key || !bytes.Equal(gotDocument.Body, d.Body) {
		t.Error("not what was written")
	}
	// An absent row does not affect the other one.
	if _, gotGrant, _, err := st.ReadBoth(g.ID, store.DocumentKey{}); !errors.Is(err, store.ErrNotFound) || gotGrant != g {
		t.Errorf("beside a document that is absent: %v", err)
	}
	if _, _, gotDocument, err := st.ReadBoth(grant.ID{}, d.Key); !errors.Is(err, store.ErrNotFound) || gotDocument.Version != 1 {
		t.Errorf("beside a grant that is absent: %v", err)
	}
}

func TestAReadOfADocumentEndsWithItsContextAndIsRefusedWhenTooManyWait(t *testing.T) {
	st := sqlite.WithoutReaders()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Document(ctx, store.DocumentKey{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Document: %v, want context.Canceled", err)
	}
	if _, err := st.Document(t.Context(), store.DocumentKey{}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Document: %v, want ErrBusy", err)
	}
}

func TestADocumentThatChangesBetweenTheSweepsWalkAndItsDeletionSurvives(t *testing.T) {
	st := create(t, t.TempDir())
	rescued, reborn, dead := newDocument(1), newDocument(2), newDocument(3)
	for _, d := range []store.Document{rescued, reborn, dead} {
		if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
			t.Fatal(err)
		}
	}
	now := dead.ExpiresAt + 1
	// rescued gets a new version. reborn is deleted and created again with the same
	// version, but a later expiry.
	next := successor(rescued, 4)
	again := reborn
	again.ExpiresAt = now
	steps := []func() error{
		func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{next}}) },
		func() error { return st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{reborn.Key}}) },
		func() error { return st.Commit(t.Context(), store.Change{Documents: []store.Document{again}}) },
	}
	deleted := 0
	errs := together(t, st, 4, func(n int) (err error) {
		if n < len(steps) {
			return steps[n]()
		}
		_, deleted, err = st.Sweep(t.Context(), store.SweptDocuments, "", now, 10)
		return err
	})
	if err := errors.Join(errs...); err != nil || deleted != 1 {
		t.Errorf("the sweep deleted %d, %v; want 1", deleted, err)
	}
	holdsDocument(t, st, next)
	holdsDocument(t, st, again)
	documentAbsent(t, st, dead)
}
