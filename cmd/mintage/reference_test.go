package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestThePageOfCommandsIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	if want := referencePage(root); string(page) != want {
		t.Error("docs/reference/cli.md is stale: make docs")
	}
	walk(root, func(c *cobra.Command) {
		if c.Runnable() && !c.Hidden && !c.HasAvailableSubCommands() && c.Name() != "help" && !under(c, "completion") &&
			!strings.Contains(string(page), "\n## "+c.CommandPath()+"\n") {
			t.Errorf("the page says nothing of %s", c.CommandPath())
		}
	})
}
