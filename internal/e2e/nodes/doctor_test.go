//go:build e2e

package nodes

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestDoctorLooksAtTheDatabaseAndTheNodes: doctor checks the database server, and
// compares the clocks of the nodes.
func TestDoctorLooksAtTheDatabaseAndTheNodes(t *testing.T) {
	t.Parallel()
	nodes := start(t, 2)
	out, text, err := nodes[0].Try(t, "doctor", "--dev", "--json")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("doctor: %v, want exit status 3: there is no standby\n%s%s", err, out, text)
	}
	var told struct {
		Findings []struct{ Check, Level, Finding string }
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range told.Findings {
		found[f.Check+" "+f.Level] = true
		switch {
		case f.Level == "fault" || f.Level == "unknown":
			t.Errorf("a finding without a fault: %+v", f)
		case f.Check == "database" && f.Level == "warning" && !strings.Contains(f.Finding, "no standby confirms commits"):
			t.Errorf("%+v", f)
		case f.Check == "clock" && f.Level == "note" && !strings.Contains(f.Finding, "compared with 2 nodes"):
			t.Errorf("%+v", f)
		}
	}
	if !found["database warning"] || !found["clock note"] || !found["proxy ok"] || !found["integrity note"] {
		t.Errorf("findings: %s", out)
	}
}
