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

// settings collects what the command line says about the configuration.
type settings struct {
	file       string
	apart      bool // from the deployment of this machine: the packaged file is not for this command
	flags      []*pflag.Flag
	everywhere []string // names of flags that every command has
}

// register adds flags for the named keys, which every command has, or else for
// all others.
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

// load reads the configuration. It is not checked.
func (s *settings) load() (config.Config, error) {
	cfg, _, err := s.read()
	return cfg, deployment.Unreadable(err)
}

// read reads the configuration, and tells where each setting comes from and all
// that is wrong with their form. It is not checked.
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

// findFile is the configuration file if --config names none: that of the
// environment, or else the packaged one, so that an operator's command finds the
// deployment of the machine. A command that names a data directory or a store is
// about that one, and the packaged file says nothing about it.
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

// A textFlag keeps a flag's text for config to parse.
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

// exactly is cobra.ExactArgs with an error that says what is expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return deployment.Usage(deployment.Hint(fmt.Errorf("expected %s, got %d arguments", what, len(args)), "see: "+cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
