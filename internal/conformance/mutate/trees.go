package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A together is a copy of the tree whose functions contain the bodies of all mutants, of
// which the environment selects one, and the compiled tests.
type together struct{ dir, binaries string }

const variable = "MUTATION"

// selector is a file that makes the selected mutant available to a package.
const selector = "package %s\n\nimport \"os\"\n\nvar selectedMutation = os.Getenv(\"" + variable + "\")\n"

func (t *together) prepare(mutants []*mutant) error {
	if len(mutants) == 0 {
		return nil
	}
	if err := copyTree(t.dir, "."); err != nil {
		return err
	}
	// Go from the end of each file, so that offsets stay valid.
	sorted := slices.Clone(mutants)
	slices.SortStableFunc(sorted, func(a, b *mutant) int { return b.at - a.at })
	for _, m := range sorted {
		file := filepath.Join(t.dir, m.file)
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		body := fmt.Sprintf("\nif selectedMutation == %q {%s}\n", m.id, m.body)
		if err := os.WriteFile(file, slices.Concat(source[:m.at], []byte(body), source[m.at:]), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), "selected_mutation.go"), fmt.Appendf(nil, selector, m.declared), 0o644); err != nil {
			return err
		}
	}
	built := map[string]bool{}
	for _, m := range mutants {
		if built[m.pkg] {
			continue
		}
		built[m.pkg] = true
		if out, err := command(t.dir, "", "go", "test", "-vet=off", "-c", "-o", t.binary(m.pkg), m.pkg); err != nil {
			return fmt.Errorf("the mutations do not compile:\n%s", out)
		}
	}
	return sound(mutants, func(pkg, pattern string) (string, error) { return t.run("", pkg, pattern) })
}

func (t *together) binary(pkg string) string {
	return filepath.Join(t.binaries, strings.ReplaceAll(path.Clean(pkg), "/", "-")+".test")
}

func (t *together) run(id, pkg, pattern string) (out string, err error) {
	return command(filepath.Join(t.dir, pkg), variable+"="+id, t.binary(pkg), "-test.run="+pattern, "-test.timeout=5m")
}

func (t *together) test(m *mutant) (out string, err error) { return t.run(m.id, m.pkg, m.pattern) }

// An alone is a copy of the tree for one mutant after the other.
type alone struct{ dir string }

func (a *alone) prepare(mutants []*mutant) error {
	if len(mutants) == 0 {
		return nil
	}
	if err := copyTree(a.dir, "."); err != nil {
		return err
	}
	return sound(mutants, a.run)
}

func (a *alone) run(pkg, pattern string) (out string, err error) {
	return command(a.dir, "", "go", "test", "-vet=off", "-count=1", "-timeout=5m", "-run="+pattern, pkg)
}

// test writes the mutant, runs its test, and restores the source.
func (a *alone) test(m *mutant) (out string, err error) {
	file := filepath.Join(a.dir, m.file)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, m.broken, 0o644); err != nil {
		return "", err
	}
	out, failed := a.run(m.pkg, m.pattern)
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return "", err
	}
	return out, failed
}
