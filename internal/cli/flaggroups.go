package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file puts the flags of a command into groups, in its help and in the
// page about all commands.

// groupAnnotation marks a flag with the title of its group.
const groupAnnotation = "group"

// group puts flags of a command under a title.
func group(set *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		if f := set.Lookup(name); f != nil {
			set.SetAnnotation(f.Name, groupAnnotation, []string{title})
		}
	}
}

// A FlagGroup is a titled group of flags; the first has no title.
type FlagGroup struct {
	Title string
	Set   *pflag.FlagSet
}

// FlagGroups are the flags of a set by group: first those without one, then the
// groups in the order of their titles.
func FlagGroups(set *pflag.FlagSet) (groups []FlagGroup) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := strings.Join(f.Annotations[groupAnnotation], "")
		i := slices.IndexFunc(groups, func(g FlagGroup) bool { return g.Title == title })
		if i < 0 {
			i = len(groups)
			groups = append(groups, FlagGroup{title, pflag.NewFlagSet(title, pflag.ContinueOnError)})
		}
		groups[i].Set.AddFlag(f)
	})
	slices.SortFunc(groups, func(a, b FlagGroup) int { return strings.Compare(a.Title, b.Title) })
	return groups
}

// flagUsages is what the help of a command says of its flags. Those that every
// command has are described once, in the help of the program.
func flagUsages(cmd *cobra.Command) string {
	var b strings.Builder
	for _, g := range FlagGroups(cmd.LocalFlags()) {
		title := g.Title
		if title == "" {
			title = "Flags"
		}
		b.WriteString("\n\n" + title + ":\n" + strings.TrimRight(g.Set.FlagUsages(), "\n"))
	}
	var names []string
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	if len(names) > 0 {
		b.WriteString("\n\nFlags of every command, see " + cmd.Root().Name() + " --help:\n  " + strings.Join(names, " "))
	}
	return b.String()
}

// groupFlags has the help of every command below root show its flags in groups.
func groupFlags(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	text := root.UsageTemplate()
	begin, end := strings.Index(text, "{{if .HasAvailableLocalFlags}}"), strings.Index(text, "{{if .HasHelpSubCommands}}")
	if begin < 0 || end < begin {
		panic("the usage template of cobra has changed")
	}
	root.SetUsageTemplate(text[:begin] + "{{flagUsages .}}" + text[end:])
}
