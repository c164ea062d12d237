package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
)

func TestEveryCommandAndSettingHasItsManualPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795304919")
	dir := t.TempDir()
	root := newRoot("test")
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
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
	root = newRoot("test")
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err == nil {
		t.Error("a date that is none was accepted")
	}
}

func TestEveryChoiceThatAShellOffersIsAccepted(t *testing.T) {
	for flag, values := range choices {
		i := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Flag == flag })
		if i < 0 {
			t.Errorf("there is no setting --%s", flag)
			continue
		}
		for _, v := range append(values, "nonsense") {
			cfg, _, err := config.Load("", nil, map[string]string{flag: v})
			if err == nil {
				err = cfg.Check()
			}
			refused := err != nil && strings.Contains(err.Error(), config.Keys()[i].Name+":") && !strings.Contains(err.Error(), "missing") || err != nil && v == "nonsense"
			if refused != (v == "nonsense") {
				t.Errorf("--%s %s: %v", flag, v, err)
			}
		}
	}
	root := newRoot("test")
	for path, flags := range ofCommand {
		c, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || c.CommandPath() != path {
			t.Errorf("there is no command %s", path)
			continue
		}
		for flag := range flags {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", path, flag)
			}
		}
	}
}
