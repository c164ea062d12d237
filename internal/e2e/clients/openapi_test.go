//go:build e2e

package clients

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestALinterFindsNoErrorInTheDescriptionOfTheAPI lints the OpenAPI description in the
// repository, which covers all listeners, and the one that a server returns. Client
// generators refuse descriptions with errors.
func TestALinterFindsNoErrorInTheDescriptionOfTheAPI(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	at, err := url.Parse(s.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: s.Transport(t, "")}
	resp, err := client.Get("https://" + at.Host + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	served := filepath.Join(t.TempDir(), "served.json")
	if err := os.WriteFile(served, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"the source": "../../../server/resource/openapi.json", "what is served": served} {
		cmd := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "redocly"), "lint", "--format=json", "--max-problems=1000", file)
		cmd.Dir, cmd.Env = "js", append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		out, err := cmd.Output() // fails if the linter reports an error
		var report struct {
			Totals   struct{ Errors, Warnings int }
			Problems []struct{ RuleID, Severity, Message string }
		}
		if bad := json.Unmarshal(out, &report); bad != nil {
			t.Fatalf("redocly lint: %v, %v:\n%s", err, bad, out)
		}
		for _, p := range report.Problems {
			if p.Severity == "error" {
				t.Errorf("%s: %s: %s", name, p.RuleID, p.Message)
			}
		}
		if err != nil || report.Totals.Errors != 0 {
			t.Errorf("%s: %d errors: %v", name, report.Totals.Errors, err)
		}
		if report.Totals.Warnings == 0 {
			t.Errorf("%s: the linter gives not even its warning about the server's address: it may have read nothing", name)
		}
	}
}
