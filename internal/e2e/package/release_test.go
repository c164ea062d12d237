//go:build e2e

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const repository = "../../.."

// The version of the packages under test, in each of its forms.
const (
	released       = "v0.9.0-rc.1"
	releasedName   = "mintage_0.9.0-rc.1_linux_amd64"
	releasedDebian = "mintage_0.9.0~rc.1_amd64.deb"
)

// pack packs the files of one architecture, with the binary of the other tests. It omits
// the compilation and compression of a release.
func pack(t testing.TB, out string) string {
	t.Helper()
	program := binary.Path(t)
	cmd := exec.Command(filepath.Join(repository, "scripts/dist-pack"), "amd64", program, program, out)
	cmd.Env = append(os.Environ(), "VERSION="+released, "SOURCE_DATE_EPOCH=1700000000", "FAST=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("dist-pack: %v\n%s", err, text)
	}
	return out
}

var once struct {
	sync.Once
	dir string
}

// release packs once, for all tests of this process.
func release(t testing.TB) string {
	t.Helper()
	once.Do(func() {
		dir, err := os.MkdirTemp("", "mintage-release-")
		if err != nil {
			t.Fatal(err)
		}
		once.dir = pack(t, dir)
	})
	if once.dir == "" {
		t.Fatal("the release could not be packed; see the test that was first")
	}
	return once.dir
}

func TestMain(m *testing.M) {
	status := m.Run()
	if once.dir != "" {
		os.RemoveAll(once.dir)
	}
	os.Exit(status)
}

// unpacked extracts the archive and returns its directory.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "--extract", "--directory", dir, "--file", filepath.Join(release(t), releasedName+".tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return filepath.Join(dir, releasedName)
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// output runs a program that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		text := ""
		if exit, ok := err.(*exec.ExitError); ok {
			text = string(exit.Stderr)
		}
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(out)
}
