package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newSecret(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Add, list and revoke a client's secrets",
		Long: `Add, list and revoke a client's secrets. A client may have several, so that
one is replaced without an outage: add a new one, give it to the client, watch
the last use of the old one, and revoke that when it is safe.`,
		Example: `  mintage client secret add billing
  mintage client secret list billing
  mintage client secret revoke billing 3fQ8xYb1Tz0K`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newSecretAdd(s), newSecretList(s), newSecretRevoke(s))
	return cmd
}

func printSecrets(w io.Writer, list []admin.SecretView) error {
	text := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(time.RFC3339)
	}
	var rows [][]string
	for _, v := range list {
		rows = append(rows, []string{v.ID, v.State, text(v.CreatedAt), text(v.ExpiresAt), text(v.LastUsedAt), v.Revocation})
	}
	return show.Table(w, "SECRET|STATE|CREATED|EXPIRES|LAST USED|REVOKING IT", rows)
}

func newSecretAdd(s *settings) *cobra.Command {
	var expires string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add CLIENT",
		Short: "Give a client another secret and print it",
		Long:  "Give a client another secret and print it, once. The ones it has stay valid.",
		Args:  exactly(1, "one client id"),
		RunE: s.with(func(cmd *cobra.Command, a *session, args []string) error {
			var d config.Duration
			if expires != "" {
				var err error
				if d, err = config.ParseDuration(expires); err != nil {
					return &oauth.Invalid{Field: "expires-in", Message: err.Error()}
				}
				if d <= 0 {
					return &oauth.Invalid{Field: "expires-in", Message: "must be longer than " + d.String()}
				}
			}
			id, text, err := a.AddSecret(cmd.Context(), args[0], d.Std())
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), struct {
					ClientID string `json:"client_id"`
					SecretID string `json:"secret_id"`
					Secret   string `json:"client_secret"`
				}{args[0], id, string(text)})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "mintage: keep the secret now: it is not shown again")
			return show.Fields(cmd.OutOrStdout(), [][2]string{{"secret_id", id}, {"client_secret", string(text)}})
		}),
	}
	cmd.Flags().StringVar(&expires, "expires-in", "", "how long it is valid, such as 90d; default: until it is revoked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSecretList(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list CLIENT",
		Short: "List a client's secrets, their last use, and which may go",
		Long: `List a client's secrets by id, with their last use and whether revoking one is
safe: it is not the only one, and was not used within a day, also not since the
servers last wrote to the store.`,
		Args: exactly(1, "one client id"),
		RunE: s.with(func(cmd *cobra.Command, a *session, args []string) error {
			c, err := a.ClientInUse(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			views := admin.ViewSecrets(c, grant.At(time.Now()))
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), views)
			}
			noteEmpty(cmd, len(views), "the client has no secret")
			return printSecrets(cmd.OutOrStdout(), views)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSecretRevoke(s *settings) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "revoke CLIENT SECRET-ID",
		Short: "Refuse one of a client's secrets from now on",
		Long: `Refuse one of a client's secrets from now on. One that was used within a day,
or is the only one, is revoked with --force only. The running servers are asked for
uses that they have not written yet.`,
		Example: `  mintage client secret list billing
  mintage client secret revoke billing 3fQ8xYb1Tz0K`,
		Args: exactly(2, "a client id and a secret id"),
		RunE: s.with(func(cmd *cobra.Command, a *session, args []string) error {
			err := a.RevokeSecret(cmd.Context(), args[0], args[1], force)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "secret %s is revoked\n", args[1])
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if it is in use")
	return cmd
}
