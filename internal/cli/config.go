package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/node"
)

func newConfig(s *settings) *cobra.Command {
	check, show := newConfigCheck(s), newConfigShow(s)
	s.register(check.Flags())
	s.register(show.Flags())
	return parent("config", "Check and show the configuration", `Check and show the configuration that the server would use: from the file named by
--config, the environment (MINTAGE_*), flags, and systemd credentials.`, check, show, newConfigSchema())
}

func newConfigCheck(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check whether the server can start with the configuration",
		Long: `Check every setting, and read every file that a setting names. All faults are
reported, with their lines in the file; the exit status is then 2.

A running server applies the configuration after SIGHUP, and logs which changes
need a restart.`,
		Example: `  mintage config check --config /etc/mintage/mintage.yaml
  mintage config check --config /etc/mintage/mintage.yaml && systemctl reload mintage`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, from, err := s.read()
			if _, all := config.Faults(err); !all {
				return deployment.Unreadable(err)
			}
			if err := everyFault(cfg, from, err); err != nil {
				return err
			}
			for _, d := range cfg.Departures() {
				fmt.Fprintln(cmd.ErrOrStderr(), "mintage: departure from the specification:", d)
			}
			var warnings []string
			for _, c := range cfg.Each() {
				for _, text := range append(node.CertificateDoubts(c), c.PortWarning()) {
					if text != "" && !slices.Contains(warnings, text) {
						warnings = append(warnings, text)
					}
				}
			}
			for _, w := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "mintage: warning:", w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the configuration is valid; %d settings are given\n", len(from)-len(cfg.Realms))
			return nil
		},
	}
}

// everyFault checks the settings that could be read, and adds the faults of those
// that could not.
func everyFault(cfg config.Config, from config.Sources, unread error) error {
	told, _ := config.Faults(unread)
	seen := map[string]bool{}
	for _, f := range told {
		seen[f.Name] = f.Name != ""
	}
	found, _ := config.Faults(from.Explain(errors.Join(cfg.Check(), errors.Join(node.CheckFiles(cfg)...))))
	for _, f := range found {
		if !seen[f.Name] { // otherwise its value is not the one that was given
			told = append(told, f)
		}
	}
	return node.Faulty(told)
}

func newConfigShow(s *settings) *cobra.Command {
	var changed, running bool
	cmd := &cobra.Command{
		Use:   "show [--changed]",
		Short: "Show every setting and its source",
		Long: `Show every setting and its source: the line of the file, the variable, the flag, the
systemd credential, or the default. Passwords are left out. The output is a
configuration file.`,
		Example: `  mintage config show --config /etc/mintage/mintage.yaml --changed`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running {
				return s.runningSettings(cmd, changed)
			}
			cfg, from, err := s.read()
			if err != nil {
				return deployment.Unreadable(err)
			}
			return config.Show(cmd.OutOrStdout(), cfg, from, changed)
		},
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "leave out settings with their default")
	cmd.Flags().BoolVar(&running, "running", false, "show the settings of the running server, as a table, and what a reload or a restart would change; from any machine")
	return cmd
}

// runningSettings prints the settings of the server that runs.
func (s *settings) runningSettings(cmd *cobra.Command, changed bool) error {
	return s.calls(func(cmd *cobra.Command, a *adminclient.Client, _ []string) error {
		var v adminapi.Settings
		if _, err := a.Get(cmd.Context(), &v, nil, "settings"); err != nil {
			return err
		}
		changes := map[string]string{}
		for _, name := range v.OnReload {
			changes[name] = "a reload changes it"
		}
		for _, name := range v.OnRestart {
			changes[name] = "a restart changes it"
		}
		var rows [][]string
		for _, x := range v.Settings {
			if x.Given || changes[x.Name] != "" || !changed {
				rows = append(rows, []string{x.Name, x.Value, x.Source, changes[x.Name]})
			}
			delete(changes, x.Name)
		}
		// The remaining names are not in v.Settings: they are realms, and settings that a realm
		// does not set yet.
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			rows = append(rows, []string{name, "", "", changes[name]})
		}
		for _, fault := range v.Faults {
			fmt.Fprintln(cmd.ErrOrStderr(), "mintage: warning: the configuration cannot be used as it is now:", fault)
		}
		return table("SETTING|VALUE|SOURCE|", rows)(cmd.OutOrStdout())
	})(cmd, nil)
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of the configuration file, for completion and
checks in an editor. The YAML language server finds it if the first line of the
file is "# yaml-language-server: $schema=" followed by the path of the schema.`,
		Example: `  mintage config schema >mintage.schema.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
