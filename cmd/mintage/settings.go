package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/config"
)

// settings collects what the command line says about the configuration.
type settings struct {
	file  string
	flags []*pflag.Flag
}

// register adds flags for the named keys, or for all that have none yet.
func (s *settings) register(set *pflag.FlagSet, names ...string) {
	for _, k := range config.Keys() {
		if len(names) > 0 && !slices.Contains(names, k.Flag) || slices.ContainsFunc(s.flags, func(f *pflag.Flag) bool { return f.Name == k.Flag }) {
			continue
		}
		f := set.VarPF(&textFlag{text: k.Default, isBool: k.IsBool}, k.Flag, "", k.Doc)
		f.DefValue = k.Default
		if k.IsBool {
			f.NoOptDefVal = "true"
		}
		s.flags = append(s.flags, f)
	}
}

// load reads the configuration. It is not checked.
func (s *settings) load() (config.Config, error) {
	given := map[string]string{}
	for _, f := range s.flags {
		if f.Changed {
			given[f.Name] = f.Value.String()
		}
	}
	cfg, err := config.Load(s.file, os.Environ(), given)
	if err != nil {
		return cfg, &usageError{err}
	}
	return cfg, nil
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

// newLogger writes to w as the configuration says.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	// Check has accepted the text.
	_ = level.UnmarshalText([]byte(c.Level))
	opt := &slog.HandlerOptions{Level: level}
	if c.Format == "text" || c.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opt))
	}
	return slog.New(slog.NewJSONHandler(w, opt))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// exactly is cobra.ExactArgs with an error that says what is expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return &usageError{hint(fmt.Errorf("expected %s, got %d arguments", what, len(args)), "see: "+cmd.CommandPath()+" --help")}
		}
		return nil
	}
}
