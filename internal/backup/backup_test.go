package backup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/testkit"
)

func TestABackupIsOneFileThatSaysWhatItIs(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	st := create(t, dir)
	kek := newKEK(t)
	key := addKey(t, st, kek)
	put(t, st, 3)
	file := filepath.Join(out, "a.backup")
	before := grant.At(time.Now())
	m := makeBackup(t, dir, file)
	put(t, st, 1)

	onlyFiles(t, out, "a.backup")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	b := openBackup(t, file)
	if err := b.Check(t.Context(), ignore); err != nil {
		t.Error(err)
	}
	if b.Manifest.At < before || b.Manifest.At > grant.At(time.Now()) || b.Manifest.At != m.At {
		t.Errorf("its instant is %d", b.Manifest.At)
	}
	if b.Manifest.Version != "v1" || b.Manifest.Issuer != "https://a.example" || b.Manifest.KEK != kek.Fingerprint() ||
		len(b.Manifest.Keys) != 1 || b.Manifest.Keys[0] != key.ID.String() || b.Manifest.Rows["grants"] != 3 {
		t.Errorf("%+v", b.Manifest)
	}
	if list, err := b.KeyRecords(t.Context()); err != nil || len(list) != 1 || list[0].ID != key.ID || list[0].WrappedBy() != kek.Fingerprint() {
		t.Errorf("keys %v, %v", list, err)
	}
	if i, err := b.Issued(t.Context()); err != nil || i != newGrant(1).Issued() {
		t.Errorf("issued %+v, %v", i, err)
	}
}

func TestABackupBesideAWriterIsOfOneMomentAndHoldsAllThatWasAnsweredBefore(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	st := create(t, dir)
	list := put(t, st, 4)
	var generation atomic.Uint32
	generation.Store(1)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	writing.Go(func() {
		for ctx.Err() == nil {
			// The writer rotates all grants by one generation in turn: at each moment,
			// their generations differ by at most one.
			for i, g := range list {
				err := st.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) { return rotated(g, uint64(i)), nil })
				if err != nil {
					return
				}
			}
			generation.Add(1)
		}
	})
	for n := range 5 {
		answered := generation.Load()
		file := filepath.Join(out, string(rune('a'+n)))
		makeBackup(t, dir, file)
		// Open the backup as a store, in a directory of its own.
		copied := t.TempDir()
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, sqlite.FileName), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		old := create(t, copied)
		low, high := uint32(1<<31), uint32(0)
		for _, g := range list {
			have, err := old.Grant(t.Context(), g.ID)
			if err != nil {
				t.Fatal(err)
			}
			low, high = min(low, have.Generation), max(high, have.Generation)
		}
		if low < answered {
			t.Errorf("generation %d in the backup; %d was answered before", low, answered)
		}
		if high > low+1 {
			t.Errorf("generations from %d to %d: that is no one moment", low, high)
		}
	}
	if generation.Load() < 3 {
		t.Errorf("the writer was at generation %d: the backups stopped it", generation.Load())
	}
}

