package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// settings reads the configuration, with the flags of the command line.
type settings struct {
	file       string
	apart      bool // this command does not use the packaged file
	flags      []*pflag.Flag
	everywhere []string // flags that every command has
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
		f := set.VarPF(&textFlag{text: k.Default, isBool: k.IsBool}, k.Flag, "", k.Doc)
		f.DefValue = k.Default
		if k.IsBool {
			f.NoOptDefVal = "true"
		}
		if len(names) == 0 {
			group(set, k.Group, k.Flag)
		}
		s.flags = append(s.flags, f)
	}
}

// load reads the configuration. It does not check it.
func (s *settings) load() (config.Config, error) {
	cfg, _, err := s.read()
	return cfg, deployment.Unreadable(err)
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
	if s.file == "" {
		s.file = s.findFile(given)
	}
	cfg, from, err := config.Load(s.file, os.Environ(), given)
	if s.file == packagedFile && errors.Is(err, fs.ErrPermission) {
		err = deployment.Hint(err, "run this as the server's user (sudo -u mintage), or name another deployment with --config, --data or --store")
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
	if _, err := os.Stat(packagedFile); s.apart || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return packagedFile
}

// A textFlag holds the text of a flag, which package config parses.
type textFlag struct {
	text   string
	isBool bool
}

func (f *textFlag) String() string     { return f.text }
func (f *textFlag) Set(s string) error { f.text = s; return nil }
func (f *textFlag) Type() string {
	if f.isBool {
		return "bool"
	}
	return "string"
}

// deletesForGood gives a command the flag --yes, without which it deletes nothing.
func deletesForGood(cmd *cobra.Command) {
	yes := cmd.Flags().Bool("yes", false, "really do it")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !*yes {
			return deployment.Usage(deployment.Hint(errors.New("nothing was deleted: this cannot be undone"), "add --yes to do it"))
		}
		return nil
	}
}

// exactly is cobra.ExactArgs with an error that names the expected arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return deployment.Usage(deployment.Hint(fmt.Errorf("expected %s, got %d arguments", what, len(args)), "see: "+cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
