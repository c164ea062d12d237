package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// A clientChange is what client update was asked to change.
type clientChange struct {
	name, scope, auth, window string
	uris, moreURIs            []string
	pkce, noPKCE, firstParty  bool
	native                    bool
	tokens                    issuer.Registration // of it, what registerTokens sets
}

func newClientUpdate(s *settings) *cobra.Command {
	var u clientChange
	cmd := &cobra.Command{
		Use:   "update ID [--redirect-uri URI] [--scope \"A B\"]",
		Short: "Change what a client is registered for",
		Long: `Change what a client is registered for; what is not named stays. The server
is told of it. Secrets are a matter of: mintage client secret.

A smaller scope also narrows the tokens of grants that users have given. Codes
on their way to a redirect URI that is taken away can still be redeemed.`,
		Example: `  mintage client update billing --redirect-uri https://billing.example/new/callback
  mintage client update billing --add-redirect-uri https://billing2.example/callback --scope "read write"`,
		Args: exactly(1, "one client id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := false
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { asked = asked || f.Changed })
			if !asked {
				return deployment.Usage(deployment.Hint(errors.New("nothing to change"), "see: "+cmd.CommandPath()+" --help"))
			}
			if given := cmd.Flags().Changed; given("pkce") && given("no-pkce") {
				return deployment.Usage(errors.New("--pkce and --no-pkce contradict each other"))
			}
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			old, err := o.client(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := u.apply(cmd, o, old)
			if err != nil {
				return err
			}
			detail := differences(old, c)
			if detail == "" {
				fmt.Fprintf(cmd.OutOrStdout(), "client %s is like that already\n", c.ID)
				return nil
			}
			if err := o.change(cmd, c, nil, store.EventClientChanged, detail); err != nil {
				return err
			}
			warnOfConsent(cmd, c)
			fmt.Fprintf(cmd.OutOrStdout(), "client %s is changed: %s\n", c.ID, detail)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.name, "name", "", "what people call it")
	f.StringArrayVar(&u.uris, "redirect-uri", nil, "callback to which codes may go, instead of all that there were; repeatable")
	f.StringArrayVar(&u.moreURIs, "add-redirect-uri", nil, "another callback beside those; repeatable")
	f.StringVar(&u.scope, "scope", "", "scopes that it may be granted, separated by spaces")
	f.StringVar(&u.auth, "auth-method", "", "post, basic or either")
	f.StringVar(&u.window, "retry-window", "", "how long a spent refresh token gets the same pair again; 0s: never; default: the server's")
	f.BoolVar(&u.pkce, "pkce", false, "ask for PKCE, at the authorization endpoint and of login portals")
	f.BoolVar(&u.noPKCE, "no-pkce", false, "do not ask for it, for client systems that cannot")
	f.BoolVar(&u.native, "native", false, nativeUsage)
	f.BoolVar(&u.firstParty, "first-party", false, "it is the provider's own: users are not asked for consent; --first-party=false: they are")
	registerTokens(f, &u.tokens)
	groupClientFlags(f)
	return cmd
}

// apply is old with what was asked for.
func (u clientChange) apply(cmd *cobra.Command, o *office, old store.Client) (store.Client, error) {
	given := cmd.Flags().Changed
	r := issuer.Registered(old)
	if given("name") {
		r.Name = u.name
	}
	if given("redirect-uri") {
		r.RedirectURIs = u.uris
	}
	for _, uri := range u.moreURIs {
		if !slices.Contains(r.RedirectURIs, uri) {
			r.RedirectURIs = append(r.RedirectURIs, uri)
		}
	}
	if given("scope") {
		r.Scope = u.scope
	}
	if given("auth-method") {
		r.Auth = store.AuthRule(u.auth)
	}
	if given("pkce") {
		r.NoPKCE = !u.pkce
	}
	if given("no-pkce") {
		r.NoPKCE = u.noPKCE
	}
	if given("native") {
		r.Native = u.native
	}
	if given("first-party") {
		r.FirstParty = u.firstParty
	}
	if given("retry-window") && u.window != "default" {
		var err error
		if r.RetryWindow, err = parseRetryWindow(u.window); err != nil {
			return old, err
		}
	}
	applyTokens(cmd, u.tokens, &r)
	c, err := r.Change(old, o.policy())
	if u.window == "default" {
		c.RetryWindow = nil
	}
	return c, err
}

// differences is what a change does, in one line.
func differences(old, c store.Client) string {
	var list []string
	note := func(what, before, after string) {
		if before != after {
			list = append(list, fmt.Sprintf("%s %q, was %q", what, after, before))
		}
	}
	note("name", old.Name, c.Name)
	for _, uri := range c.RedirectURIs {
		if !slices.Contains(old.RedirectURIs, uri) {
			list = append(list, "redirect uri added "+uri)
		}
	}
	for _, uri := range old.RedirectURIs {
		if !slices.Contains(c.RedirectURIs, uri) {
			list = append(list, "redirect uri removed "+uri)
		}
	}
	note("scope", string(old.Scope), string(c.Scope))
	note("auth method", string(old.Auth), string(c.Auth))
	note("retry window", windowText(old), windowText(c))
	note("requires pkce", fmt.Sprint(old.RequirePKCE), fmt.Sprint(c.RequirePKCE))
	note("native", fmt.Sprint(old.Native), fmt.Sprint(c.Native))
	note("first party", fmt.Sprint(old.FirstParty), fmt.Sprint(c.FirstParty))
	noteTokens(note, viewClient(old, 0), viewClient(c, 0))
	return strings.Join(list, "; ")
}

// windowText is "default" for the server's.
func windowText(c store.Client) string {
	if c.RetryWindow == nil {
		return "default"
	}
	return config.Duration(c.RetryWindow.Duration()).String()
}
