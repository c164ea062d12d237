//go:build e2e

package packaging

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

var (
	chartFiles = repository + "/packaging/helm/mintage"
	inChart    = regexp.MustCompile(`(?m)^  mintage\.yaml: \|\n((?:    .*\n)+)`)
)

// TestTheRenderedChartIsWhatTheProgramUnderstands reads the chart as Helm rendered it
// (`make chart` and `make chart-test`), and parses its configuration with the program's
// own code.
func TestTheRenderedChartIsWhatTheProgramUnderstands(t *testing.T) {
	t.Parallel()
	rendered := repository + "/internal/e2e/chart/testdata/rendered/"
	if got := chartDigest(t); got != read(t, rendered+"digest") {
		t.Error("the chart has changed since it was rendered; run: make chart")
	}
	for _, name := range []string{"sqlite", "postgresql"} {
		text := read(t, rendered+name+".yaml")
		found := inChart.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s: there is no configuration in\n%s", name, text)
		}
		file := filepath.Join(t.TempDir(), "mintage.yaml")
		if err := os.WriteFile(file, []byte(found[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(file, nil, nil)
		if err == nil {
			err = cfg.Check()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, port := range []string{cfg.Listen, cfg.Management.Listen} {
			if _, p, _ := net.SplitHostPort(port); !strings.Contains(text, "containerPort: "+p) {
				t.Errorf("%s: no container port for %s", name, port)
			}
		}
		// Each file that the configuration names is in a volume.
		for _, path := range []string{cfg.KEKFile, cfg.StorePasswordFile, cfg.TLS.Cert, cfg.TLS.Key, cfg.Data} {
			if path != "" && !strings.Contains(text, "mountPath: "+filepath.Dir(path)+"}") && !strings.Contains(text, "mountPath: "+filepath.Dir(path)+",") {
				t.Errorf("%s: %s is in no volume", name, path)
			}
		}
		// A flood of connections uses as much memory as the garbage collector allows, 512
		// MiB, and the process needs more than its heap.
		if !strings.Contains(text, "memory: 768Mi") {
			t.Errorf("%s: the kernel ends the server under a flood of connections", name)
		}
		// Prometheus takes the job's name from this label of the Service, or by default
		// from the Service's name.
		if strings.Contains(text, "kind: ServiceMonitor") && !strings.Contains(text, "  jobLabel: app.kubernetes.io/name\n") {
			t.Errorf("%s: the alert rules name another job", name)
		}
		if !strings.Contains(text, `args: [serve, --config, /etc/mintage/mintage.yaml]`) {
			t.Errorf("%s: the arguments differ", name)
		}
	}
}

// chartDigest is a hash of all files of the chart and of its values, the same one as in
// the module internal/e2e/chart.
func chartDigest(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, root := range []string{chartFiles, repository + "/internal/e2e/chart/testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "rendered" {
				return fs.SkipDir
			}
			if d.IsDir() {
				return nil
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			fmt.Fprintf(sum, "%s %d\n%s\n", name, len(text), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x\n", sum.Sum(nil))
}
