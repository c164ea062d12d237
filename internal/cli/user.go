package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newUser(s *settings) *cobra.Command {
	return parent("user", "Create and manage the built-in users", `Create and manage the built-in users. The commands call the server, or
open the store if no server runs, and apply at once.`,
		newUserCreate(s), newUserImport(s), newUserList(s), newUserShow(s), newUserUpdate(s), newUserDisable(s), newUserEnable(s), newUserPassword(s), newUserTOTP(s))
}

// claimFlags are claims as they are typed: NAME=VALUE.
type claimFlags struct{ typed []string }

func (c *claimFlags) register(cmd *cobra.Command, doc string) {
	cmd.Flags().StringArrayVar(&c.typed, "claim", nil, doc)
}

func (c *claimFlags) patch() (claims.Claims, error) {
	patch := claims.Claims{}
	for _, typed := range c.typed {
		if err := patch.Assign(typed); err != nil {
			return nil, &oauth.Invalid{Field: "claim", Message: err.Error()}
		}
	}
	return patch, nil
}

// passwordFlag reads a password from standard input: every process of the machine
// can read arguments.
type passwordFlag struct{ stdin bool }

func (p *passwordFlag) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from standard input, one line, instead of generating one")
}

// read reads the password, or returns "", for which the server generates one. Call it
// before the command connects: nobody else can use the store while this process has it open.
func (p *passwordFlag) read(cmd *cobra.Command) (password string, err error) {
	if !p.stdin {
		return "", nil
	}
	if password, err = readLine(cmd, "password"); err == nil {
		err = checkText("password-stdin", password)
	}
	return password, err
}

func newUserCreate(s *settings) *cobra.Command {
	var in adminapi.UserDocument
	var c claimFlags
	var p passwordFlag
	cmd := &cobra.Command{
		Use:   "create NAME [--name \"FULL NAME\"] [--subject S] [--claim NAME=VALUE ...] [--password-stdin]",
		Short: "Create a user and print the password",
		Long: `Create a user and print the generated password once, or read one from standard
input. Only a hash is stored.

The subject, which identifies the user in tokens, never changes. It is the
username unless another one is given.`,
		Example: `  mintage user create alice --name "Alice Cooper" --claim email=alice@example.com --claim email_verified=true
  printf %s "$PASSWORD" | mintage user create bob --subject u-1002 --password-stdin`,
		Args: exactly(1, "one username"),
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			in.Password, err = p.read(cmd)
			return err
		},
	}
	cmd.Flags().StringVar(&in.Name, "name", "", "what people call the user, shown on pages")
	cmd.Flags().StringVar(&in.Subject, "subject", "", "what tokens call the user; default: the username")
	c.register(cmd, "a standard claim of OpenID Connect, such as email=alice@example.com or address.country=JP; can be repeated")
	p.register(cmd)
	return s.printsPassword(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (u adminapi.NewPassword, err error) {
		in.Username = args[0]
		if in.Claims, err = c.patch(); err != nil {
			return u, err
		}
		for name, value := range map[string]string{"name": in.Name, "subject": in.Subject} {
			if err := checkText(name, value); err != nil {
				return u, err
			}
		}
		err = a.Post(cmd.Context(), in, &u, "users")
		return u, err
	})
}

func newUserList(s *settings) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--match TEXT] [--state S]",
		Short: "List users",
		Long:  "List users by username, with subject, state and second factor.",
		Example: `  mintage user list --match cooper
  mintage user list --state disabled --json
  mintage user list --after alice`,
	}
	l.register(cmd, "username, name or subject", "username", adminapi.UserStates)
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, err := readList[adminapi.User](cmd, a, "users", l, nil)
		return listed(cmd, list, err, "no user is found", "USERNAME|NAME|SUBJECT|STATE|SECOND FACTOR|CREATED", func(u adminapi.User) []string {
			return []string{u.Username, show.OrDash(u.Name), u.Subject, u.State, secondFactor(u), instant(u.CreatedAt)}
		})
	})
}

