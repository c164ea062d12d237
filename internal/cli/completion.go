package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
)

// ofCommand are the values of flags that take one of a few, for those that are no
// settings.
var ofCommand = map[string]map[string][]string{
	"mintage client list": {"state": {"enabled", "disabled", "deleted"}},
	"mintage user list":   {"state": {"enabled", "disabled"}},
	"mintage keys rotate": {"purpose": {"mac", "seal", "audit", "ES256", "EdDSA", "RS256"}},
	"mintage keys export": {"format": {"jwks", "pem"}},
}

// completionTime bounds how long a shell waits for what is asked of the store.
const completionTime = 2 * time.Second

// complete teaches a shell what the words behind the commands of root may be.
// What a shell asks is a command line like any other: who may not read the
// store is told nothing.
func (s *settings) complete(root *cobra.Command) {
	walk(root, func(cmd *cobra.Command) {
		switch words := strings.Fields(cmd.Use); {
		case cmd.HasSubCommands() || cmd.Hidden:
		case len(words) > 1 && (words[1] == "CLIENT" || words[1] == "ID" && cmd.Parent().Name() == "client"):
			cmd.ValidArgsFunction = s.clientIDs
		default:
			// Nothing that the program knows, and no file.
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		if cmd.LocalNonPersistentFlags().Lookup("client") != nil {
			register(cmd, "client", s.clientIDs)
		}
		for flag, values := range ofCommand[cmd.CommandPath()] {
			register(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
		for _, k := range config.Keys() {
			if f := cmd.LocalFlags().Lookup(k.Flag); k.Choices != nil && f != nil && f.Usage == k.Doc {
				register(cmd, k.Flag, cobra.FixedCompletions(k.Choices, cobra.ShellCompDirectiveNoFileComp))
			}
		}
	})
}

func register(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	// Two of a name is a mistake of this program. A flag that several commands
	// inherit is registered where it is first met.
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

// clientIDs are the clients of the configured store, with their names, for the
// first argument or for a flag.
func (s *settings) clientIDs(cmd *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, nothing
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	a, err := s.open(ctx)
	if err != nil {
		return nil, nothing
	}
	defer a.Close()
	clients, _, err := a.Clients(ctx, admin.Page{Limit: admin.MaxLimit}, false)
	if err != nil {
		return nil, nothing
	}
	for _, c := range clients {
		list = append(list, cobra.CompletionWithDesc(c.ID, c.Name))
	}
	return list, nothing
}
