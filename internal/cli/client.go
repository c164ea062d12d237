package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func newClient(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Register and manage client systems",
		Long: `Register and manage client systems. The commands work on the store itself,
also while the server runs, which is told or notices within two seconds.`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newClientCreate(s), newClientList(s), newClientShow(s), newClientUpdate(s),
		newClientState(s, "disable", store.ClientDisabled, "Refuse a client until it is enabled again", "Its grants stay, and go on when it is enabled."),
		newClientState(s, "enable", store.ClientEnabled, "Let a disabled client authenticate again", ""),
		newClientDelete(s), newSecret(s))
	return cmd
}

func newClientCreate(s *settings) *cobra.Command {
	var (
		r         issuer.Registration
		auth      string
		public    bool
		fromStdin bool
		window    string
		asJSON    bool
	)
	cmd := &cobra.Command{
		Use:   "create --name NAME --redirect-uri URI --scope \"A B\"",
		Short: "Register a client and print its id and secret",
		Long: `Register a client and print its id and secret. The secret is shown once: only
a keyed digest of it is stored.`,
		Example: `  mintage client create --name "Billing" --redirect-uri https://billing.example/callback --scope "read write"

  # a web application under development, on any port of this machine
  mintage client create --name "Shop" --native --redirect-uri http://localhost/callback --scope read

  # a resource server, which may ask whether an access token is good
  mintage client create --name "Invoices API" --introspect

  # a client whose access tokens are JWTs for that API
  mintage client create --name "Shop" --redirect-uri https://shop.example/callback --scope "invoices.read" \
    --access-token-format jwt --audience https://invoices.example

  # credentials that exist already, taken from another server
  printf %s "$OLD_SECRET" | mintage client create --id billing --secret-stdin --name "Billing" \
    --redirect-uri https://billing.example/callback --scope read`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			r.Auth = store.AuthRule(auth)
			if public {
				if cmd.Flags().Changed("auth-method") && r.Auth != store.AuthNone {
					return &oauth.Invalid{Field: "public", Message: "a public client does not authenticate: leave out --auth-method"}
				}
				r.Auth = store.AuthNone
			}
			if window != "" {
				if r.RetryWindow, err = parseRetryWindow(window); err != nil {
					return err
				}
			}
			if fromStdin && r.Auth == store.AuthNone {
				return &oauth.Invalid{Field: "secret-stdin", Message: "a public client has no secret"}
			}
			if fromStdin {
				if r.Secret, err = readSecret(cmd); err != nil {
					return err
				}
			}
			ring, err := o.ring(cmd.Context())
			if err != nil {
				return err
			}
			c, secret, err := r.Client(deployment.Realm, ring, o.policy(), o.now)
			if err != nil {
				return err
			}
			err = o.store.Commit(cmd.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{o.event(store.EventClientCreated, c.ID, c.Name)}})
			if errors.Is(err, store.ErrConflict) {
				return deployment.Hint(fmt.Errorf("the client id %q is taken", c.ID), "choose another with --id; ids never come back, even after deletion")
			}
			if err != nil {
				return err
			}
			warnOfConsent(cmd, c)
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), struct {
					ClientID string `json:"client_id"`
					Secret   string `json:"client_secret,omitempty"`
				}{c.ID, string(secret)})
			}
			if secret != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "mintage: keep the secret now: it is not shown again")
			}
			return show.Fields(cmd.OutOrStdout(), [][2]string{{"client_id", c.ID}, {"client_secret", string(secret)}})
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Name, "name", "", "what people call it (required)")
	f.StringArrayVar(&r.RedirectURIs, "redirect-uri", nil, "callback to which codes may go, compared character by character; repeatable")
	f.StringVar(&r.Scope, "scope", "", "scopes that it may be granted, separated by spaces (required)")
	f.StringSliceVar(&r.GrantTypes, "grant-types", nil, "authorization_code, refresh_token; default: both")
	f.StringVar(&auth, "auth-method", string(store.AuthEither), "post, basic, either, or none")
	f.BoolVar(&public, "public", false, "no secret, as for a program on a user's device; its codes need PKCE")
	f.BoolVar(&r.Native, "native", false, nativeUsage)
	f.BoolVar(&r.NoPKCE, "no-pkce", false, "do not ask for PKCE, at the authorization endpoint and of login portals, for client systems that cannot")
	f.BoolVar(&r.FirstParty, "first-party", false, "it is the provider's own: users are not asked for consent")
	f.StringVar(&r.ID, "id", "", "an id that exists already; default: a generated one")
	f.BoolVar(&fromStdin, "secret-stdin", false, "read a secret that exists already from standard input")
	f.StringVar(&window, "retry-window", "", "how long a spent refresh token gets the same pair again; 0s: never")
	f.BoolVar(&r.NoRotation, "no-rotation", false, "return the same refresh token, whose lifetime does not slide: a departure from the specification")
	registerTokens(f, &r)
	groupClientFlags(f)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// nativeUsage describes --native.
const nativeUsage = "a program on a user's device, or a web application under development: allow http redirects to 127.0.0.1 and [::1] on any port, and to localhost, and private-use schemes (RFC 8252)"

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

func parseRetryWindow(text string) (*time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err != nil {
		return nil, &oauth.Invalid{Field: "retry-window", Message: err.Error()}
	}
	std := d.Std()
	return &std, nil
}

func readSecret(cmd *cobra.Command) (oauth.Secret, error) {
	line, err := readLine(cmd, "secret")
	return oauth.Secret(line), err
}