func TestNoBackupIsOverwrittenAndAFailedOneLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	st := create(t, dir)
	put(t, st, 50)
	taken := filepath.Join(out, "taken")
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := backup.Job{Dir: dir, File: taken, Now: time.Now, Report: ignore}
	if _, err := b.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "exists already, and no backup is overwritten") {
		t.Errorf("over another file: %v", err)
	}
	// Another process creates the file meanwhile.
	b.File = filepath.Join(out, "late")
	b.Report = func(backup.CopyProgress) { os.WriteFile(b.File, []byte("precious"), 0o600) }
	if _, err := b.Make(t.Context()); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file that came late: %v", err)
	}
	for _, name := range []string{"taken", "late"} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != "precious" {
			t.Errorf("%s holds %.20q, %v", name, text, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	b.File, b.Report = filepath.Join(out, "stopped"), func(backup.CopyProgress) { stop() }
	if _, err := b.Make(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	b.File = filepath.Join(out, "missing", "file")
	if _, err := b.Make(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	b.Dir = out
	b.File = filepath.Join(out, "none")
	if _, err := b.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "no store at "+out) {
		t.Errorf("without a store: %v", err)
	}
	b.Dir = t.TempDir() // SQLite would turn the empty file into a database
	empty := filepath.Join(b.Dir, sqlite.FileName)
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.Make(t.Context())
	if info, e := os.Stat(empty); err == nil || !strings.Contains(err.Error(), "no store at "+empty) || e != nil || info.Size() > 0 {
		t.Errorf("of an empty file: %v; it is now %v, %v", err, info, e)
	}
	onlyFiles(t, out, "late", "taken")
}

// Every byte is covered, including those that SQLite does not check.
func TestADamagedBackupIsFound(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	st := create(t, dir)
	put(t, st, 200)
	file := filepath.Join(out, "a")
	makeBackup(t, dir, file)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) error {
		name := filepath.Join(out, "changed")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := backup.Open(t.Context(), name)
		if err != nil {
			return err
		}
		defer b.Close()
		return b.Check(t.Context(), ignore)
	}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	for at := 3; at < len(good); at += 2039 {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x10
		if check(bad) == nil {
			t.Errorf("a change of byte %d of %d is not found", at, len(good))
		}
	}
	for _, text := range [][]byte{{}, []byte("no database"), good[:len(good)-1024], good[:100], append(append([]byte(nil), good...), good[len(good)-1024:]...)} {
		if check(text) == nil {
			t.Errorf("a file of %d bytes is no good backup", len(text))
		}
	}
}

func TestOnlyStoresOfThisAndEarlierVersionsAreBackups(t *testing.T) {
	dir := t.TempDir()
	create(t, dir).Close()
	path := filepath.Join(dir, sqlite.FileName)
	for text, want := range map[string]string{
		"PRAGMA user_version = 99":   "its schema has version 99",
		"PRAGMA application_id = 99": "some other program's",
	} {
		other := filepath.Join(t.TempDir(), sqlite.FileName)
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(other, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		db := raw(t, filepath.Dir(other))
		run(t, db, "PRAGMA journal_mode = DELETE")
		run(t, db, text)
		db.Close()
		if _, err := backup.Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// The main file of a store that is in use, or whose server was killed, lacks the rows
	// in its write-ahead log.
	st := create(t, dir)
	put(t, st, 1)
	if _, err := backup.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "holds changes that it lacks") {
		t.Errorf("a store in use: %v", err)
	}
}

func TestABackupRemovesWhatOnesThatWereKilledHaveLeft(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	put(t, create(t, dir), 1)
	left := []string{".mintage-backup.123.partial", ".mintage-backup.123.partial-journal", ".mintage-backup.4.partial"}
	others := []string{".b.123.partial", "mintage-backup.1.partial", ".mintage-backup.x"}
	for _, name := range append(left, others...) {
		if err := os.WriteFile(filepath.Join(out, name), []byte("half of a store"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Another backup runs meanwhile, to another file of the directory.
	more := func(backup.CopyProgress) {}
	b := backup.Job{Dir: dir, File: filepath.Join(out, "a"), Version: "v1", Now: base.Time, Report: func(p backup.CopyProgress) { more(p) }}
	more = func(backup.CopyProgress) {
		more = ignore
		makeBackup(t, dir, filepath.Join(out, "b"))
	}
	if _, err := b.Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, out, ".b.123.partial", ".mintage-backup.x", "a", "b", "mintage-backup.1.partial")
	for _, name := range []string{"a", "b"} {
		if err := openBackup(t, filepath.Join(out, name)).Check(t.Context(), ignore); err != nil {
			t.Error(err)
		}
	}
}

// A backup that the user may not read is named, with the reason.
func TestABackupThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	if err := errors.Join(os.WriteFile(path, []byte("x"), 0), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)); err != nil {
		t.Fatal(err)
	}
	err := testkit.AsNobody(func() error {
		_, err := backup.Open(t.Context(), path)
		return err
	})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path+": permission denied") {
		t.Error(err)
	}
}
