package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func newClientList(s *settings) *cobra.Command {
	var asJSON, all bool
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--match TEXT] [--state S]",
		Short: "List clients",
		Long: `List clients by name, with the scopes that they may be granted, how many
secrets they have, and when one was last used (written at most once a minute).
Deleted clients are shown with --all, or with --state deleted.`,
		Example: `  mintage client list --match billing
  mintage client list --state disabled --json
  mintage client list --after Zx81kQ`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			ch, err := o.store.Changes(cmd.Context(), 0)
			if err != nil {
				return err
			}
			slices.SortFunc(ch.Clients, func(a, b store.Client) int {
				return strings.Compare(strings.ToLower(a.Name)+a.ID, strings.ToLower(b.Name)+b.ID)
			})
			shown, err := nextPage(&l, cmd.ErrOrStderr(), ch.Clients, func(c store.Client) string { return c.ID }, func(c store.Client) bool {
				return l.matches(c.ID, c.Name) && (l.state == string(c.State) || l.state == "" && (all || c.State != store.ClientDeleted))
			})
			if err != nil {
				return err
			}
			views, rows := []clientView{}, [][]string{}
			for _, c := range shown {
				// With the last use of each secret.
				if c, err = o.store.Client(cmd.Context(), c.ID); err != nil {
					return err
				}
				views = append(views, viewClient(c, o.now))
				var used grant.Instant
				for _, sec := range c.Secrets {
					used = max(used, sec.LastUsedAt)
				}
				rows = append(rows, []string{c.ID, c.Name, string(c.State), string(c.Auth), string(c.Scope),
					fmt.Sprint(len(c.Secrets)), show.OrDash(show.Instant(used))})
			}
			noteEmpty(cmd, len(rows), "no client is found")
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), views)
			}
			return show.Table(cmd.OutOrStdout(), "ID|NAME|STATE|AUTH|SCOPE|SECRETS|LAST USED", rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "deleted clients too")
	l.register(cmd, "id or name", "client id", string(store.ClientEnabled), string(store.ClientDisabled), string(store.ClientDeleted))
	return cmd
}
