package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func newClient(s *settings) *cobra.Command {
	return parent("client", "Register and manage client systems", `Register and manage client systems. The commands work on the store itself,
while the server runs or not. A change applies within two seconds.`,
		newClientCreate(s), newClientList(s), newClientShow(s), newClientUpdate(s),
		newClientState(s, "disable", store.ClientDisabled, "Refuse a client until it is enabled again", "Its grants continue when it is enabled."),
		newClientState(s, "enable", store.ClientEnabled, "Let a disabled client authenticate again", "Its grants continue."),
		newClientDelete(s), newSecret(s))
}

func newClientCreate(s *settings) *cobra.Command {
	f := registrationFlags{Registration: client.Registration{Settings: store.Settings{Auth: store.AuthEither}}}
	var public, fromStdin bool
	cmd := &cobra.Command{
		Use:   "create --name NAME --redirect-uri URI --scope \"A B\"",
		Short: "Register a client and print its id and secret",
		Long: `Register a client and print its id and secret. The secret is shown once; only a
keyed digest is stored.`,
		Example: `  mintage client create --name "Billing" --redirect-uri https://billing.example/callback --scope "read write"

  # a web application in development, on any port of this machine
  mintage client create --name "Shop" --native --redirect-uri http://localhost/callback --scope read

  # a resource server, which may introspect access tokens
  mintage client create --name "Invoices API" --introspect

  # a client that receives JWT access tokens for that API
  mintage client create --name "Shop" --redirect-uri https://shop.example/callback --scope "invoices.read" \
    --access-token-format jwt --audience https://invoices.example

  # a service that signs its own assertions, so that no secret is shared
  mintage client create --name "Orders" --grant-types client_credentials --scope "orders.read" \
    --auth-method private_key_jwt --jwks public-keys.json

  # existing credentials of another server
  printf %s "$OLD_SECRET" | mintage client create --id billing --secret-stdin --name "Billing" \
    --redirect-uri https://billing.example/callback --scope read`,
	}
	f.register(cmd.Flags(), false)
	cmd.Flags().BoolVar(&public, "public", false, "register a client without a secret, such as a program on a user's device; it needs PKCE")
	cmd.Flags().StringVar(&f.ID, "id", "", "the client's id; default: a generated one")
	cmd.Flags().BoolVar(&fromStdin, "secret-stdin", false, "read an existing secret from standard input")
	group(cmd.Flags(), "Authentication", "public", "secret-stdin")
	group(cmd.Flags(), "Client", "id")
	return s.prints(cmd, func(cmd *cobra.Command, a *session, _ []string) (any, text, error) {
		if err := f.readFiles(cmd.Flags()); err != nil {
			return nil, nil, err
		}
		r := f.Registration
		if public {
			if cmd.Flags().Changed("auth-method") && r.Auth != store.AuthNone {
				return nil, nil, &oauth.Invalid{Field: "public", Message: "a public client does not authenticate: leave out --auth-method"}
			}
			r.Auth = store.AuthNone
		}
		var err error
		for _, s := range client.Settings {
			if d, isDuration := s.Field(&r).(**store.Milliseconds); isDuration && cmd.Flags().Changed(s.Flag) {
				if *d, err = parseDuration(s.Flag, *f.durations[s.Flag]); err != nil {
					return nil, nil, err
				}
			}
		}
		if fromStdin && r.Auth == store.AuthNone {
			return nil, nil, &oauth.Invalid{Field: "secret-stdin", Message: "a public client has no secret"}
		}
		if fromStdin {
			line, err := readLine(cmd, "secret")
			if err != nil {
				return nil, nil, err
			}
			r.Secret = oauth.Secret(line)
		}
		c, secret, err := a.CreateClient(cmd.Context(), r, store.ClientEnabled)
		if err == nil {
			warnOfConsent(cmd, c)
		}
		return struct {
			ClientID string `json:"client_id"`
			Secret   string `json:"client_secret,omitempty"`
		}{c.ID, string(secret)}, secretFields(cmd, string(secret), "keep the secret now", [][2]string{{"client_id", c.ID}, {"client_secret", string(secret)}}), err
	})
}

