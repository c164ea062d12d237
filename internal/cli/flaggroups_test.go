package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/config"
)

// Each command's help describes each of its flags once, in groups if there are many.
// Global flags are only in the help of the program itself.
func TestHelpShowsFlagsInGroups(t *testing.T) {
	root := Root("test")
	visit(root, func(cmd *cobra.Command) {
		usage := cmd.UsageString()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(usage, " --"+f.Name+" "); !f.Hidden && n < 1 {
				t.Errorf("%s: --%s is not described:\n%s", cmd.CommandPath(), f.Name, usage)
			}
		})
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if cmd.HasParent() && strings.Contains(usage, f.Usage) {
				t.Errorf("%s describes --%s, which every command has", cmd.CommandPath(), f.Name)
			}
		})
		if strings.Contains(usage, "Global Flags") {
			t.Errorf("%s has the flags of every command", cmd.CommandPath())
		}
	})
	for path, titles := range map[string][]string{
		"serve": {"Flags:", "Addresses and TLS:", "Lifetimes:", "Limits:"}, "client create": {"Client:", "Authentication:", "Access tokens:"},
	} {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, title := range titles {
			if usage := cmd.UsageString(); !strings.Contains(usage, "\n\n"+title+"\n") {
				t.Errorf("the help of %s has no group %q:\n%s", path, title, usage)
			}
		}
	}
}

func TestEverySettingHasAGroup(t *testing.T) {
	for _, k := range config.Keys() {
		if k.Group == "" {
			t.Errorf("--%s is in no group: give it the tag group", k.Flag)
		}
	}
}
