package deployment

import (
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// If the key of a store on PostgreSQL is missing, the hint first says to restore the key,
// because a new key does not open the store.
func TestAMissingKeyIsPutBackBeforeANewOneIsMade(t *testing.T) {
	cfg := config.Config{Store: "postgres://db/mintage", Data: t.TempDir()}
	_, err := ReadKEK(cfg)
	if err == nil {
		t.Fatal("there is a key")
	}
	var hinted *Hinted
	if !errors.As(err, &hinted) {
		t.Fatalf("no advice: %v", err)
	}
	text := hinted.Hint
	back, made := strings.Index(text, "if there is a store, restore the file"), strings.Index(text, "openssl rand")
	if back < 0 || made < back {
		t.Errorf("the advice does not begin with the key that exists: %s", text)
	}
}
