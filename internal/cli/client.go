package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func newClient(s *settings) *cobra.Command {
	return parent("client", "Register and manage client systems", `Register and manage client systems. The commands call the server, or open the
store if no server runs. A change applies within two seconds.`,
		newClientCreate(s), newClientList(s), newClientShow(s), newClientUpdate(s),
		newClientState(s, "disable", store.ClientDisabled, "Refuse a client until it is enabled again", "Its grants continue when it is enabled."),
		newClientState(s, "enable", store.ClientEnabled, "Let a disabled client authenticate again", "Its grants continue."),
		newClientDelete(s), newClientUsage(s), newClientWatch(s), newSecret(s))
}

func newClientCreate(s *settings) *cobra.Command {
	var id string
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
	registerSettings(cmd.Flags(), nil)
	cmd.Flags().BoolVar(&public, "public", false, "register a client without a secret, such as a program on a user's device; it needs PKCE")
	cmd.Flags().StringVar(&id, "id", "", "the client's id; default: a generated one")
	cmd.Flags().BoolVar(&fromStdin, "secret-stdin", false, "read an existing secret from standard input")
	group(cmd.Flags(), "Authentication", "public", "secret-stdin")
	group(cmd.Flags(), "Client", "id")
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		in := adminapi.Client{Registration: client.Registration{ID: id, Settings: store.Settings{Auth: store.AuthEither}}, State: store.ClientEnabled}
		if err := applySettings(cmd, nil, &in.Registration); err != nil {
			return nil, nil, err
		}
		if public {
			if cmd.Flags().Changed("auth-method") && in.Auth != store.AuthNone {
				return nil, nil, &oauth.Invalid{Field: "public", Message: "a public client does not authenticate: leave out --auth-method"}
			}
			in.Auth = store.AuthNone
		}
		if fromStdin && in.Auth == store.AuthNone {
			return nil, nil, &oauth.Invalid{Field: "secret-stdin", Message: "a public client has no secret"}
		}
		if fromStdin {
			line, err := readLine(cmd, "secret")
			if err == nil {
				err = checkText("secret-stdin", line)
			}
			if err != nil {
				return nil, nil, err
			}
			in.Secret = oauth.Secret(line)
		}
		var made adminapi.NewClient
		err := a.Post(cmd.Context(), in, &made, "clients")
		if err == nil {
			warnOfConsent(cmd, made.Client)
		}
		return struct {
			ClientID string `json:"client_id"`
			Secret   string `json:"client_secret,omitempty"`
		}{made.ClientID, made.Secret}, secretFields(cmd, made.Secret, "keep the secret now", [][2]string{{"client_id", made.ClientID}, {"client_secret", made.Secret}}), err
	})
}

// warnOfConsent warns that --first-party has no effect on redirect URIs that
// every program of the user's device can use.
func warnOfConsent(cmd *cobra.Command, c adminapi.Client) {
	for _, uri := range c.RedirectURIs {
		if c.Native && c.FirstParty && !strings.HasPrefix(uri, "https:") {
			fmt.Fprintf(cmd.ErrOrStderr(), "mintage: warning: users are asked for consent although the client is --first-party: any program on their device\n"+
				"         can use %s (RFC 8252 section 8.6); an https redirect URI avoids it\n", uri)
			return
		}
	}
}

// readLine reads one line from standard input. Messages call the line what.
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
	l.register(cmd, "id or name", "client id", adminapi.ClientStates)
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		filter := url.Values{"self_registered": {strconv.FormatBool(own)}, "deleted": {strconv.FormatBool(all)}}
		list, err := readList[adminapi.Client](cmd, a, "clients", l, filter)
		if own {
			return listed(cmd, list, err, "no client is found that registered itself", "ID|NAME IT GIVES ITSELF|STATE|BY|REDIRECT HOSTS|FIRST AGREEMENT|LAST AGREEMENT", clientRow)
		}
		value, forPeople, err := listed(cmd, list, err, "no client is found", "ID|NAME|STATE|AUTH|SCOPE|SECRETS|LAST USED", clientRow)
		if err == nil {
			var others []adminapi.Client
			if others, _, err = adminclient.List[adminapi.Client](cmd.Context(), a, "clients", adminapi.Page{Limit: 1}, given("self_registered", "true")); len(others) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "mintage: clients that registered themselves are listed by: mintage client list --self-registered")
			}
		}
		return value, forPeople, err
	})
}