// readLine reads one line from standard input, which is what people say it is.
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

// clientView is a client as it is listed: nothing in it is secret.
type clientView struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	State        string       `json:"state"`
	Auth         string       `json:"auth_method"`
	Native       bool         `json:"native"`
	RequirePKCE  bool         `json:"require_pkce"`
	FirstParty   bool         `json:"first_party"`
	Rotation     bool         `json:"refresh_rotation"`
	RetryWindow  *string      `json:"retry_window"`
	GrantTypes   []string     `json:"grant_types"`
	RedirectURIs []string     `json:"redirect_uris"`
	Scope        string       `json:"scope"`
	TokenFormat  string       `json:"access_token_format"`
	SigningAlg   string       `json:"signing_alg"`
	JWTType      string       `json:"jwt_type"`
	Audience     []string     `json:"audience,omitempty"`
	Introspect   bool         `json:"introspect"`
	Limits       []string     `json:"introspect_audience,omitempty"`
	CreatedAt    *time.Time   `json:"created_at"`
	UpdatedAt    *time.Time   `json:"updated_at"`
	Secrets      []secretView `json:"secrets"`
	Events       []show.Event `json:"events,omitempty"`
}

func viewClient(c store.Client, now grant.Instant) clientView {
	v := clientView{
		ID: c.ID, Name: c.Name, State: string(c.State), Auth: string(c.Auth), Native: c.Native,
		RequirePKCE: c.RequirePKCE, FirstParty: c.FirstParty, Rotation: !c.NoRotation, GrantTypes: c.GrantTypes,
		RedirectURIs: c.RedirectURIs, Scope: string(c.Scope),
		TokenFormat: string(cmp.Or(c.TokenFormat, store.TokenOpaque)), SigningAlg: string(cmp.Or(c.SigningAlg, keys.ES256)),
		JWTType: cmp.Or(c.JWTType, store.JWTTypes[0]), Audience: c.Audience, Introspect: c.Introspect, Limits: c.IntrospectAudience,
		CreatedAt: show.JSONInstant(c.CreatedAt), UpdatedAt: show.JSONInstant(c.UpdatedAt), Secrets: viewSecrets(c, now),
	}
	if c.RetryWindow != nil {
		text := config.Duration(c.RetryWindow.Duration()).String()
		v.RetryWindow = &text
	}
	return v
}

func newClientShow(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one client",
		Long: `Show one client: how it authenticates, what it may be granted, where its codes
may go, its secrets by id, never by their text, and its last events: what was
changed, by whom. A value that is left out, such as the retry window, is the
server's.`,
		Args: exactly(1, "one client id"),
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
			v := viewClient(c, o.now)
			if v.Events, err = o.events(cmd.Context(), c.ID); err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), v)
			}
			window := ""
			if v.RetryWindow != nil {
				window = *v.RetryWindow
			}
			err = show.Fields(cmd.OutOrStdout(), [][2]string{
				{"id", v.ID}, {"name", v.Name}, {"state", v.State}, {"auth method", v.Auth},
				{"native", fmt.Sprint(v.Native)}, {"requires pkce", fmt.Sprint(v.RequirePKCE)},
				{"first party", fmt.Sprint(v.FirstParty)},
				{"refresh rotation", fmt.Sprint(v.Rotation)}, {"retry window", window},
				{"grant types", strings.Join(v.GrantTypes, " ")}, {"redirect uris", strings.Join(v.RedirectURIs, " ")},
				{"scope", v.Scope}, {"access tokens", tokensInWords(v)}, {"audience", strings.Join(v.Audience, " ")},
				{"introspects", fmt.Sprint(v.Introspect)}, {"only for", strings.Join(v.Limits, " ")}, {"created", show.Instant(c.CreatedAt)}, {"updated", show.Instant(c.UpdatedAt)},
			})
			if err == nil && len(c.Secrets) > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
				err = printSecrets(cmd.OutOrStdout(), v.Secrets)
			}
			return errors.Join(err, printEvents(cmd.OutOrStdout(), v.Events))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newClientState(s *settings, verb string, state store.ClientState, short, more string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " ID",
		Short: short,
		Long:  strings.TrimSpace(short + ". The server is told. " + more),
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
			if c.State != state {
				c.State = state
				if err := o.change(cmd, c, nil, store.EventClientChanged, string(state)); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "client %s is %s\n", c.ID, state)
			return nil
		},
	}
}

func newClientDelete(s *settings) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID --yes",
		Short: "Delete a client and end its grants, for good",
		Long: `Delete a client and end its grants, for good: its users must agree again to
whatever takes its place. The id never comes back. To stop a client for a
while, disable it instead.`,
		Example: `  mintage client disable billing
  mintage client delete billing --yes`,
		Args: exactly(1, "one client id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return deployment.Usage(deployment.Hint(errors.New("nothing was deleted: this cannot be undone"), "add --yes to do it"))
			}
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			c, err := o.client(cmd, args[0])
			if err != nil {
				return err
			}
			c.State = store.ClientDeleted
			c.Secrets = []store.Secret{}
			cut := store.Cutoff{Realm: c.Realm, ClientID: c.ID, At: o.cutoffAt()}
			if err := o.change(cmd, c, []store.Cutoff{cut}, store.EventClientDeleted, c.Name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "client %s is deleted\n", c.ID)
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really do it")
	return cmd
}