// warnOfConsent warns that --first-party has no effect on redirect URIs that
// every program of the user's device can use.
func warnOfConsent(cmd *cobra.Command, c store.Client) {
	for _, uri := range c.RedirectURIs {
		if c.Native && c.FirstParty && !strings.HasPrefix(uri, "https:") {
			fmt.Fprintf(cmd.ErrOrStderr(), "mintage: warning: users are asked for consent although the client is --first-party: any program on their device\n"+
				"         can use %s (RFC 8252 section 8.6); an https redirect URI avoids it\n", uri)
			return
		}
	}
}

// readLine reads one line from standard input. What names it in messages.
func readLine(cmd *cobra.Command, what string) (string, error) {
	if deployment.IsTerminal(os.Stdin) {
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: type the %s and press enter (it will be visible)\n", what)
	}
	line, err := bufio.NewReaderSize(cmd.InOrStdin(), 4096).ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("no %s on standard input", what)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the %s from standard input: %w", what, err)
	}
	return line, nil
}

func newClientList(s *settings) *cobra.Command {
	var all, own bool
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--match TEXT] [--state S] [--self-registered]",
		Short: "List clients",
		Long: `List clients with their scopes, the number of secrets and the last use of one
(written at most once a minute). Deleted clients need --all or --state deleted.

With --self-registered, list the clients that registered themselves instead, to
which a user has agreed: by a document (their id is its address) or by request
(RFC 7591). Their name is what they call themselves; nobody has checked it.`,
		Example: `  mintage client list --match billing
  mintage client list --state disabled --json
  mintage client list --self-registered --match agent.example
  mintage client list --after Zx81kQ`,
	}
	cmd.Flags().BoolVar(&all, "all", false, "include deleted clients")
	cmd.Flags().BoolVar(&own, "self-registered", false, "list the clients that registered themselves")
	l.register(cmd, "id or name", "client id", admin.ClientStates)
	return s.prints(cmd, func(cmd *cobra.Command, a *session, _ []string) (any, text, error) {
		if own {
			return listSelfRegistered(cmd, a, &l, all)
		}
		list, more, err := a.Clients(cmd.Context(), l.Page, all)
		views, rows := []admin.ClientView{}, [][]string{}
		for _, c := range list {
			views = append(views, admin.ViewClient(c, a.now))
			var used grant.Instant
			for _, sec := range c.Secrets {
				used = max(used, sec.LastUsedAt)
			}
			rows = append(rows, []string{c.ID, c.Name, string(c.State), string(c.Auth), string(c.Scope),
				fmt.Sprint(len(c.Secrets)), show.OrDash(show.Instant(used))})
		}
		if more {
			l.noteMore(cmd.ErrOrStderr(), list[len(list)-1].ID)
		}
		noteEmpty(cmd, rows, err, "no client is found")
		if err == nil {
			var others []store.Client
			if others, _, err = a.SelfRegisteredClients(cmd.Context(), adminapi.Page{Limit: 1}, false); len(others) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "mintage: clients that registered themselves are listed by: mintage client list --self-registered")
			}
		}
		return views, table("ID|NAME|STATE|AUTH|SCOPE|SECRETS|LAST USED", rows), err
	})
}

func listSelfRegistered(cmd *cobra.Command, a *session, l *listing, all bool) (any, text, error) {
	list, more, err := a.SelfRegisteredClients(cmd.Context(), l.Page, all)
	views, rows := []admin.ClientView{}, [][]string{}
	for _, c := range list {
		views = append(views, admin.ViewClient(c, a.now))
		last := ""
		if !c.Decides() {
			last = show.Instant(c.UpdatedAt)
		}
		rows = append(rows, []string{c.ID, fmt.Sprintf("%q", c.Name), string(c.State), string(c.RegisteredBy),
			strings.Join(admin.RedirectHosts(c), " "), show.OrDash(show.Instant(c.CreatedAt)), show.OrDash(last)})
	}
	if more {
		l.noteMore(cmd.ErrOrStderr(), list[len(list)-1].ID)
	}
	noteEmpty(cmd, rows, err, "no client is found that registered itself")
	return views, table("ID|NAME IT GIVES ITSELF|STATE|BY|REDIRECT HOSTS|FIRST AGREEMENT|LAST AGREEMENT", rows), err
}

