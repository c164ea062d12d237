package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// visit calls f for cmd and all of Mintage's commands below it.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			visit(sub, f)
		}
	}
}

func TestHelpOfEveryCommandTeaches(t *testing.T) {
	commands := 0
	visit(Root("test"), func(cmd *cobra.Command) {
		commands++
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("the short description %q must be a phrase without a period", cmd.Short)
			}
			if !strings.HasSuffix(strings.TrimSpace(cmd.Long), ".") && cmd.HasParent() {
				t.Errorf("the explanation %q must be sentences", cmd.Long)
			}
			if len(cmd.Long) <= len(cmd.Short)+1 {
				t.Errorf("the explanation %q says no more than the short description", cmd.Long)
			}
			for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
				if len(line) > 130 {
					t.Errorf("a terminal breaks this line of %d characters: %s", len(line), line)
				}
			}
			// For a command line with several arguments, an example is worth more than
			// their description.
			if strings.Count(cmd.Use, " ") >= 2 && cmd.Example == "" {
				t.Errorf("%q needs an example", cmd.Use)
			}
			for line := range strings.SplitSeq(cmd.Example, "\n") {
				if line != "" && !strings.HasPrefix(line, "  ") {
					t.Errorf("the example line %q must be indented by two spaces", line)
				}
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Usage == "" {
					t.Errorf("--%s has no description", f.Name)
				}
			})
		})
	})
	// Guard against a broken visit that finds only the first commands.
	if commands < 18 {
		t.Fatalf("only %d commands were looked at", commands)
	}
}

func TestACommandLineMakesItsCommandAlone(t *testing.T) {
	texts := func(root *cobra.Command) map[string]string {
		all := map[string]string{}
		visit(root, func(cmd *cobra.Command) { all[cmd.CommandPath()] = cmd.Long + cmd.UsageString() })
		return all
	}
	whole := Root("test")
	all := texts(whole)
	for _, cmd := range whole.Commands() {
		root := rootFor("test", []string{cmd.Name(), "list"})
		if made := root.Commands(); len(made) != 1 || made[0].Name() != cmd.Name() {
			t.Fatalf("%s: %d commands are made", cmd.Name(), len(made))
		}
		for path, text := range texts(root) {
			if path != "mintage" && text != all[path] {
				t.Errorf("%s differs where it is made alone:\n%s", path, text)
			}
		}
	}
	for _, line := range []string{"", "--verbose version", "help client", "__complete client", "clients list"} {
		if made := rootFor("test", strings.Fields(line)).Commands(); len(made) != len(subcommands) {
			t.Errorf("%q makes %d commands", line, len(made))
		}
	}
}

// Every example names an existing command, with flags that this command has.
func TestExamplesAreCommandLinesOfThisProgram(t *testing.T) {
	examples := 0
	visit(Root("test"), func(cmd *cobra.Command) {
		text := strings.ReplaceAll(cmd.Example, "\\\n", " ")
		for line := range strings.SplitSeq(text, "\n") {
			// In a pipeline, an earlier command may contain the service's name.
			if i := strings.LastIndex(line, "| mintage "); i >= 0 {
				line = line[i:]
			}
			_, args, found := strings.Cut(line, "mintage ")
			if !found || strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			examples++
			fields := strings.Fields(strings.TrimSuffix(args, ")"))
			target, rest, err := Root("test").Find(fields)
			if err != nil || target.HasSubCommands() {
				t.Errorf("%s: %q names no command", cmd.CommandPath(), line)
				continue
			}
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && target.Flag(name) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", cmd.CommandPath(), line, target.CommandPath(), name)
				}
			}
		}
	})
	if examples < 8 {
		t.Fatalf("only %d examples were looked at", examples)
	}
}

func TestErrorsAreShownWithTheirHint(t *testing.T) {
	var b bytes.Buffer
	root := Root("test")
	root.SetArgs([]string{"client", "show"})
	err := root.Execute()
	if err == nil {
		t.Fatal("a missing argument was accepted")
	}
	printError(&b, err)
	const want = "mintage: expected one client id, got 0 arguments\n         see: mintage client show --help\n"
	if b.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", b.String(), want)
	}
	if got := exitStatus(err); got != 2 {
		t.Errorf("exit status %d, want 2", got)
	}
}
