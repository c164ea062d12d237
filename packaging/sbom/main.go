// Command sbom says what a built program consists of: as a CycloneDX document,
// and as the texts of the licences, which go with it. It reads the program
// itself, and not what the build was asked for.
//
//	sbom -version V -sbom FILE -notices FILE BINARY
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the program")
	sbom := flag.String("sbom", "", "write the CycloneDX document here")
	notices := flag.String("notices", "", "write the texts of the licences here")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" || *sbom == "" || *notices == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *version, *sbom, *notices); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(binary, version, sbom, notices string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	modules, err := modulesOf(info)
	if err != nil {
		return err
	}
	made, err := madeAt()
	if err != nil {
		return err
	}
	doc, err := json.MarshalIndent(document(info, modules, version, sha256.Sum256(text), made), "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(sbom, append(doc, '\n'), 0o644),
		os.WriteFile(notices, []byte(texts(info, modules)), 0o644))
}

// madeAt is the time that the document bears: that of the release, so that it
// can be made again.
func madeAt() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// A module is one that is part of the program, with the licences that its
// source has.
type module struct {
	path, version, sum string
	files              []licence
}

// A licence is a file of a module.
type licence struct{ name, id, text string }

// modulesOf finds the modules in the module cache, and last Go itself.
func modulesOf(info *buildinfo.BuildInfo) ([]module, error) {
	var list []module
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		dir, err := sourceOf(d)
		if err != nil {
			return nil, err
		}
		m := module{path: d.Path, version: d.Version, sum: d.Sum}
		if m.files, err = licences(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Path, err)
		}
		list = append(list, m)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	standard := module{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
	if standard.files, err = licences(strings.TrimSpace(string(root))); err != nil {
		return nil, fmt.Errorf("Go: %w", err)
	}
	return append(list, standard), nil
}

func sourceOf(d *debug.Module) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", d.Path+"@"+d.Version).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", d.Path, d.Version, err)
	}
	var found struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", err
	}
	if d.Sum != "" && found.Sum != d.Sum {
		return "", fmt.Errorf("%s@%s: the program was built from another source than the module cache has", d.Path, d.Version)
	}
	return found.Dir, nil
}

// licences reads what says so at the top of a module.
func licences(dir string) (list []licence, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(upper, "LICENSE") && !strings.HasPrefix(upper, "LICENCE") && !strings.HasPrefix(upper, "COPYING") && !strings.HasPrefix(upper, "NOTICE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, licence{e.Name(), identify(string(text)), string(text)})
	}
	if !slices.ContainsFunc(list, func(l licence) bool { return l.id != "" }) {
		return nil, errors.New("no licence is known; look at it, and teach this program its words")
	}
	return list, nil
}

// words are what each licence says and the others do not, in order: the first
// that fits is it.
var words = []struct {
	id   string
	says []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0, January 2004"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"MIT", []string{"Permission is hereby granted, free of charge", "The above copyright notice and this permission notice"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "to endorse or promote products"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software", "copyright notice and this permission notice appear"}},
	{"ISC", []string{"Permission to use, copy, modify, and distribute this software", "copyright notice and this permission notice appear"}},
	{"Unlicense", []string{"This is free and unencumbered software released into the public domain"}},
}

// identify is the SPDX name of a licence, or "".
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if !slices.ContainsFunc(w.says, func(s string) bool { return !strings.Contains(text, s) }) {
			return w.id
		}
	}
	return ""
}

// ids are the licences of a module, each once.
func (m module) ids() (list []string) {
	for _, f := range m.files {
		if f.id != "" {
			list = append(list, f.id)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// texts is what goes with the program: most licences ask for it.
func texts(info *buildinfo.BuildInfo, modules []module) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is made with what follows.\n", info.Main.Path)
	for _, m := range modules {
		for _, f := range m.files {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 78), m.path, m.version, f.name, strings.TrimSpace(f.text))
		}
	}
	return b.String()
}

// reference names a module as package URLs do.
func (m module) reference() string {
	return "pkg:golang/" + m.path + "@" + cmp.Or(m.version, "unknown")
}
