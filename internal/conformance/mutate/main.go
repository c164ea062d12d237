// Command mutate takes the program's safeties out, one at a time in a copy of
// the tree, and tells whether the tests notice. It is run at the root; with
// arguments, it runs the mutations whose names hold one of them.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/conformance"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	dir, err := os.MkdirTemp("", "mintage-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir, "."); err != nil {
		return err
	}
	declarations, err := conformance.Declarations(dir)
	if err != nil {
		return err
	}
	survived := 0
	sound := map[string]bool{}
	for _, m := range conformance.Mutations {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(m.Name, n) }) {
			continue
		}
		if !sound[m.Test] {
			// Otherwise it is not the mutation that fails the test.
			if out, err := test(dir, m.Test); err != nil {
				return fmt.Errorf("%s fails without a mutation:\n%s", m.Test, out)
			}
			sound[m.Test] = true
		}
		verdict, err := try(dir, declarations, m)
		if err != nil {
			return err
		}
		fmt.Printf("%-9s %s (%s)\n", verdict, m.Name, m.Test)
		if verdict != "killed" {
			survived++
		}
	}
	if survived > 0 {
		return fmt.Errorf("%d mutations were not noticed", survived)
	}
	return nil
}

// try applies one mutation, runs its test, and puts the source back.
func try(dir string, declarations map[string][]conformance.Declaration, m conformance.Mutation) (verdict string, err error) {
	file, broken, err := m.Apply(dir, declarations)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, broken, 0o644); err != nil {
		return "", err
	}
	out, failed := test(dir, m.Test)
	switch {
	case failed == nil:
		verdict = "SURVIVED"
	case strings.Contains(out, "--- FAIL"):
		verdict = "killed"
	default:
		// It did not compile, or ended without a test's word.
		verdict = "INVALID"
		fmt.Println(out)
	}
	return verdict, os.WriteFile(path, source, 0o644)
}

func test(dir, command string) (out string, err error) {
	args := strings.Fields(command)
	cmd := exec.Command(args[0], append(args[1:], "-count=1")...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// copyTree copies a directory, but for what version control and builds keep.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}
