//go:build e2e

package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestOP02_SecondServerIsRefused starts a second server on a directory. The first server
// is not affected.
func TestOP02_SecondServerIsRefused(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	says(t, binary.StartRefused(t, c.Dir), "mintage: another mintage server is running on "+c.Dir, "stop it first", "--data")
	code := c.Code(t, "alice") // through the socket in the directory
	c.must(c.redeem(code), http.StatusOK)
	token = c.must(c.refresh(token), http.StatusOK).RefreshToken
	// A killed server does not leave its lock behind.
	c.Kill()
	c.again()
	c.must(c.refresh(token), http.StatusOK)
}

// TestOP02_WithoutItsKEKNothingStarts removes the key-encryption key, and replaces it by
// wrong ones. The server says what to do, makes no new key, and starts again when the
// right key is back.
func TestOP02_WithoutItsKEKNothingStarts(t *testing.T) {
	c := start(t, t.TempDir())
	token, code := c.session(), c.code()
	c.stop()
	path := filepath.Join(c.Dir, "kek")
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(phrases ...string) {
		t.Helper()
		says(t, binary.StartRefused(t, c.Dir), append(phrases, "mintage: ")...)
		_, text, err := c.Try(t, "client", "secret", "add", c.ClientID)
		if err == nil {
			t.Error("a command makes a secret")
		}
		says(t, text, append(phrases, "mintage: ")...)
		// Commands that an incident needs work without the key.
		c.Run(t, "client", "disable", c.ClientID)
		c.Run(t, "client", "enable", c.ClientID)
		c.Run(t, "grant", "revoke", "--subject", "mallory")
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("the key-encryption key is missing", "restore the file, or name it with --kek-file", "of a systemd credential, name the file of the unit's LoadCredential=")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a new key-encryption key was made for an old store (%v)", err)
	}

	for text, phrase := range map[string]string{
		newKEK():           "put back the kek file that belongs to this store",
		"not a key\n":      "a key-encryption key is 32 bytes in base64",
		"":                 "a key-encryption key is 32 bytes in base64",
		string(right)[:20]: "a key-encryption key is 32 bytes in base64",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(phrase)
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("the file was changed (%v)", err)
		}
	}

	// The key may also be at another path.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.WriteFile(moved, right, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Run(t, "client", "secret", "add", c.ClientID, "--kek-file", moved)
	if err := os.Rename(moved, path); err != nil {
		t.Fatal(err)
	}
	c.again()
	c.must(c.refresh(token), http.StatusOK)
	c.must(c.redeem(code), http.StatusOK)
}

// TestOP02_NewerSchemaIsRefused opens a store that a later version has written.
func TestOP02_NewerSchemaIsRefused(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	c.stop()
	db := openStore(t, c.Dir)
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version < 1 {
		t.Fatalf("schema version %d, %v", version, err)
	}
	if _, err := db.Exec("PRAGMA user_version = 999"); err != nil {
		t.Fatal(err)
	}
	const phrase = "its schema has version 999"
	says(t, binary.StartRefused(t, c.Dir), "mintage: ", phrase, "run the version of mintage that wrote it, or a later one")
	if _, text, err := c.Try(t, "grant", "list"); err == nil {
		t.Error("grant list succeeds")
	} else {
		says(t, text, phrase)
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		t.Fatal(err)
	}
	c.again()
	c.must(c.refresh(token), http.StatusOK)
}
