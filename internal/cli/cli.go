// Package cli is the command line of Mintage. A command reads flags, calls and
// prints; the rules are in the packages that it calls.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/node"
	"github.com/mintage/mintage/internal/oauth"
)

// Main executes the command line of the process, and exits. Version is shown by
// --version.
func Main(version string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootFor(version, os.Args[1:]).ExecuteContext(ctx); err != nil {
		printError(os.Stderr, err)
		os.Exit(exitStatus(err))
	}
}

// exitStatus is 2 for a wrong command line or value, and 1 for any other error,
// unless the error has a status of its own.
func exitStatus(err error) int {
	var own interface{ ExitStatus() int }
	if errors.As(err, &own) {
		return own.ExitStatus()
	}
	if errors.As(err, new(*deployment.UsageError)) || errors.As(err, new(*oauth.Invalid)) {
		return 2
	}
	return 1
}

// A subcommand is a command below mintage. If ofRealm is set, it has the flag --realm.
type subcommand struct {
	name    string
	make    func(*settings) *cobra.Command
	ofRealm bool
}

var subcommands = []subcommand{
	{"serve", newServe, false}, {"config", newConfig, false}, {"realm", newRealm, true}, {"api", newAPI, true},
	{"admin", newAdmin, false}, {"operator", newOperator, false}, {"console", newConsole, false}, {"client", newClient, true},
	{"trust", newTrust, true}, {"user", newUser, true}, {"grant", newGrant, true}, {"session", newSession, true},
	{"code", newCode, true}, {"keys", newKeys, false}, {"kek", newKEK, false}, {"migrate-store", newMigrateStore, false},
	{"backup", newBackup, false}, {"restore", newRestore, false}, {"explain", newExplain, true}, {"doctor", newDoctor, false},
	{"traffic", newTraffic, false}, {"audit", newAudit, false}, {"bench", newBench, false}, {"version", newVersion, false},
}

// Root returns the command mintage with all its subcommands.
func Root(version string) *cobra.Command {
	return rootFor(version, nil)
}

// rootFor returns the command mintage for a command line. If args begin with the name of a
// subcommand, it makes only that one: making all of them takes a sixth of a start.
func rootFor(version string, args []string) *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:   "mintage",
		Short: "OAuth 2.0 token service",
		Long: `Mintage issues OAuth 2.0 tokens: a client system exchanges an authorization
code for an access token (5 minutes) and a refresh token (31 days), and later
a refresh token for a new pair.

Try it without preparation:

  mintage serve --dev

Then, in another terminal:

  mintage client list --data mintage-data`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          onlySubcommands,
	}
	s.stderr = root.ErrOrStderr
	root.SetVersionTemplate("mintage {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && errors.As(err, new(*strconv.NumError)) {
			what := "a whole number"
			if wrong.GetFlag().Value.Type() == "bool" {
				what = "true or false"
			}
			err = fmt.Errorf("--%s: %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), what)
		}
		return deployment.Usage(deployment.Hint(err, "see: "+cmd.CommandPath()+" --help"))
	})
	s.register(root.PersistentFlags(), "data", "store", "store-password-file", "kek-file", "admin-listen", "admin-token-file", "audit-directory")
	root.PersistentFlags().StringVar(&s.file, "config", "", "configuration file (YAML), which environment variables MINTAGE_* and flags override; default: $MINTAGE_CONFIG, or else /etc/mintage/mintage.yaml unless a data directory or a store is named")
	root.PersistentFlags().BoolVar(&s.verbose, "verbose", false, "say which admin API a command calls: that of a server, or its own if no server runs")
	made := subcommands
	if len(args) > 0 {
		if i := slices.IndexFunc(made, func(c subcommand) bool { return c.name == args[0] }); i >= 0 {
			made = made[i : i+1]
		}
	}
	for _, sub := range made {
		cmd := sub.make(s)
		if sub.ofRealm {
			s.ofRealm(cmd)
		}
		root.AddCommand(cmd)
	}
	walk(root, func(cmd *cobra.Command) {
		if cmd.Args == nil {
			cmd.Args = exactly(0, "no argument")
		}
	})
	s.complete(root)
	groupFlags(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if cmd, rest, _ := root.Find(args); len(rest) > 0 {
				return onlySubcommands(cmd, rest)
			}
			return nil
		}
		root.RemoveCommand(help) // which cobra adds when it runs
	}
	return root
}

func newVersion(*settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Print the version, the commit and the version of Go, as --version does.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "mintage "+cmd.Root().Version)
			return err
		},
	}
}

func newServe(s *settings) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server. It requires public_url, tls.cert and tls.key, and creates the data
directory. With --dev it requires nothing: it creates a certificate authority, a
certificate and a demo client in the data directory, and prints commands to paste.

Give settings in the --config file (tls.cert), in the environment
(MINTAGE_TLS_CERT) or as flags (--tls-cert); a flag overrides the environment, and
the environment overrides the file. SIGHUP reloads the configuration.`,
		Example: `  mintage serve --dev
  mintage serve --config /etc/mintage/mintage.yaml --new-store   # the first start
  mintage serve --config /etc/mintage/mintage.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.ignorePackagedFile = dev
			return node.Serve(cmd.Context(), node.Source{Read: s.read, Dev: dev, Version: cmd.Root().Version})
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "try it out on this machine, without preparation")
	s.register(cmd.Flags())
	return cmd
}
