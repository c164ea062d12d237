package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/show"
)

func newTrust(s *settings) *cobra.Command {
	return parent("trust", "Trust other issuers' assertions as grants", `Trust other issuers: let a client present their assertions as a grant (RFC 7523
section 2.1). With an id-jag (Identity Assertion Authorization Grant), a company's
identity provider decides which of its users a client acts for, without a consent
page here; a workload presents the token of the platform on which it runs. A trust
is for one issuer, kind and client, and for the APIs that it names: all else is
refused. What was issued by a trust ends with it. The commands call the server, or
open the store if no server runs. A change applies within two seconds.`,
		newTrustCreate(s), newTrustList(s), newTrustShow(s), newTrustUpdate(s), newTrustDelete(s), newTrustTest(s))
}

// trustFlags holds the values of the flags for a trust's settings.
type trustFlags struct {
	apis, subjects, domains                                   []string
	jwks, jwksURI, jwksCA, audience, lifetime, tenant, mapped string
	disabled                                                  bool
}

func (f *trustFlags) register(set *pflag.FlagSet) {
	set.StringArrayVar(&f.apis, "api", nil, "API that it is for, and behind a space the scopes; without scopes all of them: \"ID [SCOPE SCOPE]\"; repeatable")
	set.StringVar(&f.jwks, "jwks", "", "file with the issuer's public keys (JWK Set)")
	set.StringVar(&f.jwksURI, "jwks-uri", "", "https address of the issuer's public keys; default: where its metadata say")
	set.StringVar(&f.jwksCA, "jwks-ca", "", "file with certificates (PEM) to trust at the issuer's addresses, beside the system's")
	set.StringVar(&f.audience, "audience", "", "aud of a workload's assertions; default: this server's issuer")
	set.StringVar(&f.lifetime, "max-lifetime", "", "how long an assertion may live; default: 5m, at most 1h, for id-jag; 70m, at most 24h, for workload")
	set.StringVar(&f.tenant, "tenant", "", "claim tenant that assertions must have; default: none may have one")
	set.StringArrayVar(&f.subjects, "subject", nil, "sub that assertions may have, in which * stands for characters other than colon and slash; default for id-jag: all; repeatable")
	set.StringVar(&f.mapped, "subject-from", "", "how the subject of users is formed: sub (ISSUER|SUB), aud_sub, email, or upstream (as for logins at the provider); default: sub")
	set.StringArrayVar(&f.domains, "email-domain", nil, "domain of which email may be, for --subject-from email; repeatable")
}

// apply changes the settings of v whose flags were given.
func (f *trustFlags) apply(cmd *cobra.Command, v *adminapi.Trust) error {
	set := cmd.Flags()
	for name, to := range map[string]*[]string{"api": &v.APIs, "subject": &v.Subjects, "email-domain": &v.EmailDomains} {
		if set.Changed(name) {
			*to, _ = set.GetStringArray(name)
		}
	}
	for name, to := range map[string]*string{"audience": &v.Audience, "max-lifetime": &v.MaxLifetime, "tenant": &v.Tenant, "subject-from": &v.SubjectFrom} {
		if set.Changed(name) {
			*to, _ = set.GetString(name)
		}
	}
	if isDefault(v.MaxLifetime) {
		v.MaxLifetime = ""
	}
	if set.Changed("jwks") || set.Changed("jwks-uri") { // one takes the place of the other
		v.JWKS, v.JWKSURI = nil, f.jwksURI
	}
	if f.jwks != "" {
		text, err := readFile("jwks", f.jwks)
		if err != nil {
			return err
		}
		v.JWKS = text
	}
	if set.Changed("jwks-ca") {
		v.JWKSCA = ""
		if f.jwksCA != "" {
			text, err := readFile("jwks-ca", f.jwksCA)
			if err != nil {
				return err
			}
			v.JWKSCA = string(text)
		}
	}
	if set.Changed("disabled") {
		v.Disabled = f.disabled
	}
	return nil
}

func newTrustCreate(s *settings) *cobra.Command {
	var f trustFlags
	var v adminapi.Trust
	cmd := &cobra.Command{
		Use:   "create --issuer URL --kind id-jag|workload --client ID --api \"ID [SCOPES]\"",
		Short: "Create a trust and print its id",
		Long: `Create a trust, and print its id, which follows from the issuer, the kind and the
client. The client must be allowed the APIs as well.`,
		Example: `  # The company's provider says for whom the client acts, with the scope that it names
  mintage trust create --issuer https://idp.example.com --kind id-jag --client tickets-agent \
    --api "https://mcp.example.com/mcp tickets"

  # A workload of a Kubernetes cluster
  mintage trust create --issuer https://cluster.example.com --kind workload --client orders-job \
    --api https://api.example.com/orders --subject system:serviceaccount:shop:orders`,
	}
	cmd.Flags().StringVar(&v.Issuer, "issuer", "", "iss of the assertions, character by character (required)")
	cmd.Flags().StringVar(&v.Kind, "kind", "", "id-jag, for users, or workload, for the client itself (required)")
	cmd.Flags().StringVar(&v.ClientID, "client", "", "client that presents them (required)")
	f.register(cmd.Flags())
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (string, error) {
		if err := f.apply(cmd, &v); err != nil {
			return "", err
		}
		err := a.Post(cmd.Context(), v, &v, "trusts")
		return fmt.Sprintf("trust %s is created", v.ID), err
	})
}

