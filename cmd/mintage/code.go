package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/show"
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
	var caFile, claims, authTime string
	cmd := &cobra.Command{
		Use:   "issue --client ID --redirect-uri URI --subject SUB",
		Short: "Issue a code for a user who has agreed",
		Long: `Issue a code for a user who has agreed, through the admin API of the running
server, and print it. The callback URL with the code in it goes to standard
error, or to standard output with --callback. This is what a provider's own
login portal does with POST /admin/v1/codes. The code lives a minute. A server
whose admin API is on TCP is named by --admin-listen and --admin-token-file.`,
		Example: `  code=$(mintage code issue --client Zx81kQ --redirect-uri https://billing.example/callback --subject alice --scope "read write")`,
		Args:    exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"client", "redirect-uri", "subject"} {
				value := cmd.Flag(name).Value.String()
				if value == "" {
					return &usageError{hint(fmt.Errorf("--%s is missing", name), "see: "+cmd.CommandPath()+" --help")}
				}
				// JSON would replace the bytes: the code would be another subject's.
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
			api, err := openAdminAPI(cfg, caFile)
			if err != nil {
				return err
			}
			answer, err := api.code(cmd.Context(), req)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return show.JSON(cmd.OutOrStdout(), answer)
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
	f.StringVar(&req.Challenge, "code-challenge", "", "S256 code challenge (RFC 7636); required, unless the client is registered with --no-pkce")
	f.StringVar(&claims, "claims", "", "what else resource servers are told of the user: a JSON object of at most 128 bytes")
	f.StringVar(&authTime, "auth-time", "", "when the user was authenticated, like 2026-01-31T12:00:00Z (RFC 3339)")
	f.StringVar(&caFile, "ca-file", "", "authorities of an admin API over TCP, PEM; default: the system's, and DATA/dev-ca.pem if there is one")
	f.BoolVar(&callback, "callback", false, "print the callback URL instead of the code")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// setAuthentication adds to req what the flags say of how the user was
// authenticated.
func setAuthentication(req *server.CodeRequest, claims, authTime string) error {
	text, err := issuer.CheckClaims(json.RawMessage(claims))
	if err != nil {
		return &usageError{fmt.Errorf("--%w", err)}
	}
	req.Claims = json.RawMessage(text)
	if authTime == "" {
		return nil
	}
	if req.AuthTime, err = time.Parse(time.RFC3339, authTime); err != nil {
		return &usageError{fmt.Errorf("--auth-time: %q is not a time like 2026-01-31T12:00:00Z", authTime)}
	}
	return nil
}

// An adminAPI is how to reach the admin API of the configuration.
type adminAPI struct {
	at     string // for people
	url    string
	token  string
	client http.Client
}

func openAdminAPI(cfg config.Config, caFile string) (*adminAPI, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	a := &adminAPI{client: http.Client{Timeout: 10 * time.Second, Transport: tr}}
	if path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:"); unix {
		a.at, a.url = path, "http://admin"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return a, nil
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Listen)
	if err != nil {
		return nil, &usageError{fmt.Errorf("admin.listen: %q must be unix:PATH or HOST:PORT", cfg.Admin.Listen)}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // it listens on every address of this machine
	}
	a.at = net.JoinHostPort(host, port)
	a.url = "https://" + a.at
	if cfg.Admin.TokenFile == "" {
		return nil, &usageError{hint(fmt.Errorf("the admin API at %s needs its token", a.at), "name its file with --admin-token-file")}
	}
	if a.token, err = readAdminToken(cfg.Admin.TokenFile); err != nil {
		return nil, err
	}
	roots, err := adminRoots(cfg, caFile)
	tr.TLSClientConfig = &tls.Config{RootCAs: roots}
	return a, err
}

// adminRoots are the authorities of the file, or else those of the system and,
// if there is one, of the data directory's --dev server.
func adminRoots(cfg config.Config, caFile string) (*x509.CertPool, error) {
	roots, file := x509.NewCertPool(), caFile
	if caFile == "" {
		file = devCAFile(cfg)
		if system, err := x509.SystemCertPool(); err == nil {
			roots = system
		}
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		if caFile == "" && errors.Is(err, fs.ErrNotExist) {
			return roots, nil
		}
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM", file)
	}
	return roots, nil
}

// requestCode asks the running server for a code.
func requestCode(ctx context.Context, cfg config.Config, req server.CodeRequest) (server.CodeAnswer, error) {
	api, err := openAdminAPI(cfg, "")
	if err != nil {
		return server.CodeAnswer{}, err
	}
	return api.code(ctx, req)
}

func (a *adminAPI) code(ctx context.Context, req server.CodeRequest) (server.CodeAnswer, error) {
	var answer server.CodeAnswer
	body, err := json.Marshal(req)
	if err != nil {
		return answer, err
	}
	resp, err := a.post(ctx, "/admin/v1/codes", bytes.NewReader(body))
	if err != nil {
		return answer, a.explain(err)
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

// call asks a resource of the admin API, and reads its answer into out.
func (a *adminAPI) call(ctx context.Context, method, path string, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, nil)
	if err != nil {
		return err
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return a.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		var p server.Problem
		if json.NewDecoder(resp.Body).Decode(&p) == nil && p.Title != "" {
			return fmt.Errorf("admin API: %s", p.Title)
		}
		return fmt.Errorf("admin API: status %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func (a *adminAPI) explain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return hint(fmt.Errorf("no server answers on %s: %w", a.at, op.Err), "start it with `mintage serve`, and give this command the same --data")
	}
	err = fmt.Errorf("admin API: %w", err)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return hint(err, "name its authority with --ca-file, and a host of its certificate with --admin-listen HOST:PORT")
	}
	return err
}