func newClientShow(s *settings) *cobra.Command {
	return s.prints(&cobra.Command{
		Use:   "show ID",
		Short: "Show one client",
		Long: `Show the registration of a client, the ids of its secrets, and its last events.
Of a client that registered itself, show what is recorded since a user agreed.
Values that are not shown, such as a retry window, are the server's.`,
		Args: exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *session, args []string) (any, text, error) {
		c, err := a.Client(cmd.Context(), args[0])
		if err != nil {
			return nil, nil, err
		}
		v := admin.ViewClient(c, a.now)
		v.Events, err = a.Events(cmd.Context(), c.ID)
		return v, fields(v.Fields(), func(w io.Writer) error {
			if len(v.Secrets) == 0 {
				return nil
			}
			fmt.Fprintln(w)
			return secrets(v.Secrets)(w)
		}, events(v.Events)), err
	})
}

func newClientUpdate(s *settings) *cobra.Command {
	var f registrationFlags
	var pkce bool
	cmd := &cobra.Command{
		Use:   "update ID [--add-redirect-uri URI] [--add-scope \"A B\"]",
		Short: "Change a client's settings",
		Long: `Change settings of a client; the others stay. For secrets, see "mintage client
secret".

Lists grow by --add-NAME and shrink by --remove-NAME. A plain --NAME sets all of a
list: if that would remove something, the command says what, and does it only with
--replace or after a yes at the terminal.

A smaller scope also narrows tokens of existing grants. Codes that were issued
for a removed redirect URI can still be redeemed.`,
		Example: `  mintage client update billing --add-redirect-uri https://billing2.example/callback --add-scope write
  mintage client update billing --remove-redirect-uri https://billing.example/old/callback
  mintage client update billing --redirect-uri https://billing.example/new/callback --replace`,
		Args: exactly(1, "one client id"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := asksForAChange(cmd, nil); err != nil {
				return err
			}
			if given := cmd.Flags().Changed; given("pkce") && given("no-pkce") {
				return deployment.Usage(errors.New("--pkce and --no-pkce contradict each other"))
			}
			return nil
		},
	}
	f.register(cmd.Flags(), true)
	cmd.Flags().BoolVar(&pkce, "pkce", false, "require PKCE, at the authorization endpoint and from login portals")
	group(cmd.Flags(), "Authentication", "pkce")
	return s.does(cmd, func(cmd *cobra.Command, a *session, args []string) (string, error) {
		c, changes, err := a.UpdateClient(cmd.Context(), args[0], "", func(r *client.Registration) error {
			if err := f.apply(cmd, r); err != nil {
				return err
			}
			if cmd.Flags().Changed("pkce") {
				r.NoPKCE = store.Waiver(!pkce)
			}
			return nil
		}, func() error { return f.lists.confirm(cmd) })
		if err == nil && changes == "" {
			return fmt.Sprintf("client %s is like that already", c.ID), nil
		}
		if err == nil {
			warnOfConsent(cmd, c)
		}
		return fmt.Sprintf("client %s is changed: %s", c.ID, changes), err
	})
}

func newClientState(s *settings, verb string, state store.ClientState, short, more string) *cobra.Command {
	return s.does(&cobra.Command{
		Use:   verb + " ID",
		Short: short,
		Long:  short + ". " + more,
		Args:  exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *session, args []string) (string, error) {
		c, err := a.SetClientState(cmd.Context(), args[0], "", state)
		return fmt.Sprintf("client %s is %s", c.ID, state), err
	})
}

func newClientDelete(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID --yes",
		Short: "Delete a client and end its grants, for good",
		Long: `Delete a client and end its grants, for good. The id cannot be used again. To
stop a client for a while, disable it instead.`,
		Example: `  mintage client disable billing
  mintage client delete billing --yes`,
		Args: exactly(1, "one client id"),
	}
	deletesForGood(cmd)
	return s.does(cmd, func(cmd *cobra.Command, a *session, args []string) (string, error) {
		c, err := a.DeleteClient(cmd.Context(), args[0], "")
		return fmt.Sprintf("client %s is deleted", c.ID), err
	})
}
