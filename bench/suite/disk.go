package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the driver named "sqlite"

	"github.com/mintage/mintage/internal/store/sqlite"
)

// sizes are the bytes that a store's grants occupy on disk.
type sizes struct {
	grants       int64
	table, index int64 // pages of the table and of its indexes
	payload      int64 // the content of the table's pages, without free space
	file         int64
}

// readSizes reads the sizes from a store that no server uses, so that the log is
// checkpointed into the file (https://www.sqlite.org/dbstat.html).
func readSizes(ctx context.Context, dir string) (s sizes, err error) {
	path := filepath.Join(dir, sqlite.FileName)
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	s.file = info.Size()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return s, err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM grants`).Scan(&s.grants); err != nil {
		return s, err
	}
	for _, q := range []struct {
		to     []any
		object string
	}{
		{[]any{&s.table, &s.payload}, "grants"},
		{[]any{&s.index, new(int64)}, "grants_by_%"},
	} {
		// One row for the whole object, aggregated by SQLite.
		row := db.QueryRowContext(ctx, `SELECT sum(pgsize), sum(payload) FROM dbstat WHERE name LIKE ? AND aggregate = TRUE`, q.object)
		if err := row.Scan(q.to...); err != nil {
			return s, fmt.Errorf("size of %s: %w", q.object, err)
		}
	}
	return s, nil
}

// probeDisk returns the median time of a small synchronous write.
func probeDisk(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var times []time.Duration
	page := make([]byte, 4096)
	for range 101 {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
