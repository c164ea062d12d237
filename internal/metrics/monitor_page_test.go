package metrics_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The Prometheus configuration of docs/how-to/monitor.md is valid, with Mintage's rules.
func TestTheConfigurationOfPrometheusIsAccepted(t *testing.T) {
	t.Parallel()
	_, block, found := strings.Cut(read(t, "../../docs/how-to/monitor.md"), "```prometheus\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("the page has no configuration of Prometheus")
	}
	rules, err := filepath.Abs(monitoring + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	block = strings.Replace(block, "/etc/prometheus/mintage-alerts.yaml", rules, 1)
	if !strings.Contains(block, rules) {
		t.Error("the page does not say where the rules go")
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "config", file)
}