func secondFactor(u adminapi.User) string {
	if u.SecondFactor {
		return "totp"
	}
	return "none"
}

func newUserShow(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "show NAME",
		Short: "Show one user and what is recorded of the subject",
		Long: `Show one user and the events of the subject: what changed, by whom, and what was
ended. "mintage grant list" shows what the user has granted.`,
		Args: exactly(1, "one username"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var u adminapi.User
		_, err := a.Get(cmd.Context(), &u, nil, "users", args[0])
		if err != nil {
			return nil, nil, err
		}
		u.Events, err = eventsAbout(cmd.Context(), a, "subject", u.Subject)
		return u, fields([][2]string{
			{"username", u.Username}, {"name", u.Name}, {"subject", u.Subject}, {"state", u.State}, {"second factor", secondFactor(u)},
			{"claims", claimText(u.Claims)}, {"sessions ended", instant(u.SessionsEnded)}, {"created", instant(u.CreatedAt)}, {"updated", instant(u.UpdatedAt)},
		}, events(u.Events)), err
	})
}

// claimText lists claims in the order of the standard.
func claimText(c claims.Claims) string {
	var list []string
	for _, name := range claims.Names() {
		if value, ok := c[name]; ok {
			list = append(list, name+"="+string(value))
		}
	}
	return strings.Join(list, " ")
}

func newUserUpdate(s *settings) *cobra.Command {
	var c claimFlags
	var name string
	cmd := &cobra.Command{
		Use:   "update NAME [--name \"FULL NAME\"] [--claim NAME=VALUE ...]",
		Short: "Change a user's name and claims",
		Long: `Change what people call a user, and the user's claims: what clients may learn
about the user, if the user agrees. NAME= removes a claim. Claims that are not
named stay as they are; a changed email address or phone number is no longer
verified, unless the same command says that it is.

Clients see the change when they next read userinfo.`,
		Example: `  mintage user update alice --name "Alice Cooper"
  mintage user update alice --claim email=alice@example.com --claim email_verified=true
  mintage user update alice --claim address.country=JP --claim nickname=`,
		Args: exactly(1, "one username"),
	}
	cmd.Flags().StringVar(&name, "name", "", "what people call the user, shown on pages")
	c.register(cmd, "a standard claim of OpenID Connect, such as email=alice@example.com, or email= to remove it; can be repeated")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		patch, err := c.patch()
		if err != nil {
			return "", err
		}
		in := adminapi.UserPatch{Claims: patch}
		if cmd.Flags().Changed("name") {
			if err := checkText("name", name); err != nil {
				return "", err
			}
			if in.Name, err = json.Marshal(name); err != nil {
				return "", err
			}
		}
		if in.Name == nil && len(patch) == 0 {
			return "", deployment.Usage(errors.New("nothing to change: give --name or --claim"))
		}
		var was, u adminapi.User
		if _, err := a.Get(cmd.Context(), &was, nil, "users", args[0]); err != nil {
			return "", err
		}
		err = a.Patch(cmd.Context(), in, &u, "users", args[0])
		if err == nil && reflect.DeepEqual(u.UpdatedAt, was.UpdatedAt) {
			return fmt.Sprintf("user %s is unchanged: it has these values already", u.Username), nil
		}
		return fmt.Sprintf("user %s is updated", u.Username), err
	})
}

func newUserDisable(s *settings) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   "disable NAME",
		Short: "Lock a user out and end everything that the user has granted",
		Long: `Lock a user out and end everything that the user has granted: sessions, grants,
and codes that are not redeemed. Repeat it to end what was granted since. The last admin
of the console is not disabled.`,
		Args: exactly(1, "one username"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		var u adminapi.User
		if err := a.Post(cmd.Context(), nil, &u, "users", args[0], "disable"); err != nil {
			return "", err
		}
		done := fmt.Sprintf("user %s is disabled; everything that subject %q authorized until ", u.Username, u.Subject)
		cuts, _, err := adminclient.List[adminapi.Cutoff](cmd.Context(), a, "cutoffs", adminapi.Page{Limit: adminapi.MaxLimit}, given("subject", u.Subject))
		i := slices.IndexFunc(cuts, func(c adminapi.Cutoff) bool { return c.ClientID == "" })
		if err != nil || i < 0 {
			return done + "now is refused", nil // the user is disabled: an error would be misleading
		}
		return done + instant(cuts[i].At) + " is refused", nil
	})
}

