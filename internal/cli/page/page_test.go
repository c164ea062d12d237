package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/cli"
	"github.com/mintage/mintage/internal/config"
)

func TestThePageOfCommandsIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	root := cli.Root("test")
	if want := referencePage(root); string(page) != want {
		t.Error("docs/reference/cli.md is stale: make docs")
	}
	walk(root, func(c *cobra.Command) {
		_, section, _ := strings.Cut(string(page), "\n## "+c.CommandPath()+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		promised := strings.Contains(section, "a flag for each [setting]")
		if promised != (c.LocalNonPersistentFlags().Lookup("tls-cert") != nil) {
			t.Errorf("the page promises a flag for each setting to %s: %t", c.CommandPath(), promised)
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if section != "" && !promised && !strings.Contains(section, "\n| `--"+f.Name) && !f.Hidden && f.Name != "help" {
				t.Errorf("the page leaves out %s --%s", c.CommandPath(), f.Name)
			}
		})
		if c.Runnable() && !c.Hidden && !c.HasAvailableSubCommands() && c.Name() != "help" && !under(c, "completion") &&
			!strings.Contains(string(page), "\n## "+c.CommandPath()+"\n") {
			t.Errorf("the page says nothing of %s", c.CommandPath())
		}
	})
}

func TestEveryCommandAndSettingHasItsManualPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795304919")
	dir := t.TempDir()
	root := cli.Root("test")
	if err := writeMan(root, dir); err != nil {
		t.Fatal(err)
	}
	commands := 0
	walk(root, func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || under(c, "completion") {
			return
		}
		commands++
		text, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, part := range []string{`"2026-11-21"`, ".SH \"NAME\"\n", ".SH \"DESCRIPTION\"\n", escape(c.Short)} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q", pageName(c), part)
			}
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".SH ") && !strings.HasPrefix(line, ".TH ") &&
				!slices.Contains([]string{".PP\n", ".TP\n", ".RS 2\n", ".RE\n", ".nf\n", ".fi\n"}, line) {
				t.Errorf("%s: text is taken for a request: %s", pageName(c), line)
			}
		}
	})
	if commands < 25 {
		t.Fatalf("%d commands", commands)
	}
	text, err := os.ReadFile(filepath.Join(dir, "mintage.yaml.5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range config.Keys() {
		if !strings.Contains(string(text), `\fB`+escape(k.Name)+`\fR`) {
			t.Errorf("mintage.yaml(5) does not know %s", k.Name)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if err := writeMan(root, dir); err == nil {
		t.Error("a date that is none was accepted")
	}
}