func newTrustList(s *settings) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:     "list [--match TEXT]",
		Short:   "List trusts",
		Long:    "List trusts with their issuer, kind and client, and the APIs that they are for.",
		Example: `  mintage trust list --match idp.example.com`,
	}
	l.register(cmd, "id, issuer, kind or client", "id", nil)
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, err := readList[adminapi.Trust](cmd, a, "trusts", l, nil)
		return listed(cmd, list, err, "no trust is found", "ID|KIND|ISSUER|CLIENT|STATE|APIS", func(v adminapi.Trust) []string {
			state := "enabled"
			if v.Disabled {
				state = "disabled"
			}
			return []string{v.ID, v.Kind, v.Issuer, v.ClientID, state, strings.Join(v.APIs, ", ")}
		})
	})
}

func newTrustShow(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "show ID",
		Short: "Show one trust",
		Long:  "Show the settings of a trust, and its last events.",
		Args:  exactly(1, "one trust's id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.Trust
		_, err := a.Get(cmd.Context(), &v, nil, "trusts", args[0])
		if err != nil {
			return nil, nil, err
		}
		v.Events, err = eventsAbout(cmd.Context(), a, "trust", v.ID)
		return v, fields(trustFields(v), events(v.Events)), err
	})
}

func trustFields(v adminapi.Trust) [][2]string {
	keys := "where the issuer's metadata say"
	if len(v.JWKS) > 0 {
		keys = "registered by value"
	}
	list := [][2]string{{"id", v.ID}, {"issuer", v.Issuer}, {"kind", v.Kind}, {"client", v.ClientID}}
	if v.JWKSURI == "" {
		list = append(list, [2]string{"keys", keys})
	}
	if v.JWKSCA != "" {
		n := strings.Count(v.JWKSCA, "-----BEGIN CERTIFICATE-----")
		list = append(list, [2]string{"jwks ca", fmt.Sprintf("certificates: %d", n)})
	}
	for _, f := range v.Settings() {
		if f[1] != "" {
			list = append(list, f)
		}
	}
	return append(list, [2]string{"created", instant(v.CreatedAt)}, [2]string{"updated", instant(v.UpdatedAt)})
}

func newTrustUpdate(s *settings) *cobra.Command {
	var f trustFlags
	cmd := &cobra.Command{
		Use:   "update ID [--api \"ID [SCOPES]\"] [--disabled]",
		Short: "Change a trust's settings, or disable it",
		Long: `Change settings of a trust; the others stay. A flag that may be repeated sets all of
its list. Tokens that the trust has issued lose what it no longer allows.

A trust that is disabled accepts nothing, and what it has issued ends at once: also
if it is enabled again (--disabled=false).`,
		Example: `  mintage trust update 3f2a90c15b7de804 --api "https://mcp.example.com/mcp tickets" --max-lifetime 10m
  mintage trust update 3f2a90c15b7de804 --disabled`,
		Args:    exactly(1, "one trust's id"),
		PreRunE: requireFlag,
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.disabled, "disabled", false, "accept nothing by it, and end what it has issued")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		old, next, err := adminclient.Update(cmd.Context(), a, func(v *adminapi.Trust) error { return f.apply(cmd, v) },
			func() error { return nil }, "trusts", args[0])
		return updated("trust "+next.ID, next.Changes(old)), err
	})
}

func newTrustDelete(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID --yes",
		Short: "Delete a trust",
		Long: `Delete a trust. What it has issued ends at once, also if the trust is created
again.`,
		Example: `  mintage trust delete 3f2a90c15b7de804 --yes`,
		Args:    exactly(1, "one trust's id"),
	}
	requireYes(cmd)
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return fmt.Sprintf("trust %s is deleted", args[0]), a.Delete(cmd.Context(), nil, "trusts", args[0])
	})
}

func newTrustTest(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "test ASSERTION",
		Short: "Say claim by claim whether an assertion would be accepted",
		Long: `Say claim by claim what the running server would decide about an assertion, as if
the client of its trust presented it now. Nothing is issued or recorded. A - reads
the assertion from standard input. An assertion is a secret as long as it lives.`,
		Example: `  mintage trust test - < assertion.jwt`,
		Args:    exactly(1, "one assertion, or -"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		in := adminapi.AssertionRequest{Assertion: args[0]}
		if args[0] == "-" {
			typed, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 16<<10))
			if err != nil {
				return nil, nil, err
			}
			in.Assertion = strings.TrimSpace(string(typed))
		}
		var v adminapi.AssertionVerdict
		err := a.Post(cmd.Context(), in, &v, "assertions")
		var rows [][]string
		for _, f := range v.Findings {
			rows = append(rows, []string{f.Claim, cmp.Or(f.Fault, "right")})
		}
		list := [][2]string{{"verdict", map[bool]string{true: "accepted", false: "refused"}[v.Accepted]}}
		if v.Trust != nil {
			list = append(list, [2]string{"trust", v.Trust.ID}, [2]string{"client", v.Trust.ClientID}, [2]string{"subject", v.Subject}, [2]string{"scope", v.Scope})
		}
		return v, fields(list, func(w io.Writer) error {
			fmt.Fprintln(w)
			return show.Table(w, "CLAIM|VERDICT", rows)
		}), err
	})
}
