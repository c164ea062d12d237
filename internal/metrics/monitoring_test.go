package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/testkit"
)

const monitoring = "../../packaging/monitoring/"

// promtool runs Prometheus's own checker (scripts/tools installs it).
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = monitoring
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (list []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, monitoring+"alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) < 20 {
		t.Fatalf("%d alerts", len(list))
	}
	return list
}

// The first replay raises an alert, and many of them a more severe one. Each alert fires
// on bad numbers, and not on good ones.
func TestOP09_AlertsFireOnBadNumbersAndNotOnGoodOnes(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml", "alerts_long_test.yaml")
	tests := read(t, monitoring+"alerts_test.yaml") + read(t, monitoring+"alerts_long_test.yaml")
	for _, r := range rules(t) {
		if n := len(regexp.MustCompile(`\b`+r.Alert+`\b`).FindAllString(tests, -1)); n < 2 {
			t.Errorf("%s is named %d times in the tests: it takes one that fires and one that does not", r.Alert, n)
		}
	}
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/how-to/troubleshoot.md")
	for _, r := range rules(t) {
		for _, what := range []string{"summary", "description"} {
			if r.Annotations[what] == "" {
				t.Errorf("%s has no %s", r.Alert, what)
			}
		}
		want := "https://github.com/mintage/mintage/blob/main/docs/how-to/troubleshoot.md#" + strings.ToLower(r.Alert)
		if r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !regexp.MustCompile(`(?m)^#+ ` + r.Alert + `$`).MatchString(page) {
			t.Errorf("docs/how-to/troubleshoot.md has no heading %s", r.Alert)
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
	}
}

// The dashboard warns of a certificate's expiry when the alert does: a number of days would
// be wrong for short-lived certificates.
func TestTheDashboardWarnsOfACertificateWhenTheAlertDoes(t *testing.T) {
	t.Parallel()
	_, panel, _ := strings.Cut(read(t, monitoring+"dashboard.json"), `"title": "Certificate"`)
	panel, _, _ = strings.Cut(panel, `"title"`)
	if days := regexp.MustCompile(`"value": \d{3,}`).FindString(panel); !strings.Contains(panel, "mintage_certificate_overdue") || days != "" {
		t.Errorf("the panel of certificates does not follow the metric of the alert, or has the threshold %s", days)
	}
}

// expressions returns the PromQL expressions of the dashboard.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	var dashboard any
	if err := json.Unmarshal([]byte(read(t, monitoring+"dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				if text, is := member.(string); is && key == "expr" {
					list = append(list, text)
				}
				walk(member)
			}
		case []any:
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(dashboard)
	if len(list) < 40 {
		t.Fatalf("%d expressions", len(list))
	}
	return list
}

func TestTheDashboardsExpressionsAreSound(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$__interval", "5m", "$job", "mintage", "$instance", ".*")
	for i, e := range expressions(t) {
		text, err := json.Marshal(grafana.Replace(e))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "      - {record: 'panel:%d', expr: %s}\n", i, text)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

var (
	metricName = regexp.MustCompile(`\b(mintage|http|process|go)_[a-z_]+\b`)
	selector   = regexp.MustCompile(`\b((?:mintage|http|process|go)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

func TestDashboardAndAlertsNameOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	labels := map[string][]string{} // by series
	unseen := map[string]bool{}
	for _, f := range metrics.Families() {
		unseen[f.Name] = true
		if f.OfRealms() {
			f.Labels = append(slices.Clone(f.Labels), "realm") // with several realms
		}
		if f.Kind != metrics.Histogram {
			labels[f.Name] = f.Labels
			continue
		}
		labels[f.Name+"_sum"], labels[f.Name+"_count"] = f.Labels, f.Labels
		labels[f.Name+"_bucket"] = append(slices.Clone(f.Labels), "le")
	}
	for name := range testkit.Series(t, everything()) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			name, _, _ = strings.Cut(name, "{")
			labels[name] = nil
		}
	}
	all := expressions(t)
	for _, r := range rules(t) {
		all = append(all, r.Expr)
	}
	for _, e := range all {
		grouped := []string{"instance", "job"}
		for _, m := range selector.FindAllStringSubmatch(e, -1) {
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(append([]string{"instance", "job"}, labels[m[1]]...), l[1]) {
					t.Errorf("%s has no label %s: %s", m[1], l[1], e)
				}
			}
		}
		bare := regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\b(?:by|on) \([^)]*\)`).ReplaceAllString(e, "")
		for _, name := range metricName.FindAllString(bare, -1) {
			own, there := labels[name]
			if !there {
				t.Errorf("there is no %s: %s", name, e)
			}
			grouped = append(grouped, own...)
			for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
				delete(unseen, strings.TrimSuffix(name, suffix))
			}
		}
		for _, m := range grouping.FindAllStringSubmatch(e, -1) {
			for l := range strings.SplitSeq(m[1], ", ") {
				if !slices.Contains(grouped, l) {
					t.Errorf("nothing has a label %s: %s", l, e)
				}
			}
		}
	}
	for name := range unseen {
		t.Errorf("neither the dashboard nor an alert shows %s", name)
	}
}
