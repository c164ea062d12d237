package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func newUser(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Create and manage the built-in users",
		Long: `Create and manage the built-in users, for a deployment without a login system
of its own. The commands work on the store itself, also while the server runs,
and are in force at once.`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newUserCreate(s), newUserList(s), newUserShow(s), newUserDisable(s), newUserEnable(s), newUserPassword(s), newUserTOTP(s))
	return cmd
}

// userView is a user as it is listed: nothing in it is secret.
type userView struct {
	Username      string       `json:"username"`
	Name          string       `json:"name"`
	Subject       string       `json:"subject"`
	State         string       `json:"state"`
	SecondFactor  bool         `json:"second_factor"`
	SessionsEnded *time.Time   `json:"sessions_ended_at"`
	CreatedAt     *time.Time   `json:"created_at"`
	UpdatedAt     *time.Time   `json:"updated_at"`
	Events        []show.Event `json:"events,omitempty"`
}

func viewUser(u account.User) userView {
	return userView{
		Username: u.Username, Name: u.Name, Subject: u.Subject, State: string(u.State), SecondFactor: u.TOTP != nil,
		SessionsEnded: show.JSONInstant(u.SessionsEnd), CreatedAt: show.JSONInstant(u.CreatedAt), UpdatedAt: show.JSONInstant(u.UpdatedAt),
	}
}

// invalidUser names the flag that is wrong.
func invalidUser(err error) error {
	var invalid *account.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	switch invalid.Field {
	case "username":
		return deployment.Usage(fmt.Errorf("the username is not possible: %s", invalid.Message))
	case "password":
		return &oauth.Invalid{Field: "password-stdin", Message: invalid.Message}
	}
	return &oauth.Invalid{Field: invalid.Field, Message: invalid.Message}
}

func newUserCreate(s *settings) *cobra.Command {
	var r account.Registration
	var p aPassword
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create NAME [--name \"FULL NAME\"] [--subject S] [--password-stdin]",
		Short: "Create a user and print the password",
		Long: `Create a user and print the password, which is generated and shown once, unless
one is given on standard input. Stored is a hash of it only.

The subject is what tokens call the user, and never changes; it is the username
unless another one is given. No two users can have the same.`,
		Example: `  mintage user create alice --name "Alice Cooper"
  printf %s "$PASSWORD" | mintage user create bob --subject u-1002 --password-stdin`,
		Args: exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			password, generated, err := p.get(cmd)
			if err != nil {
				return err
			}
			r.Realm, r.Username, r.Password = deployment.Realm, args[0], password
			u, err := account.NewUser(r, o.now)
			if err != nil {
				return invalidUser(err)
			}
			err = account.Create(cmd.Context(), o.store, u, o.userEvent(store.EventUserCreated, u, ""))
			if errors.Is(err, account.ErrTaken) {
				return deployment.Hint(fmt.Errorf("there is a user %q already", u.Username), "see: mintage user show "+u.Username)
			}
			if err != nil {
				return invalidUser(err)
			}
			if !generated {
				password = ""
			}
			return printPassword(cmd, asJSON, u, password)
		},
	}
	cmd.Flags().StringVar(&r.Name, "name", "", "what people call the user, shown on pages")
	cmd.Flags().StringVar(&r.Subject, "subject", "", "what tokens call the user; default: the username")
	p.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newUserList(s *settings) *cobra.Command {
	var asJSON bool
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--match TEXT] [--state S]",
		Short: "List users",
		Long:  `List users by username, with their subject, state, and whether they have a second factor.`,
		Example: `  mintage user list --match cooper
  mintage user list --state disabled --json
  mintage user list --after alice`,
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
			list, err := account.List(cmd.Context(), o.store, deployment.Realm)
			if err != nil {
				return err
			}
			list, err = nextPage(&l, cmd.ErrOrStderr(), list, func(u account.User) string { return u.Username }, func(u account.User) bool {
				return l.matches(u.Username, u.Name, u.Subject) && (l.state == "" || l.state == string(u.State))
			})
			if err != nil {
				return err
			}
			views, rows := []userView{}, [][]string{}
			for _, u := range list {
				views = append(views, viewUser(u))
				rows = append(rows, []string{u.Username, show.OrDash(u.Name), u.Subject, string(u.State), secondFactor(u), show.Instant(u.CreatedAt)})
			}
			noteEmpty(cmd, len(rows), "no user is found")
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), views)
			}
			return show.Table(cmd.OutOrStdout(), "USERNAME|NAME|SUBJECT|STATE|SECOND FACTOR|CREATED", rows)
		},
	}
	l.register(cmd, "username, name or subject", "username", string(account.Enabled), string(account.Disabled))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func secondFactor(u account.User) string {
	if u.TOTP != nil {
		return "totp"
	}
	return "none"
}

func newUserShow(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one user and what is recorded of the subject",
		Long: `Show one user and what is recorded of the subject: what was changed, by whom,
and what was ended. What the user has granted is shown by: mintage grant list.`,
		Args: exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			u, err := o.user(cmd, args[0])
			if err != nil {
				return err
			}
			v := viewUser(u)
			if v.Events, err = o.events(cmd.Context(), store.AboutSubject(u.Subject)); err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), v)
			}
			err = show.Fields(cmd.OutOrStdout(), [][2]string{
				{"username", u.Username}, {"name", u.Name}, {"subject", u.Subject}, {"state", string(u.State)}, {"second factor", secondFactor(u)},
				{"sessions ended", show.Instant(u.SessionsEnd)}, {"created", show.Instant(u.CreatedAt)}, {"updated", show.Instant(u.UpdatedAt)},
			})
			return errors.Join(err, printEvents(cmd.OutOrStdout(), v.Events))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newUserDisable(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "disable NAME",
		Short: "Lock a user out and end everything that the user has granted",
		Long: `Lock a user out and end everything that the user has granted: sessions, grants,
and codes that were not redeemed yet. It can be done again, to end what was
granted since in another way.`,
		Args: exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, u, err := s.openUser(cmd, args[0])
			if err != nil {
				return err
			}
			defer o.store.Close()
			cut := u.Cutoff(o.cutoffAt())
			if err := o.putUser(cmd, u.Disable(o.now), []store.Cutoff{cut}, store.EventUserDisabled, "grants ended"); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "user %s is disabled; everything that subject %q authorized until %s is refused\n", u.Username, u.Subject, show.Instant(cut.At))
			return nil
		},
	}
}

func newUserEnable(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "enable NAME",
		Short: "Let a disabled user log in again",
		Long:  "Let a disabled user log in again. Sessions and grants that were ended stay so: the user logs in, and agrees, anew.",
		Args:  exactly(1, "one username"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, u, err := s.openUser(cmd, args[0])
			if err != nil {
				return err
			}
			defer o.store.Close()
			if u.State != account.Enabled {
				if err := o.putUser(cmd, u.Enable(o.now), nil, store.EventUserEnabled, ""); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "user %s is enabled\n", u.Username)
			return nil
		},
	}
}

// openUser opens the store and reads a user from it. Close its store.
func (s *settings) openUser(cmd *cobra.Command, username string) (*office, account.User, error) {
	o, err := s.openOffice(cmd.Context())
	if err != nil {
		return nil, account.User{}, err
	}
	u, err := o.user(cmd, username)
	if err != nil {
		o.store.Close()
	}
	return o, u, err
}
