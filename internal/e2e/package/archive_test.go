//go:build e2e

package packaging

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestPackingTwiceGivesTheSameBytes checks that packing is reproducible. `make
// dist-check` compiles twice as well, which takes longer.
func TestPackingTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	first, second := release(t), pack(t, t.TempDir())
	entries, err := os.ReadDir(first)
	if err != nil || len(entries) != 3 {
		t.Fatalf("a release of one architecture is %v (%v), want an archive, a package and an SBOM", entries, err)
	}
	for _, e := range entries {
		a, b := read(t, filepath.Join(first, e.Name())), read(t, filepath.Join(second, e.Name()))
		if a != b {
			t.Errorf("%s differs, of %d and %d bytes", e.Name(), len(a), len(b))
		}
	}
}

func TestTheArchiveHasEverythingAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := unpacked(t)
	var got []string
	pages, texts := 0, 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(name, "man/") {
			pages++
			return nil
		}
		if strings.HasPrefix(name, "docs/") {
			if read(t, path) != read(t, filepath.Join(repository, name)) {
				t.Errorf("%s differs from the source", name)
			}
			texts++
			return nil
		}
		got = append(got, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CHANGELOG.md", "LICENSE", "README.md", "completion/_mintage", "completion/mintage.bash", "completion/mintage.fish", "mintage", "mintage.yaml",
		"packaging/monitoring/alerts.yaml", "packaging/monitoring/alerts_long_test.yaml", "packaging/monitoring/alerts_test.yaml", "packaging/monitoring/dashboard.json", "sbom.cdx.json", "systemd/kek-credential.conf", "systemd/mintage.service", "systemd/mintage.sysusers", "systemd/port-443.conf", "third-party.txt"}
	if !slices.Equal(got, want) {
		t.Errorf("the archive holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if pages < 30 || texts < 80 {
		t.Errorf("%d manual pages, %d pages of the documentation", pages, texts)
	}
	list := output(t, "tar", "--list", "--verbose", "--file", filepath.Join(release(t), releasedName+".tar.gz"))
	for line := range strings.Lines(list) {
		if !strings.Contains(line, " 0/0 ") {
			t.Errorf("the archive contains an owner: %s", line)
		}
	}
	f, err := elf.Open(filepath.Join(dir, "mintage"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program is not static")
	}
}

func TestTheSBOMNamesEveryModuleWithItsLicence(t *testing.T) {
	t.Parallel()
	var doc struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(release(t), releasedName+".cdx.json"))), &doc); err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, c := range doc.Components {
		named[c.Name] = c.Version
		if len(c.Licenses) == 0 || c.Licenses[0].License.ID == "" || !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@") {
			t.Errorf("the SBOM's entry of %s: %+v", c.Name, c)
		}
	}
	modules := 0
	notices := read(t, filepath.Join(unpacked(t), "third-party.txt"))
	for line := range strings.Lines(output(t, "go", "version", "-m", binary.Path(t))) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			modules++
			if named[f[1]] != f[2] {
				t.Errorf("%s %s is part of the program, and %q is in the SBOM", f[1], f[2], named[f[1]])
			}
			if !strings.Contains(notices, "\n"+f[1]+" "+f[2]+": ") {
				t.Errorf("the licence of %s does not come with the program", f[1])
			}
		}
	}
	if modules < 15 || len(named) != modules+1 || named["std"] == "" || doc.Format != "CycloneDX" {
		t.Errorf("%d modules, %d are named, in %q", modules, len(named), doc.Format)
	}
}

func TestManualPagesAreWellFormed(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(unpacked(t), "man", "*"))
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	if out, err := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	text := output(t, "mandoc", "-T", "ascii", filepath.Join(unpacked(t), "man", "mintage.yaml.5"))
	if !strings.Contains(text, "https://auth.example.com") {
		t.Errorf("mintage.yaml(5) has no example:\n%s", text)
	}
}

// shells run the completion of each shell for a command line.
var shells = map[string]func(dir, line string) *exec.Cmd{
	"bash": func(dir, line string) *exec.Cmd {
		return exec.Command("bash", "--norc", "--noprofile", "-c", `source /usr/share/bash-completion/bash_completion; source "$1/mintage.bash"
			compopt() { :; } # is for a completion that a key has asked for
			COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
			read -r -a COMP_WORDS <<<"$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			__start_mintage; printf '%s\n' "${COMPREPLY[@]}"`, "bash", dir, line)
	},
	"zsh": func(dir, line string) *exec.Cmd {
		return exec.Command("zsh", "-f", "-c", `compdef() { }
			_describe() { for a in "$@"; do [[ $a = completions ]] && print -l -- "${completions[@]}"; done; return 0; }
			source "$1/_mintage"
			words=(${=2}) CURRENT=${#words}
			_mintage`, "zsh", dir, line)
	},
	"fish": func(dir, line string) *exec.Cmd {
		return exec.Command("fish", "--no-config", "--command", `source $argv[1]/mintage.fish; complete --do-complete $argv[2]`, dir, line)
	},
}

func TestShellsCompleteCommandsAndValues(t *testing.T) {
	t.Parallel()
	dir := unpacked(t)
	for name, ask := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for line, want := range map[string]string{
				"mintage migr":                 "migrate-store",
				"mintage serve --log-level wa": "warn",
				"mintage client secret rev":    "revoke",
			} {
				cmd := ask(filepath.Join(dir, "completion"), line)
				cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
				var text bytes.Buffer
				cmd.Stderr = &text
				out, err := cmd.Output()
				if err != nil || !strings.Contains("\n"+string(out), "\n"+want) || text.Len() > 0 {
					t.Errorf("%s: %q, %v\n%s", line, out, err, text.String())
				}
			}
		})
	}
}
