package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
)

// ofCommand lists the values of flags that are not settings.
var ofCommand = map[string]map[string][]string{
	"mintage client list": {"state": {"enabled", "disabled", "deleted"}},
	"mintage user list":   {"state": {"enabled", "disabled"}},
	"mintage keys rotate": {"purpose": {"mac", "seal", "audit", "ES256", "EdDSA", "RS256"}},
	"mintage keys export": {"format": {"jwks", "pem"}},
}

// completionTime limits how long a shell waits for the store.
const completionTime = 2 * time.Second

// complete registers completions of arguments and flag values for shells. A user
// who may not read the store gets none from it.
func (s *settings) complete(root *cobra.Command) {
	walk(root, func(cmd *cobra.Command) {
		switch words := strings.Fields(cmd.Use); {
		case cmd.HasSubCommands() || cmd.Hidden:
		case len(words) > 1 && (words[1] == "CLIENT" || words[1] == "ID" && cmd.Parent().Name() == "client"):
			cmd.ValidArgsFunction = s.clientIDs
		default:
			// Neither known words nor files.
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
