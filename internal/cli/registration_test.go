package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is given by mistake may be a private key: the error must not contain its
// content.
func TestAnErrorAboutAFileHasNoneOfItsContent(t *testing.T) {
	for name, tt := range map[string]struct{ flag, text, want string }{
		"a key in DER":            {"jwks", "0\x82\x01secret\xff", "the file is not JSON"},
		"text":                    {"jwks", "secret", "the file is not JSON"},
		"JSON in other bytes":     {"jwks", "{\"k\":\"secret\xff\"}", "the file is not JSON"},
		"no text in place of PEM": {"jwks-ca", "secret\xff", "the file is not UTF-8 text"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readFile(tt.flag, file); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
