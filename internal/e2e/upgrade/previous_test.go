//go:build e2e

// Package upgrade runs the previous release and this source on one store: side by side
// with several nodes, and one after the other with a single node.
package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

const repository = "../../.."

var (
	database *pgtest.Server
	// old and new are the two programs.
	old, new string
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "mintage-previous-")
		if err == nil {
			defer os.RemoveAll(dir)
			old, err = buildPrevious(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return pgtest.Main(m, &database)
	}())
}

// buildPrevious builds the commit that the file previous names. It takes modules from the
// module cache, and common packages from the build cache.
func buildPrevious(dir string) (program string, err error) {
	text, err := os.ReadFile("previous")
	if err != nil {
		return "", err
	}
	commit := ""
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commit = line
		}
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return "", err
	}
	archive := exec.Command("git", "archive", "--format", "tar", "--output", filepath.Join(dir, "source.tar"), commit+"^{commit}", "--", "go.mod", "go.sum", "bench", "cmd", "internal", "resource")
	archive.Dir = repository
	if out, err := archive.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the previous release %s (internal/e2e/upgrade/previous) is not in this clone: fetch it with: git fetch --unshallow --tags\n%w: %s", commit, err, out)
	}
	if out, err := exec.Command("tar", "--extract", "--directory", source, "--file", filepath.Join(dir, "source.tar")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, out)
	}
	program = filepath.Join(dir, "mintage-previous")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version=previous", "-o", program, "./cmd/mintage")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the previous release: %w\n%s", err, out)
	}
	return program, nil
}

// programs sets old and new.
func programs(t *testing.T) {
	t.Helper()
	new = binary.Path(t)
	if out, err := exec.Command(old, "--version").Output(); err != nil || string(out) != "mintage previous\n" {
		t.Fatalf("the previous program's version is %q, %v", out, err)
	}
}
