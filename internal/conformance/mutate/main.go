// Command mutate removes the program's safeguards, one at a time in a copy of the tree,
// and reports whether the tests fail. It runs at the root. With arguments, it runs only
// the mutations whose names contain one of them.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/mintage/mintage/internal/conformance"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	mutants, err := load(names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mintage-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	// Most mutations change the body of one function. One copy of the tree contains all
	// of these, so that it is compiled only once.
	together := &together{dir: filepath.Join(dir, "together"), binaries: filepath.Join(dir, "binaries")}
	alone := &alone{dir: filepath.Join(dir, "alone")}
	var selectable, others []*mutant
	for _, m := range mutants {
		if m.selectable() {
			selectable = append(selectable, m)
		} else {
			others = append(others, m)
		}
	}
	if err := together.prepare(selectable); err != nil {
		return err
	}
	if err := alone.prepare(others); err != nil {
		return err
	}
	var wg sync.WaitGroup
	queue := make(chan *mutant)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for m := range queue {
				m.judge(together.test(m))
			}
		})
	}
	for _, m := range selectable {
		queue <- m
	}
	close(queue)
	for _, m := range others {
		m.judge(alone.test(m))
	}
	wg.Wait()

	var unnoticed []string
	for _, m := range mutants {
		if m.verdict != killed {
			unnoticed = append(unnoticed, m.verdict+" "+m.name)
		}
	}
	if len(unnoticed) > 0 {
		return fmt.Errorf("%d of %d mutations were not noticed:\n%s", len(unnoticed), len(mutants), strings.Join(unnoticed, "\n"))
	}
	fmt.Printf("mutate: the tests notice all %d mutations\n", len(mutants))
	return nil
}

// load returns mutants of the mutations whose names contain one of names.
func load(names []string) ([]*mutant, error) {
	declarations, err := conformance.Declarations(".")
	if err != nil {
		return nil, err
	}
	var mutants []*mutant
	for i, m := range conformance.Mutations {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(m.Name, n) }) {
			continue
		}
		made, err := newMutant(fmt.Sprint(i+1), m, declarations)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, made)
	}
	return mutants, nil
}

// sound runs the tests without a mutation, and reports an error if one of them fails:
// such a failure would prove nothing. It runs the tests of a package together.
func sound(mutants []*mutant, test func(pkg, pattern string) (string, error)) error {
	patterns := map[string][]string{}
	for _, m := range mutants {
		patterns[m.pkg] = append(patterns[m.pkg], m.pattern)
	}
	for pkg, all := range patterns {
		slices.Sort(all)
		if out, err := test(pkg, strings.Join(slices.Compact(all), "|")); err != nil {
			return fmt.Errorf("%s fails without a mutation:\n%s", pkg, out)
		}
	}
	return nil
}

func command(dir, env, name string, args ...string) (out string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// copyTree copies a directory, without the files of version control and builds.
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
