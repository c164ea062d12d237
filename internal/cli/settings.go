package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/show"
)

// settings reads the configuration, with the flags of the command line.
type settings struct {
	file               string
	realm              string           // that the command is about; "": the default one
	verbose            bool             // name the admin API that is called
	named              bool             // the command line names the deployment
	stderr             func() io.Writer // of the command; nil: it prints nothing
	ignorePackagedFile bool             // this command does not use the packaged file
	flags              []*pflag.Flag
	everywhere         []string // flags that every command has
}

// register adds flags for the named settings, which every command has, or without
// names for all others.
func (s *settings) register(set *pflag.FlagSet, names ...string) {
	if len(names) > 0 {
		s.everywhere = names
	}
	for _, k := range config.Keys() {
		if slices.Contains(s.everywhere, k.Flag) != (len(names) > 0) {
			continue
		}
		if k.IsBool {
			set.Bool(k.Flag, k.Default == "true", k.Doc)
		} else {
			set.String(k.Flag, k.Default, k.Doc) // package config parses it
		}
		if len(names) == 0 {
			group(set, k.Group, k.Flag)
		}
		s.flags = append(s.flags, set.Lookup(k.Flag))
	}
}

// load reads the configuration for a command on a deployment. It does not check it.
func (s *settings) load() (config.Config, error) {
	cfg, _, err := s.read()
	if err == nil && s.stderr != nil {
		s.noteAnother(cfg)
	}
	return cfg, deployment.Unreadable(err)
}

// noteAnother prints which deployment a command uses, if the command line names none and
// the server of another deployment runs in this directory.
func (s *settings) noteAnother(cfg config.Config) {
	near := config.Default().Data
	if s.named || !serverRuns(near) {
		return
	}
	there, err := os.Stat(near)
	if here, hereErr := os.Stat(cfg.Data); err != nil || hereErr == nil && os.SameFile(here, there) {
		return
	}
	used := "the data directory " + show.Quote(cfg.Data)
	switch {
	case s.file != "":
		used = show.Quote(s.file)
	case cfg.Store != config.StoreSQLite:
		used = "the store that the environment names"
	}
	fmt.Fprintf(s.stderr(), "mintage: this is the deployment of %s, and not the server that runs in this directory; for that one, add --data %s\n", used, near)
}

// read reads the configuration, with the source of each setting and every fault of
// form. It does not check it.
func (s *settings) read() (config.Config, config.Sources, error) {
	given := map[string]string{}
	for _, f := range s.flags {
		if f.Changed {
			given[f.Name] = f.Value.String()
		}
	}
	_, data := given["data"]
	_, store := given["store"]
	s.named = s.file != "" || data || store
	if s.file == "" {
		s.file = s.findFile(given)
	}
	cfg, from, err := config.Load(s.file, os.Environ(), given)
	if s.file == packagedFile && errors.Is(err, fs.ErrPermission) {
		hint := "run this as the server's user (sudo -u mintage), or name another deployment with --config, --data or --store"
		if near := config.Default().Data; serverRuns(near) {
			hint = "for the server that runs in this directory, add --data " + near + "; for that of the file, run this as its user (sudo -u mintage)"
		}
		err = deployment.Hint(err, hint)
	}
	return cfg, from, err
}

// packagedFile is a variable for tests.
var packagedFile = config.PackagedFile

// findFile returns the configuration file if --config names none: that of
// $MINTAGE_CONFIG, or else the packaged one, unless the command names a data
// directory or a store.
func (s *settings) findFile(given map[string]string) string {
	if file := os.Getenv(config.FileEnv); file != "" {
		return file
	}
	for _, k := range config.Keys() {
		if k.Name != "data" && k.Name != "store" {
			continue
		}
		_, flag := given[k.Flag]
		if flag || os.Getenv(k.Env) != "" || k.EnvFile != "" && os.Getenv(k.EnvFile) != "" {
			return ""
		}
	}
	if _, err := os.Stat(packagedFile); s.ignorePackagedFile || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return packagedFile
}

// requireYes gives a command the flag --yes, without which it deletes nothing.
func requireYes(cmd *cobra.Command) {
	yes := cmd.Flags().Bool("yes", false, "really do it")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !*yes {
			return deployment.Usage(deployment.Hint(errors.New("nothing was deleted: this cannot be undone"), "add --yes to do it"))
		}
		return nil
	}
}

// requireFlag returns an error if the command line has no flag of the command.
func requireFlag(cmd *cobra.Command, _ []string) error {
	asked := false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { asked = asked || f.Changed })
	if !asked {
		return deployment.Usage(deployment.Hint(errors.New("nothing to change"), "see: "+cmd.CommandPath()+" --help"))
	}
	return nil
}

// exactly is cobra.ExactArgs with an error that names the expected arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return deployment.Usage(deployment.Hint(fmt.Errorf("expected %s, got %s", what, show.Count(len(args), "argument", "arguments")), "see: "+cmd.CommandPath()+" --help"))
		}
		return nil
	}
}

