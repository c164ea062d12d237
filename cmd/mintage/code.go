package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/server"
)

func newCode(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "code",
		Short: "Issue authorization codes",
		Long: `Issue authorization codes through the admin API of the running server, as a
provider's own login portal does after its user has agreed.`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newCodeIssue(s))
	return cmd
}

func newCodeIssue(s *settings) *cobra.Command {
	var req server.CodeRequest
	var asJSON, callback bool
	cmd := &cobra.Command{
		Use:   "issue --client ID --redirect-uri URI --subject SUB",
		Short: "Issue a code for a user who has agreed",
		Long: `Issue a code for a user who has agreed, through the admin API of the running
server, and print it. The callback URL with the code in it goes to standard
error, or to standard output with --callback. This is what a provider's own
login portal does with POST /admin/v1/codes. The code lives a minute.`,
		Example: `  code=$(mintage code issue --client Zx81kQ --redirect-uri https://billing.example/callback --subject alice --scope "read write")`,
		Args:    exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"client", "redirect-uri", "subject"} {
				if cmd.Flag(name).Value.String() == "" {
					return &usageError{hint(fmt.Errorf("--%s is missing", name), "see: "+cmd.CommandPath()+" --help")}
				}
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			answer, err := requestCode(cmd.Context(), cfg, req)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return printJSON(cmd.OutOrStdout(), answer)
			case callback:
				fmt.Fprintln(cmd.OutOrStdout(), answer.CallbackURL)
			default:
				fmt.Fprintln(cmd.ErrOrStderr(), answer.CallbackURL)
				fmt.Fprintln(cmd.OutOrStdout(), answer.Code)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.ClientID, "client", "", "client id (required)")
	f.StringVar(&req.RedirectURI, "redirect-uri", "", "one of the client's redirect URIs (required)")
	f.StringVar(&req.Subject, "subject", "", "the user, as resource servers will know it (required)")
	f.StringVar(&req.Scope, "scope", "", "scopes, separated by spaces; default: all of the client's")
	f.StringVar(&req.Challenge, "code-challenge", "", "S256 code challenge (RFC 7636), if the client uses PKCE")
	f.BoolVar(&callback, "callback", false, "print the callback URL instead of the code")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// requestCode asks the running server for a code.
func requestCode(ctx context.Context, cfg config.Config, req server.CodeRequest) (server.CodeAnswer, error) {
	var answer server.CodeAnswer
	path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:")
	if !unix {
		return answer, hint(errors.New("the admin API of this configuration is not a Unix socket"), "send POST /admin/v1/codes with the admin token, or name a socket with --admin-listen")
	}
	body, err := json.Marshal(req)
	if err != nil {
		return answer, err
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/admin/v1/codes", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	hr.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(hr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return answer, hint(fmt.Errorf("no server answers on %s: %w", path, op.Err), "start it with `mintage serve`, and give this command the same --data")
		}
		return answer, fmt.Errorf("admin API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		var p server.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return answer, fmt.Errorf("admin API: status %s", resp.Status)
		}
		if p.Field != "" {
			flag := strings.ReplaceAll(strings.TrimSuffix(p.Field, "_id"), "_", "-")
			return answer, fmt.Errorf("--%s: %s", flag, p.Detail)
		}
		return answer, fmt.Errorf("admin API: %s: %s", p.Title, p.Detail)
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("admin API: %w", err)
	}
	return answer, nil
}