func newUserEnable(s *settings) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   "enable NAME",
		Short: "Let a disabled user log in again",
		Long:  "Let a disabled user log in again. Ended sessions and grants stay ended.",
		Args:  exactly(1, "one username"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		var u adminapi.User
		err := a.Post(cmd.Context(), nil, &u, "users", args[0], "enable")
		return fmt.Sprintf("user %s is enabled", u.Username), err
	})
}

// printsPassword is shows for a command that gives a user a password. It shows a
// generated password, and no other.
func (s *settings) printsPassword(cmd *cobra.Command, run func(cmd *cobra.Command, a *adminclient.Client, args []string) (adminapi.NewPassword, error)) *cobra.Command {
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		answer, err := run(cmd, a, args)
		u, password := answer.User, answer.Password
		return struct {
			Username string `json:"username"`
			Subject  string `json:"subject"`
			Password string `json:"password,omitempty"`
		}{u.Username, u.Subject, password}, secretFields(cmd, password, "keep the password now", [][2]string{{"username", u.Username}, {"subject", u.Subject}, {"password", password}}), err
	})
}

func newUserPassword(s *settings) *cobra.Command {
	var p passwordFlag
	var in adminapi.PasswordRequest
	cmd := &cobra.Command{
		Use:   "password NAME [--password-stdin] [--end-grants]",
		Short: "Change a user's password and end the user's sessions",
		Long: `Change a user's password and end the user's sessions. The password is generated
and shown once, or read from standard input.

Grants continue, unless --end-grants is given: use it if somebody else may have
known the old password.`,
		Example: `  mintage user password alice
  printf %s "$PASSWORD" | mintage user password alice --password-stdin --end-grants`,
		Args: exactly(1, "one username"),
		PreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if p.stdin { // check that the user exists before a password is typed
				err = s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) error {
					_, err := a.Get(cmd.Context(), nil, nil, "users", args[0])
					return err
				})(cmd, args)
			}
			if err == nil {
				in.Password, err = p.read(cmd)
			}
			return err
		},
	}
	p.register(cmd)
	cmd.Flags().BoolVar(&in.EndGrants, "end-grants", false, "also end everything that the user has granted until now")
	return s.printsPassword(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (u adminapi.NewPassword, err error) {
		err = a.Post(cmd.Context(), in, &u, "users", args[0], "password")
		return u, err
	})
}

func newUserTOTP(s *settings) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "totp NAME [--remove]",
		Short: "Give a user a second factor, or remove it",
		Long: `Give a user a second factor (TOTP, RFC 6238), or remove it. From then on, every
login also requires the six digits of an authenticator app. The new secret is
shown once, as text and as otpauth: URI; it replaces an earlier one, and ends the
user's sessions. It is stored encrypted.`,
		Example: `  mintage user totp alice
  mintage user totp alice --remove

  # as a picture in the terminal
  mintage user totp alice --json | jq -r .uri | qrencode -t ansiutf8`,
		Args: exactly(1, "one username"),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the second factor away")
	type view struct {
		Username string `json:"username"`
		Secret   string `json:"secret,omitempty"`
		URI      string `json:"uri,omitempty"`
	}
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		if remove {
			username := account.Fold(args[0])
			return view{Username: username}, line("user %s has no second factor", username), a.Delete(cmd.Context(), nil, "users", args[0], "totp")
		}
		var answer adminapi.NewSecondFactor
		err := a.Post(cmd.Context(), nil, &answer, "users", args[0], "totp")
		v := view{answer.User.Username, answer.Secret, answer.URI}
		return v, secretFields(cmd, v.Secret, "give the secret to the user now", [][2]string{{"username", v.Username}, {"secret", v.Secret}, {"uri", v.URI}}), err
	})
}
