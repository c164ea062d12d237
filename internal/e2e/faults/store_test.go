//go:build e2e

package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const pageSize = 1024

func storeFile(dir string) string { return filepath.Join(dir, "mintage.db") }

// openStore opens the server's database file from outside.
func openStore(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+storeFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestOP02_LockedStoreIs503 holds the store's write lock from another process for longer
// than the server's busy timeout.
func TestOP02_LockedStoreIs503(t *testing.T) {
	c := start(t, t.TempDir())
	token, code, other := c.session(), c.code(), c.session()
	db := openStore(t, c.Dir)
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	for _, form := range []map[string][]string{c.RefreshForm(token), c.ExchangeForm(code)} {
		began := time.Now()
		resp, err := c.http.PostForm(c.TokenEndpoint, form)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != unavailable {
			t.Errorf("status %d, want 503", resp.StatusCode)
		}
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
			t.Errorf("Retry-After: %q", resp.Header.Get("Retry-After"))
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the answer took %s", took)
		}
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	c.must(c.refresh(token), http.StatusOK)
	c.must(c.redeem(code), http.StatusOK)

	// If the lock is released in time, the request only waits.
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(500*time.Millisecond, func() { lock.ExecContext(context.Background(), "ROLLBACK") })
	c.must(c.refresh(other), http.StatusOK)
}

// TestOP02_LockedStoreAtStartIs503 starts the server while another process holds the
// lock. A start writes nothing, so it succeeds; /readyz fails once a write has failed.
func TestOP02_LockedStoreAtStartIs503(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	c.stop()
	db := openStore(t, c.Dir)
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	c.again()
	c.must(c.refresh(token), unavailable)
	ready := func() int {
		resp, err := http.Get(c.Management + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := ready(); status != unavailable {
		t.Errorf("/readyz answers %d while no token can be issued", status)
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if status := ready(); status != http.StatusOK {
		t.Errorf("/readyz answers %d after the lock has gone", status)
	}
	c.must(c.refresh(token), http.StatusOK)
}

// TestOP02_DamagedHeaderIsRefused starts on files that are no stores of Mintage: the
// server refuses them and leaves them unchanged.
func TestOP02_DamagedHeaderIsRefused(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	c.stop()
	good, err := os.ReadFile(storeFile(c.Dir))
	if err != nil {
		t.Fatal(err)
	}
	garbage := make([]byte, len(good))
	rand.Read(garbage)
	foreign := filepath.Join(t.TempDir(), "foreign")
	db, err := sql.Open("sqlite", "file:"+foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	other, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, says string
		content    []byte
	}{
		{"all garbage", "the file is damaged or is not a Mintage store; put it aside and restore a backup", garbage},
		{"first page overwritten", "the file is damaged or is not a Mintage store", append(garbage[:pageSize:pageSize], good[pageSize:]...)},
		{"cut short", "the file is damaged or is not a Mintage store", good[:len(good)/2]},
		{"another program's", "some other program's SQLite file", other},
	} {
		t.Run(x.name, func(t *testing.T) {
			if err := os.WriteFile(storeFile(c.Dir), x.content, 0o600); err != nil {
				t.Fatal(err)
			}
			says(t, binary.StartRefused(t, c.Dir), "mintage: ", storeFile(c.Dir), x.says)
			_, text, err := c.Try(t, "client", "list")
			if err == nil {
				t.Error("client list succeeds")
			}
			says(t, text, "mintage: ", x.says)
			left, err := os.ReadFile(storeFile(c.Dir))
			if err != nil || len(left) != len(x.content) {
				t.Fatalf("%d bytes are left of %d (%v)", len(left), len(x.content), err)
			}
			// Skip the header: SQLite changes the journal mode there.
			if !bytes.Equal(left[100:], x.content[100:]) {
				t.Error("the file was changed")
			}
		})
	}
	if err := os.WriteFile(storeFile(c.Dir), good, 0o600); err != nil {
		t.Fatal(err)
	}
	c.again()
	c.must(c.refresh(token), http.StatusOK)
}

// TestOP02_DamagedPagesAre503 damages some of the pages with grants. Requests for grants
// on damaged pages get 503, those for the others work, and no authentic token is answered
// 400.
func TestOP02_DamagedPagesAre503(t *testing.T) {
	c := start(t, t.TempDir())
	tokens := manySessions(t, c, binary.Scaled(1200, 12_000))
	c.stop()
	good, err := os.ReadFile(storeFile(c.Dir))
	if err != nil {
		t.Fatal(err)
	}
	leaves := pages(t, c.Dir, "grants", "leaf")
	inner := pages(t, c.Dir, "grants", "internal")
	index := pages(t, c.Dir, "grants_by_subject", "leaf")
	if len(leaves) < 20 || len(inner) == 0 || len(index) == 0 {
		t.Fatalf("%d leaves, %d inner pages, %d index pages: too few to damage some", len(leaves), len(inner), len(index))
	}
	noise := make([]byte, pageSize)
	rand.Read(noise)
	noise[0] = 0xff // no page has this type
	zeros := make([]byte, pageSize)
	for _, x := range []struct {
		name   string
		damage func(file []byte)
		some   bool // some grants stay readable
	}{
		{"noise in every third leaf", func(file []byte) {
			for i := 0; i < len(leaves); i += 3 {
				copy(file[(leaves[i]-1)*pageSize:], noise)
			}
		}, true},
		{"zeros in every third leaf", func(file []byte) {
			for i := 0; i < len(leaves); i += 3 {
				copy(file[(leaves[i]-1)*pageSize:], zeros)
			}
		}, true},
		{"noise within every third leaf", func(file []byte) {
			for i := 0; i < len(leaves); i += 3 {
				copy(file[(leaves[i]-1)*pageSize+8:leaves[i]*pageSize], noise[8:])
			}
		}, true},
		{"leaves in each other's place", func(file []byte) {
			for i := 0; i+3 < len(leaves); i += 6 {
				a, b := (leaves[i]-1)*pageSize, (leaves[i+3]-1)*pageSize
				kept := append([]byte(nil), file[a:a+pageSize]...)
				copy(file[a:a+pageSize], file[b:b+pageSize])
				copy(file[b:], kept)
			}
		}, true},
		{"noise in the inner pages", func(file []byte) {
			for _, p := range inner {
				copy(file[(p-1)*pageSize:], noise)
			}
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &client{t, c.Server, c.http}
			damaged := append([]byte(nil), good...)
			x.damage(damaged)
			if err := os.WriteFile(storeFile(c.Dir), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			c.again()
			served, out := 0, 0
			for _, token := range tokens {
				if c.must(c.refresh(token), http.StatusOK, unavailable).Status == http.StatusOK {
					served++
				} else {
					out++
				}
			}
			if out == 0 || x.some != (served > 0) {
				t.Errorf("%d grants served, %d out of service", served, out)
			}
			c.Kill()
			for _, suffix := range []string{"-wal", "-shm"} {
				os.Remove(storeFile(c.Dir) + suffix)
			}
		})
	}

	// Only listings read the index of grants. A new grant must write to it; a refresh
	// does not.
	damaged := append([]byte(nil), good...)
	for _, p := range index {
		copy(damaged[(p-1)*pageSize:], noise)
	}
	if err := os.WriteFile(storeFile(c.Dir), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	c.again()
	c.must(c.redeem(c.code()), unavailable)
	c.must(c.refresh(tokens[0]), http.StatusOK)
	c.Kill()
	for _, suffix := range []string{"-wal", "-shm"} {
		os.Remove(storeFile(c.Dir) + suffix)
	}

	// When the undamaged file is back, all grants are valid.
	if err := os.WriteFile(storeFile(c.Dir), good, 0o600); err != nil {
		t.Fatal(err)
	}
	c.again()
	for _, token := range tokens {
		c.must(c.refresh(token), http.StatusOK)
	}
}

// manySessions creates grants over several connections.
func manySessions(t *testing.T, c *client, n int) []string {
	t.Helper()
	tokens := make([]string, n)
	var working sync.WaitGroup
	const workers = 8
	for w := range workers {
		working.Go(func() {
			for i := w; i < n; i += workers {
				code, err := c.FastCode(t.Context(), fmt.Sprintf("subject-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				a, err := c.Post(t.Context(), c.http, c.ExchangeForm(code))
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("answer %d, %v", a.Status, err)
					return
				}
				tokens[i] = a.RefreshToken
			}
		})
	}
	working.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return tokens
}

// pages lists the pages of a table or index of a server that has stopped.
func pages(t *testing.T, dir, name, kind string) (list []int) {
	t.Helper()
	db := openStore(t, dir)
	defer db.Close()
	rows, err := db.Query("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY pageno", name, kind)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// newKEK returns a key-encryption key in its text form.
func newKEK() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b) + "\n"
}
