package main

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
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List clients",
		Long: `List clients by name, with the scopes that they may be granted, how many
secrets they have, and when one was last used (written at most once a minute).
Deleted clients are shown with --all.`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			views, rows := []clientView{}, [][]string{}
			for _, c := range ch.Clients {
				if c.State == store.ClientDeleted && !all {
					continue
				}
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
	return cmd
}
