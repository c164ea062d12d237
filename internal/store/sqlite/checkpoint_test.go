package sqlite_test

import (
	"database/sql"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// many creates n grants.
func many(t *testing.T, st *sqlite.Store, n int) []grant.Grant {
	t.Helper()
	grants := make([]grant.Grant, n)
	for i := range grants {
		grants[i] = newGrant(rand.Uint64())
	}
	eachAtOnce(t, grants, func(g *grant.Grant) error { return st.CreateGrant(t.Context(), *g) })
	return grants
}

// rotateEach rotates each grant n times.
func rotateEach(t *testing.T, st *sqlite.Store, grants []grant.Grant, n int) {
	t.Helper()
	eachAtOnce(t, grants, func(g *grant.Grant) error {
		for range n {
			*g = rotated(*g, rand.Uint64())
			if err := storetest.Replace(t.Context(), st, *g); err != nil {
				return err
			}
		}
		return nil
	})
}

func logSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, sqlite.FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestANewStoreHasPagesOf1024Bytes(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	db := raw(t, dir)
	if size := number(t, db, "PRAGMA page_size"); size != 1024 {
		t.Errorf("the page size is %d, want 1024 (decision 5)", size)
	}
}

func TestACheckpointIsDueAtHalfOfTheMainFile(t *testing.T) {
	const least = 200
	dir := t.TempDir()
	st := create(t, dir)
	db := raw(t, dir)
	if err := st.LimitLog(t.Context(), least); err != nil {
		t.Fatal(err)
	}
	grants := many(t, st, 3000)
	rotateEach(t, st, grants, 5)
	limit, err := st.LogLimit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := number(t, db, "PRAGMA page_count")
	if limit < pages/2-least || limit > pages/2 || limit <= least {
		t.Errorf("the limit of the log is %d pages for a main file of %d", limit, pages)
	}
	if size, most := logSize(t, dir), int64(2*limit+2*sqlite.BatchLength)*sqlite.FrameSize; size > most {
		t.Errorf("the log has %d bytes, more than %d", size, most)
	}
}

func TestALogThatGrewDuringALongReadIsTruncated(t *testing.T) {
	const least = 200
	dir := t.TempDir()
	st := create(t, dir)
	grants := many(t, st, 300)
	if err := st.LimitLog(t.Context(), least); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	read, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Rollback()
	var n int
	if err := read.QueryRow("SELECT count(*) FROM grants").Scan(&n); err != nil {
		t.Fatal(err)
	}
	rotateEach(t, st, grants, 20)
	most := int64(2*least+2*sqlite.BatchLength) * sqlite.FrameSize
	if size := logSize(t, dir); size <= most {
		t.Fatalf("beside a long read, the log has %d bytes: the test needs more than %d", size, most)
	}
	if err := read.Rollback(); err != nil {
		t.Fatal(err)
	}
	rotateEach(t, st, grants, 20)
	if size := logSize(t, dir); size > most {
		t.Errorf("after the read, the log has %d bytes, more than %d", size, most)
	}
}

func TestTheWriterWaitsForASlowCheckpoint(t *testing.T) {
	st := create(t, t.TempDir())
	many(t, st, 300)
	pages, err := st.LogPages(t.Context())
	if err != nil || pages < 10 {
		t.Fatalf("the log has %d pages, %v", pages, err)
	}
	due, committed := st.Moves(t)
	synctest.Test(t, func(t *testing.T) {
		committed(pages + 1)
		if len(due) != 0 {
			t.Fatal("a checkpoint is due before the log has reached its limit")
		}
		committed(pages)
		ended := <-due
		committed(pages) // does not wait for the checkpoint
		went := make(chan struct{})
		go func() {
			committed(pages / 2)
			close(went)
		}()
		synctest.Wait()
		select {
		case <-went:
			t.Fatal("the writer did not wait with a log of twice its limit")
		default:
		}
		close(ended)
		<-went
	})
	many(t, st, 1)
	committed(pages)
	if len(due) != 0 {
		t.Error("another checkpoint is due although the log starts over")
	}
}