// clientRow returns the row of a client in a list. The columns differ for clients that
// registered themselves.
func clientRow(c adminapi.Client) []string {
	if own := c.SelfRegistered; own != nil {
		return []string{c.ID, fmt.Sprintf("%q", c.Name), string(c.State), string(own.By),
			strings.Join(own.RedirectHosts, " "), when(own.FirstAgreedAt), when(own.LastAgreedAt)}
	}
	var used *time.Time
	for _, s := range c.Secrets {
		if used == nil || s.LastUsedAt != nil && s.LastUsedAt.After(*used) {
			used = s.LastUsedAt
		}
	}
	return []string{c.ID, c.Name, string(c.State), string(c.Auth), string(c.Scope), fmt.Sprint(len(c.Secrets)), when(used)}
}

func newClientShow(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "show ID",
		Short: "Show one client",
		Long: `Show the registration of a client, the ids of its secrets, and its last events.
Of a client that registered itself, show what is recorded since a user agreed.
Values that are not shown, such as a retry window, are the server's.`,
		Args: exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var c adminapi.Client
		_, err := a.Get(cmd.Context(), &c, nil, "clients", args[0])
		if err != nil {
			return nil, nil, err
		}
		c.Events, err = eventsAbout(cmd.Context(), a, "client_id", c.ID)
		return c, fields(clientFields(c), func(w io.Writer) error {
			if len(c.Secrets) == 0 {
				return nil
			}
			fmt.Fprintln(w)
			return secrets(c.Secrets)(w)
		}, events(c.Events)), err
	})
}

// clientFields returns names and values of a client.
func clientFields(c adminapi.Client) [][2]string {
	if own := c.SelfRegistered; own != nil {
		by := map[store.Registrar]string{store.ByDocument: "itself, by the document at its id", store.ByRequest: "itself, by dynamic registration (RFC 7591)"}
		list := [][2]string{
			{"id", c.ID}, {"state", string(c.State)}, {"registered by", by[own.By]}, {"name it gives itself", fmt.Sprintf("%q", c.Name)},
			{"redirect hosts", strings.Join(own.RedirectHosts, " ")}, {"redirect uris", strings.Join(c.RedirectURIs, " ")},
			{"auth method", string(c.Auth)}, {"jwks uri", c.Assertion.KeysURI}, {"first agreement", instant(own.FirstAgreedAt)},
		}
		if own.LastAgreedAt == nil {
			return append(list, [2]string{string(c.State) + " since", instant(c.UpdatedAt)})
		}
		return append(list, [2]string{"last agreement", instant(own.LastAgreedAt)}, [2]string{"kept until", instant(own.KeptUntil)})
	}
	list := [][2]string{{"id", c.ID}}
	for i, s := range client.Settings {
		if _, isList := s.Value(&c.Registration).([]string); s.Name != "" && (isList || !s.Left(&c.Registration)) {
			list = append(list, [2]string{s.Name, c.Text(s)})
		}
		if i == 0 {
			list = append(list, [2]string{"state", string(c.State)})
		}
	}
	return append(list, [2]string{"created", instant(c.CreatedAt)}, [2]string{"updated", instant(c.UpdatedAt)})
}

func newClientUpdate(s *settings) *cobra.Command {
	var lists listFlags
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
			if err := requireFlag(cmd, nil); err != nil {
				return err
			}
			if given := cmd.Flags().Changed; given("pkce") && given("no-pkce") {
				return deployment.Usage(errors.New("--pkce and --no-pkce contradict each other"))
			}
			return nil
		},
	}
	registerSettings(cmd.Flags(), &lists)
	cmd.Flags().BoolVar(&pkce, "pkce", false, "require PKCE, at the authorization endpoint and from login portals")
	group(cmd.Flags(), "Authentication", "pkce")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		old, c, err := adminclient.Update(cmd.Context(), a, func(c *adminapi.Client) error {
			if c.SelfRegistered != nil {
				return nil // the server rejects the change, with the reason
			}
			if cmd.Flags().Changed("pkce") {
				c.NoPKCE = store.Waiver(!pkce)
			}
			return applySettings(cmd, &lists, &c.Registration)
		}, func() error { return lists.confirm(cmd) }, "clients", args[0])
		if err != nil {
			return "", err
		}
		changes := c.Changes(old)
		if changes != "" {
			warnOfConsent(cmd, c)
		}
		return updated("client "+c.ID, changes), nil
	})
}

func newClientState(s *settings, verb string, state store.ClientState, short, more string) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   verb + " ID",
		Short: short,
		Long:  short + ". " + more,
		Args:  exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return fmt.Sprintf("client %s is %s", args[0], state), a.Post(cmd.Context(), nil, nil, "clients", args[0], verb)
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
	requireYes(cmd)
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return fmt.Sprintf("client %s is deleted", args[0]), a.Delete(cmd.Context(), nil, "clients", args[0])
	})
}
