package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/issuer"
)

func newCode(s *settings) *cobra.Command {
	return parent("code", "Issue authorization codes", `Issue authorization codes through the admin API of the running server, as a login
portal does.`,
		newCodeIssue(s))
}

func newCodeIssue(s *settings) *cobra.Command {
	var req adminapi.CodeRequest
	var asJSON, callback bool
	var caFile, claims, authTime string
	cmd := &cobra.Command{
		Use:   "issue --client ID --redirect-uri URI --subject SUB",
		Short: "Issue a code for a user who has agreed",
		Long: `Issue an authorization code through the admin API (POST /admin/v1/codes), as a
login portal does after its user has agreed, and print it. The callback URL is
printed to standard error, or with --callback to standard output. Name the admin
API of a server that listens on TCP with --admin-listen and --admin-token-file.`,
		Example: `  code=$(mintage code issue --client Zx81kQ --redirect-uri https://billing.example/callback --subject alice --scope "read write")`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"client", "redirect-uri", "subject"} {
				value := cmd.Flag(name).Value.String()
				if value == "" {
					return deployment.Usage(deployment.Hint(fmt.Errorf("--%s is missing", name), "see: "+cmd.CommandPath()+" --help"))
				}
				// JSON would replace invalid bytes, which makes another subject.
				if err := checkText(name, value); err != nil {
					return err
				}
			}
			if err := setAuthentication(&req, claims, authTime); err != nil {
				return err
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			api, err := adminclient.Open(cfg, caFile)
			if err != nil {
				return err
			}
			api.InRealm(s.realm)
			var answer adminapi.CodeAnswer
			if err := api.Post(cmd.Context(), req, &answer, "codes"); err != nil {
				return flagged(cmd, err)
			}
			result := answer.CallbackURL
			if !callback && !asJSON {
				fmt.Fprintln(cmd.ErrOrStderr(), answer.CallbackURL)
				result = answer.Code
			}
			return output(cmd, asJSON, answer, line("%s", result))
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.ClientID, "client", "", "client id (required)")
	f.StringVar(&req.RedirectURI, "redirect-uri", "", "one of the client's redirect URIs (required)")
	f.StringVar(&req.Subject, "subject", "", "the user's identifier for resource servers (required)")
	f.StringVar(&req.Scope, "scope", "", "scopes, separated by spaces; default: all of the client's")
	f.StringArrayVar(&req.Resource, "resource", nil, "id of an API that the access tokens are for; default: those of the scope; repeatable")
	f.StringVar(&req.Challenge, "code-challenge", "", "S256 code challenge (RFC 7636); required, unless the client is registered with --no-pkce")
	f.StringVar(&claims, "claims", "", "additional claims for resource servers: a JSON object of at most 128 bytes")
	f.StringVar(&authTime, "auth-time", "", "when the user was authenticated, like 2026-01-31T12:00:00Z (RFC 3339)")
	f.StringVar(&caFile, "ca-file", "", "authorities of an admin API over TCP, PEM; default: the system's, and DATA/dev-ca.pem if there is one")
	f.BoolVar(&callback, "callback", false, "print the callback URL instead of the code")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// setAuthentication sets the claims and the time of authentication from the flags.
func setAuthentication(req *adminapi.CodeRequest, claims, authTime string) error {
	text, err := issuer.CheckClaims(json.RawMessage(claims))
	if err != nil {
		return deployment.Usage(fmt.Errorf("--%w", err))
	}
	req.Claims = json.RawMessage(text)
	if authTime == "" {
		return nil
	}
	if req.AuthTime, err = time.Parse(time.RFC3339, authTime); err != nil {
		return deployment.Usage(fmt.Errorf("--auth-time: %q is not a time like 2026-01-31T12:00:00Z", authTime))
	}
	return nil
}
