package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

var create, raw = testkit.Create, testkit.Raw

func run(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

const base grant.Instant = 1_700_000_000_000

var newGrant, rotated = storetest.Everyday, storetest.Refreshed

func holds(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if got, err := st.Grant(t.Context(), g.ID); err != nil || got != g {
		t.Errorf("Grant = %+v, %v; want %+v", got, err, g)
	}
}

func absent(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Grant: %v, want ErrNotFound", err)
	}
}

func TestEveryConnectionHasTheSettingsThatDurabilityNeeds(t *testing.T) {
	st := create(t, t.TempDir())
	seen := map[string]int{}
	err := st.EachConnection(t.Context(), func(kind string, query func(string) string) {
		seen[kind]++
		want := map[string]string{
			"journal_mode": "wal", "synchronous": "2" /* FULL */, "busy_timeout": "2000", "wal_autocheckpoint": "0", "page_size": "1024",
			"cache_size": "-2000", "temp_store": "2" /* MEMORY */, "trusted_schema": "0", "query_only": "0", "locking_mode": "normal",
		}
		switch kind {
		case "writer":
			want["cache_size"] = "-6000"
			want["busy_timeout"] = "0" // the store has its own waiting loop
		case "administrator's writer":
			want["busy_timeout"] = "0"
		case "reader":
			want["query_only"] = "1"
		}
		for name, value := range want {
			if got := query("PRAGMA " + name); got != value {
				t.Errorf("%s: PRAGMA %s is %s, want %s", kind, name, got, value)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen["writer"] != 1 || seen["reader"] != 1 || seen["administration"] == 0 {
		t.Errorf("connections seen: %v", seen)
	}
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	release, err := sqlite.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	st := create(t, dir)
	if err := st.CreateGrant(t.Context(), newGrant(1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mintage.db", "mintage.db-wal", "mintage.db-shm", "serve.lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if mode := info.Mode(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, mode)
		}
	}
}

func TestAnyDirectoryNameWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c=d#e%41&f;g+h'i\"j")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	st := create(t, dir)
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, sqlite.FileName))
	if err != nil || info.Size() == 0 {
		t.Fatalf("the file is not in the directory that was named: %v", err)
	}
	again, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	holds(t, again, g)
}

// The error tells another user to run the command as the server's user, and not to open
// the directory to more users.
func TestADirectoryOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	err := testkit.AsNobody(func() error {
		_, err := sqlite.Open(t.Context(), dir)
		return err
	})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "permission denied: run this as the server's user") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// SQLite only reports that it cannot open a file. A missing permission must not be
// reported as a fault of the store.
func TestAFileOfAnotherUserInADirectoryThatShowsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	explained := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() == 0 {
			syscall.RawSyscall(syscall.SYS_SETRESUID, 1, 1, 1) // of this thread alone
		}
		explained <- sqlite.Explain(path, cannotOpen{})
	}()
	if err := <-explained; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "permission denied: run this as the server's user") {
		t.Error(err)
	}
}

// SQLite opens a file that it may only read, and fails at the first write: the file of a
// copy that root has put in place.
func TestAFileThatMayOnlyBeReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, sqlite.FileName)
	if err := errors.Join(create(t, dir).Close(), os.Chmod(path, 0o444)); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() == 0 {
			syscall.RawSyscall(syscall.SYS_SETRESUID, 1, 1, 1) // of this thread alone
		}
		st, err := sqlite.OpenFile(context.Background(), path)
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()
	if err := <-opened; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "permission denied: run this as the server's user") {
		t.Error(err)
	}
}

// cannotOpen is SQLITE_CANTOPEN.
type cannotOpen struct{}

func (cannotOpen) Error() string { return "unable to open database file (14)" }
func (cannotOpen) Code() int     { return 14 }

func TestOpenCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := sqlite.Open(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "no store at") || !strings.Contains(err.Error(), "--data") {
		t.Errorf("Open of an empty directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, sqlite.FileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open left a file: %v", err)
	}
	_, err = sqlite.Create(t.Context(), filepath.Join(dir, "absent"))
	if err == nil || !strings.Contains(err.Error(), "the data directory does not exist") {
		t.Errorf("Create in no directory: %v", err)
	}
	// An empty file may be the remains of a lost store.
	empty := filepath.Join(t.TempDir(), sqlite.FileName)
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), filepath.Dir(empty)); err == nil || !strings.Contains(err.Error(), "no store at") {
		t.Errorf("an empty file: %v", err)
	}
	if err := sqlite.Exists(filepath.Dir(empty)); err == nil || !strings.Contains(err.Error(), "no store at") {
		t.Errorf("an empty file that is to be moved: %v", err)
	}
	if info, err := os.Stat(empty); err != nil || info.Size() != 0 {
		t.Errorf("the empty file is now %v, %v", info, err)
	}
}

func TestAReadEndsWithItsContextAndIsRefusedWhenTooManyWait(t *testing.T) {
	st := sqlite.WithoutReaders()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Grant(ctx, grant.ID{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Grant: %v, want context.Canceled", err)
	}
	if _, err := st.Grant(t.Context(), grant.ID{}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Grant: %v, want ErrBusy", err)
	}
}

func TestReadsThatWaitTogetherAreOneTransaction(t *testing.T) {
	st := create(t, t.TempDir())
	grants := []grant.Grant{newGrant(1), newGrant(2), newGrant(3)}
	var ids []grant.ID
	for _, g := range grants {
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
	}
	statements, list, err := st.ReadTogether(ids...)
	if want := map[string]int{"begin": 1, "select grant": 3, "commit": 1}; err != nil || !maps.Equal(statements, want) || !slices.Equal(list, grants) {
		t.Errorf("three at once: %v, %d grants, %v; want %v", statements, len(list), err, want)
	}
	statements, list, err = st.ReadTogether(ids[0])
	if want := map[string]int{"select grant": 1}; err != nil || !maps.Equal(statements, want) || !slices.Equal(list, grants[:1]) {
		t.Errorf("one alone: %v, %d grants, %v; want %v", statements, len(list), err, want)
	}
	// An absent row does not affect the others.
	_, list, err = st.ReadTogether(ids[0], grant.ID{1}, ids[2])
	if !errors.Is(err, store.ErrNotFound) || !slices.Equal(list, []grant.Grant{grants[0], {}, grants[2]}) {
		t.Errorf("beside one that is absent: %v", err)
	}
}

func TestAnotherProcessHoldsTheWriteLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := create(t, dir)
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	other := raw(t, dir)
	run(t, other, "BEGIN IMMEDIATE")

	// Reads still work. A write waits for the lock. Its failure is not a conflict, because
	// a conflict would count as a replay.
	result := make(chan error, 1)
	go func() { result <- storetest.Replace(t.Context(), st, rotated(g, 2)) }()
	holds(t, st, g)
	if err := <-result; err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("UpdateGrant under another's lock: %v", err)
	}
	run(t, other, "ROLLBACK")
	holds(t, st, g)
	if err := storetest.Replace(t.Context(), st, rotated(g, 3)); err != nil {
		t.Errorf("UpdateGrant after the lock: %v", err)
	}
}

func TestAStoreWithAnExclusiveLockIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	other := raw(t, dir)
	run(t, other, "PRAGMA locking_mode = EXCLUSIVE")
	run(t, other, "BEGIN IMMEDIATE")
	_, err = sqlite.Open(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "another process holds its lock") {
		t.Errorf("Open of a locked file: %v", err)
	}
}

func TestIDsWithACommonPrefixAreNotConfused(t *testing.T) {
	st := create(t, t.TempDir())
	g, twin := newGrant(1), newGrant(2)
	copy(twin.ID[:8], g.ID[:8])
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	// The second grant cannot be stored. It is never confused with the first: the failure
	// is not a conflict, which would count as a replay, and no method finds the first
	// grant by the id of the second.
	if err := st.CreateGrant(t.Context(), twin); err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBusy) {
		t.Errorf("CreateGrant: %v", err)
	}
	absent(t, st, twin)
	err := st.UpdateGrant(t.Context(), twin.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
		t.Error("the decision was called for the other grant")
		return g, nil
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("UpdateGrant: %v, want ErrNotFound", err)
	}
	holds(t, st, g)
}