// ofCommand lists the values of flags that are not settings, for completion, by command and
// flag.
var ofCommand = map[string]map[string][]string{
	"mintage client list": {"state": {"enabled", "disabled", "deleted"}},
	"mintage user list":   {"state": {"enabled", "disabled"}},
	"mintage keys rotate": {"purpose": {"mac", "seal", "audit", "ES256", "EdDSA", "RS256"}},
	"mintage keys export": {"format": {"jwks", "pem"}},
}

// completionTime limits how long a shell waits for the store.
const completionTime = 2 * time.Second

// ofRealm gives a command, and those below it, the flag --realm.
func (s *settings) ofRealm(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&s.realm, "realm", "", "realm of what the command is about (see: mintage realm list); default: the one whose settings are outside of realms")
}

// settingsOf returns the settings of the realm that the command is about.
func (s *settings) settingsOf(cfg config.Config) (config.Config, error) {
	of, found := cfg.Of(cmp.Or(s.realm, cfg.Realm))
	if !found {
		return of, deployment.Usage(deployment.Hint(fmt.Errorf("--realm: the configuration has no realm %q", s.realm), "see: mintage realm list"))
	}
	return of, nil
}

// realms completes the names of realms.
func (s *settings) realms(*cobra.Command, []string, string) (list []string, _ cobra.ShellCompDirective) {
	quiet := *s
	quiet.stderr = nil
	cfg, err := quiet.load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, r := range cfg.Each() {
		list = append(list, cobra.CompletionWithDesc(r.Realm[1:], r.IssuerID()))
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// complete registers completions of arguments and flag values for shells. A user
// who may not read the store gets none from it.
func (s *settings) complete(root *cobra.Command) {
	// Few settings have choices, and there are many commands.
	keys := slices.DeleteFunc(config.Keys(), func(k config.Key) bool { return k.Choices == nil })
	walk(root, func(cmd *cobra.Command) {
		switch words := strings.Fields(cmd.Use); {
		case cmd.HasSubCommands() || cmd.Hidden:
		case len(words) > 1 && (words[1] == "CLIENT" || words[1] == "ID" && cmd.Parent().Name() == "client"):
			cmd.ValidArgsFunction = s.clientIDs
		default:
			// There is nothing to complete, and file names would be wrong.
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		if cmd.PersistentFlags().Lookup("realm") != nil {
			register(cmd, "realm", s.realms)
		}
		if cmd.Flags().Lookup("client") != nil {
			register(cmd, "client", s.clientIDs)
		}
		for flag, values := range ofCommand[cmd.CommandPath()] {
			register(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
		for _, k := range keys {
			// Without LocalFlags, which copies the flags of all parents.
			if f := cmp.Or(cmd.Flags().Lookup(k.Flag), cmd.PersistentFlags().Lookup(k.Flag)); f != nil && f.Usage == k.Doc {
				register(cmd, k.Flag, cobra.FixedCompletions(k.Choices, cobra.ShellCompDirectiveNoFileComp))
			}
		}
	})
}

func register(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	// Several commands inherit a flag; it is registered once.
	if _, there := cmd.GetFlagCompletionFunc(flag); !there {
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err)
		}
	}
}

// walk calls f for a command and all that are below it.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, f)
	}
}

// clientIDs completes the ids of clients of the configured store, with their names, for the
// first argument or for a flag.
func (s *settings) clientIDs(cmd *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, nothing
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	quiet := *s
	quiet.stderr = nil
	cmd.SetContext(ctx)
	a, err := quiet.connect(cmd)
	if err != nil {
		return nil, nothing
	}
	defer a.Close()
	clients, _, err := adminclient.List[adminapi.Client](ctx, a, "clients", adminapi.Page{Limit: adminapi.MaxLimit}, nil)
	if err != nil {
		return nil, nothing
	}
	for _, c := range clients {
		list = append(list, cobra.CompletionWithDesc(c.ID, c.Name))
	}
	return list, nothing
}

// The help of a command, and the page about all commands, show flags in groups.

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

// flagUsages returns the part about flags of a command's help. The flags that every command
// has are described once, in the help of the program.
func flagUsages(cmd *cobra.Command) string {
	var b strings.Builder
	for _, g := range FlagGroups(cmd.LocalFlags()) {
		b.WriteString("\n\n" + cmp.Or(g.Title, "Flags") + ":\n" + strings.TrimRight(g.Set.FlagUsages(), "\n"))
	}
	var names []string
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	if len(names) > 0 {
		b.WriteString("\n\nFlags of every command, see " + cmd.Root().Name() + " --help:\n  " + strings.Join(names, " "))
	}
	return b.String()
}

// groupFlags makes the help of every command below root show its flags in groups.
func groupFlags(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	text := root.UsageTemplate()
	begin, end := strings.Index(text, "{{if .HasAvailableLocalFlags}}"), strings.Index(text, "{{if .HasHelpSubCommands}}")
	if begin < 0 || end < begin {
		panic("the usage template of cobra has changed")
	}
	root.SetUsageTemplate(text[:begin] + "{{flagUsages .}}" + text[end:])
}
