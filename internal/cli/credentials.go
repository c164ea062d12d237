package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// aPassword is where a command takes a password from: standard input, never an
// argument, which every process of the machine could read.
type aPassword struct {
	stdin bool
}

func (p *aPassword) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from standard input, one line, instead of generating one")
}

func (p *aPassword) get(cmd *cobra.Command) (text string, generated bool, err error) {
	if !p.stdin {
		return account.GeneratePassword(), true, nil
	}
	text, err = readLine(cmd, "password")
	return text, false, err
}

// printPassword shows a password that was generated, and no other.
func printPassword(cmd *cobra.Command, asJSON bool, u account.User, password string) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), struct {
			Username string `json:"username"`
			Subject  string `json:"subject"`
			Password string `json:"password,omitempty"`
		}{u.Username, u.Subject, password})
	}
	if password != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "mintage: keep the password now: it is not shown again")
	}
	return show.Fields(cmd.OutOrStdout(), [][2]string{{"username", u.Username}, {"subject", u.Subject}, {"password", password}})
}

func newUserPassword(s *settings) *cobra.Command {
	var p aPassword
	var endGrants, asJSON bool
	cmd := &cobra.Command{
		Use:   "password NAME [--password-stdin] [--end-grants]",
		Short: "Give a user another password and end the user's sessions",
		Long: `Give a user another password and end the user's sessions. The password is
generated and shown once, unless one is given on standard input.

What the user has granted to client systems goes on, unless --end-grants says
otherwise: do so if somebody else may have known the old password.`,
		Example: `  mintage user password alice
  printf %s "$PASSWORD" | mintage user password alice --password-stdin --end-grants`,
		Args: exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, u, err := s.openUser(cmd, args[0])
			if err != nil {
				return err
			}
			defer o.store.Close()
			password, generated, err := p.get(cmd)
			if err != nil {
				return err
			}
			// Typing has taken a while.
			o.now = grant.At(time.Now())
			u, err = u.SetPassword(password, o.now)
			if err != nil {
				return invalidUser(err)
			}
			var cutoffs []store.Cutoff
			detail := "sessions ended"
			if endGrants {
				cutoffs, detail = []store.Cutoff{u.Cutoff(o.cutoffAt())}, "sessions and grants ended"
			}
			if err := o.putUser(cmd, u, cutoffs, store.EventPasswordChanged, detail); err != nil {
				return err
			}
			if !generated {
				password = ""
			}
			return printPassword(cmd, asJSON, u, password)
		},
	}
	p.register(cmd)
	cmd.Flags().BoolVar(&endGrants, "end-grants", false, "also end everything that the user has granted until now")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newUserTOTP(s *settings) *cobra.Command {
	var remove, asJSON bool
	cmd := &cobra.Command{
		Use:   "totp NAME [--remove]",
		Short: "Give a user a second factor, or take it away",
		Long: `Give a user a second factor, or take it away: six digits that an authenticator
app shows, besides the password, at every login from now on. The secret is made
and shown once, as text to type and as an address that the app reads from a
picture; stored it is sealed. One that the user had before is replaced. A new
one ends the user's sessions, which have not shown it.`,
		Example: `  mintage user totp alice
  mintage user totp alice --remove

  # as a picture in the terminal
  mintage user totp alice --json | jq -r .uri | qrencode -t ansiutf8`,
		Args: exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, u, err := s.openUser(cmd, args[0])
			if err != nil {
				return err
			}
			defer o.store.Close()
			if remove {
				if u.TOTP != nil {
					if err := o.putUser(cmd, u.RemoveTOTP(o.now), nil, store.EventTOTPRemoved, ""); err != nil {
						return err
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "user %s has no second factor\n", u.Username)
				return nil
			}
			ring, err := o.ring(cmd.Context())
			if err != nil {
				return err
			}
			u, secret := u.SetTOTP(ring, o.now)
			if err := o.putUser(cmd, u, nil, store.EventTOTPSet, ""); err != nil {
				return err
			}
			text, uri := account.TOTPText(secret), u.TOTPURI(o.serviceName(), secret)
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), struct {
					Username string `json:"username"`
					Secret   string `json:"secret"`
					URI      string `json:"uri"`
				}{u.Username, text, uri})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "mintage: give the secret to the user now: it is not shown again")
			return show.Fields(cmd.OutOrStdout(), [][2]string{{"username", u.Username}, {"secret", text}, {"uri", uri}})
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the second factor away")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
