package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
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

// secretView is a secret as it is listed: never its text.
type secretView struct {
	ID         string     `json:"id"`
	Stored     string     `json:"stored"`
	CreatedAt  *time.Time `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	State      string     `json:"state"`
	// Revocation is "safe", or why it is not.
	Revocation string `json:"revocation"`
}

func viewSecrets(c store.Client, now grant.Instant) []secretView {
	list := []secretView{}
	for _, s := range c.Secrets {
		v := secretView{ID: s.ID, Stored: "keyed sha-256", CreatedAt: show.JSONInstant(s.CreatedAt),
			ExpiresAt: show.JSONInstant(s.ExpiresAt), LastUsedAt: show.JSONInstant(s.LastUsedAt), State: "active", Revocation: "safe"}
		if s.Slow != "" {
			v.Stored = "argon2id (imported, not used yet)"
		}
		if s.Expired(now) {
			v.State = "expired"
		}
		if why := issuer.SecretVerdict(c, s, now); why != "" {
			v.Revocation = why
		}
		list = append(list, v)
	}
	return list
}

func printSecrets(w io.Writer, list []secretView) error {
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
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			c, err := o.client(cmd, args[0])
			if err != nil {
				return err
			}
			var end grant.Instant
			if expires != "" {
				d, err := config.ParseDuration(expires)
				if err != nil {
					return &oauth.Invalid{Field: "expires-in", Message: err.Error()}
				}
				if d <= 0 {
					return &oauth.Invalid{Field: "expires-in", Message: "must be longer than " + d.String()}
				}
				end = o.now.Add(d.Std())
			}
			ring, err := o.ring(cmd.Context())
			if err != nil {
				return err
			}
			c, added, text, err := issuer.AddSecret(c, ring, o.now, end)
			var invalid *oauth.Invalid
			if errors.As(err, &invalid) {
				// It is about the client's state, not about a flag.
				return deployment.Hint(fmt.Errorf("client %q gets no secret: %s", c.ID, invalid.Message), "see: mintage client show "+c.ID)
			}
			if err != nil {
				return err
			}
			if err := o.change(cmd, c, nil, store.EventSecretAdded, "secret "+added.ID); err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), struct {
					ClientID string `json:"client_id"`
					SecretID string `json:"secret_id"`
					Secret   string `json:"client_secret"`
				}{c.ID, added.ID, string(text)})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "mintage: keep the secret now: it is not shown again")
			return show.Fields(cmd.OutOrStdout(), [][2]string{{"secret_id", added.ID}, {"client_secret", string(text)}})
		},
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
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			c, err := o.clientInUse(cmd, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), viewSecrets(c, o.now))
			}
			noteEmpty(cmd, len(c.Secrets), "the client has no secret")
			return printSecrets(cmd.OutOrStdout(), viewSecrets(c, o.now))
		},
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
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			c, err := o.clientInUse(cmd, args[0])
			if err != nil {
				return err
			}
			rest := []store.Secret{}
			for _, sec := range c.Secrets {
				if sec.ID != args[1] {
					rest = append(rest, sec)
				} else if why := issuer.SecretVerdict(c, sec, o.now); why != "" && !force {
					return deployment.Hint(fmt.Errorf("secret %s was not revoked: %s", sec.ID, why), "add --force to do it all the same")
				}
			}
			if len(rest) == len(c.Secrets) {
				return deployment.Hint(fmt.Errorf("client %q has no secret %q", c.ID, args[1]), "see: mintage client secret list "+c.ID)
			}
			c.Secrets = rest
			if err := o.change(cmd, c, nil, store.EventSecretRevoked, "secret "+args[1]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "secret %s is revoked\n", args[1])
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if it is in use")
	return cmd
}
