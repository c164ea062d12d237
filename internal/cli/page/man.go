package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/config"
)

// writeMan writes a manual page of section 1 for each command, and
// mintage.yaml(5) about the settings, into a directory. Their date is
// $SOURCE_DATE_EPOCH.
func writeMan(root *cobra.Command, dir string) error {
	date := ""
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w: set it to a number of seconds, such as: git log -1 --format=%%ct", err)
		}
		date = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	pages := map[string][]byte{"mintage.yaml.5": settingsPage(root.Version, date)}
	walk(root, func(c *cobra.Command) {
		if !c.Hidden && c.Name() != "help" && !under(c, "completion") {
			pages[pageName(c)+".1"] = commandPage(c, date)
		}
	})
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// walk calls f for a command and all below it.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, f)
	}
}

// under reports whether a command is below one of that name.
func under(c *cobra.Command, name string) bool {
	return c.HasParent() && (c.Parent().Name() == name || under(c.Parent(), name))
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// A page is a manual page in the macros man(7).
type page struct{ bytes.Buffer }

// macro writes a request with its arguments.
func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, a := range args {
		p.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

// text writes prose: an empty line ends a paragraph, and an indented line stays
// as it is.
func (p *page) text(s string) {
	literal, first := false, true
	for line := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case strings.TrimSpace(line) == "":
			if !literal && !first {
				p.macro("PP")
			} else if literal {
				p.WriteString("\n")
			}
			continue
		case indented && !literal:
			p.WriteString(".RS 2\n.nf\n")
			literal = true
		case !indented && literal:
			p.WriteString(".fi\n.RE\n")
			literal = false
		}
		p.WriteString(plain(strings.TrimPrefix(line, "  ")) + "\n")
		first = false
	}
	if literal {
		p.WriteString(".fi\n.RE\n")
	}
}

// escape makes roff print a text as it is. A hyphen, for example, stays an ASCII hyphen
// when a reader copies a command line.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}

// plain escapes a line so that it does not begin with a control character of roff.
func plain(line string) string {
	line = escape(line)
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}

func (p *page) title(name, section, version, date string) {
	fmt.Fprintf(p, ".TH %s %s %q %q %q\n", strings.ToUpper(name), section, date, "mintage "+version, "Mintage")
}

// metavariables stand for the value of a flag, by its type.
var metavariables = map[string]string{"int": "N", "stringSlice": "VALUE,...", "duration": "DURATION"}

func (p *page) options(title string, set *pflag.FlagSet, skip func(*pflag.Flag) bool) {
	any := false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || skip(f) {
			return
		}
		if !any {
			p.macro("SH", title)
			any = true
		}
		p.WriteString(".TP\n")
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(p, "\\fB%s\\fR", escape(name))
		if f.Value.Type() != "bool" {
			fmt.Fprintf(p, " \\fI%s\\fR", cmp.Or(metavariables[f.Value.Type()], "VALUE"))
		}
		p.WriteByte('\n')
		p.WriteString(plain(f.Usage))
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
			p.WriteString(escape(" (default: " + d + ")"))
		}
		p.WriteByte('\n')
	})
}

func commandPage(c *cobra.Command, date string) []byte {
	p := &page{}
	p.title(pageName(c), "1", c.Root().Version, date)
	p.macro("SH", "NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escape(pageName(c)), escape(c.Short))
	p.macro("SH", "SYNOPSIS")
	c.InheritedFlags() // adds them to the command, as running it does: UseLine mentions them
	synopsis := c.UseLine()
	if c.HasAvailableSubCommands() {
		synopsis = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(p, "\\fB%s\\fR\n", escape(synopsis))
	p.macro("SH", "DESCRIPTION")
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	p.text(about)
	if c.HasAvailableSubCommands() {
		p.macro("SH", "COMMANDS")
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n%s\n", escape(sub.Name()), plain(sub.Short))
			}
		}
	}
	c.InitDefaultHelpFlag()
	own := map[string]bool{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { own[f.Name] = true })
	never := func(*pflag.Flag) bool { return false }
	p.options("OPTIONS", c.LocalFlags(), never)
	p.options("OPTIONS OF EVERY COMMAND", c.InheritedFlags(), func(f *pflag.Flag) bool { return own[f.Name] })
	if c.Example != "" {
		p.macro("SH", "EXAMPLES")
		p.text("  " + strings.TrimPrefix(c.Example, "  "))
	}
	p.macro("SH", "EXIT STATUS")
	p.text("0: it was done. 1: it could not be done. 2: the command line or the configuration is wrong.")
	p.macro("SH", "SEE ALSO")
	see := []string{`\fBmintage.yaml\fR(5)`}
	if c.HasParent() {
		see = append(see, fmt.Sprintf(`\fB%s\fR(1)`, escape(pageName(c.Parent()))))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			see = append(see, fmt.Sprintf(`\fB%s\fR(1)`, escape(pageName(sub))))
		}
	}
	p.WriteString(strings.Join(see, ",\n") + "\n")
	return p.Bytes()
}

func settingsPage(version, date string) []byte {
	p := &page{}
	p.title("mintage.yaml", "5", version, date)
	p.macro("SH", "NAME")
	p.WriteString("mintage.yaml \\- settings of the OAuth 2.0 token service mintage\n")
	p.macro("SH", "DESCRIPTION")
	p.text(`A YAML file, named with --config. Each setting can also be given in the environment or as a flag of
mintage serve. A flag overrides the environment, and the environment overrides the file. A dot in a name is
a level of the file. Unknown settings are errors. A list is written [a, b] in the file, and a,b elsewhere.`)
	p.macro("SH", "SETTINGS")
	for _, k := range config.Keys() {
		fmt.Fprintf(p, ".TP\n\\fB%s\\fR (%s, \\fB%s\\fR)\n%s", escape(k.Name), escape(k.Env), escape("--"+k.Flag), plain(k.Doc))
		if k.Default != "" {
			p.WriteString(escape(" (default: " + k.Default + ")"))
		}
		p.WriteByte('\n')
	}
	p.macro("SH", "FILES")
	p.WriteString(".TP\n\\fI/etc/mintage/mintage.yaml\\fR\nwhere the packages have it.\n")
	p.macro("SH", "EXAMPLES")
	p.text(`  public_url: https://auth.example.com
  listen: 0.0.0.0:8443
  data: /var/lib/mintage
  tls:
    cert: /etc/mintage/tls.crt
    key: /etc/mintage/tls.key`)
	p.macro("SH", "SEE ALSO")
	p.WriteString("\\fBmintage\\fR(1),\n\\fBmintage\\-serve\\fR(1)\n")
	return p.Bytes()
}
