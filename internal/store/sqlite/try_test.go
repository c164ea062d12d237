package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// TestReadyWritesToTheLog checks that Ready writes to the log: a
// write that changes no value would reach no file, and succeed on a full disk.
func TestReadyWritesToTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	log := func() int64 {
		info, err := os.Stat(filepath.Join(dir, sqlite.FileName+"-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := log()
	if err := st.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := log()
	if ready <= before {
		t.Error("Ready has written nothing")
	}
	if err := st.TryWrite(t.Context()); err != nil {
		t.Fatal(err)
	}
	if room := log() - ready; room < 16*store.MaxDocument {
		t.Errorf("TryWrite has found room for %d bytes alone", room)
	}
	if list, err := st.Documents(t.Context(), store.DocumentFilter{Kind: "try", Limit: 1}); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestReadyWritesOnceASecond checks that frequent calls of Ready do not load the disk.
func TestReadyWritesOnceASecond(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const asked = 20
	began := time.Now()
	for range asked {
		if err := st.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, most := st.Load().Batches.Count, 1+uint64(time.Since(began)/time.Second); n > most {
		t.Errorf("%d writes for %d calls of Ready within %s, want at most %d", n, asked, time.Since(began), most)
	}
}

// TestAWriteToAFullDiskMaySucceedLater checks each kind of write, alone and in a batch,
// and that the error states the cause.
func TestAWriteToAFullDiskMaySucceedLater(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("x"), store.MaxDocument/2)
	for what, err := range map[string]error{
		"an entry":   st.Commit(t.Context(), store.Change{Entries: []store.Entry{{Kind: store.EntryClient, ID: "a", Version: 1, Body: big}}}),
		"a document": st.Commit(t.Context(), store.Change{Documents: []store.Document{{Kind: "d", Version: 1, Body: big}}}),
	} {
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "full") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
