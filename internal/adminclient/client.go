// Package adminclient calls the admin API of a running server.
package adminclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/server/admin"
)

// pollTime bounds how long a command waits for the server to take a change.
const pollTime = 2 * time.Second

// Poll requests that the server reads changes of the directory, and writes the
// uses of secrets that it holds in memory. It reports whether the server has.
func Poll(ctx context.Context, cfg config.Config) bool {
	api, err := Open(cfg, "")
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	resp, err := api.send(ctx, http.MethodPost, "/admin/v1/directory/poll", nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode == http.StatusOK
}

// send sends a request with a JSON body, which may be nil.
func (a *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.client.Do(r)
}

// A Client calls the admin API that the configuration names.
type Client struct {
	at     string // for people
	url    string
	token  string
	client http.Client
}

// Open returns a client. It verifies a server on TCP with the authorities of
// caFile, or else with those of the system and of the data directory.
func Open(cfg config.Config, caFile string) (*Client, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	a := &Client{client: http.Client{Timeout: 10 * time.Second, Transport: tr}}
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
		return nil, deployment.Usage(fmt.Errorf("admin.listen: %q must be unix:PATH or HOST:PORT", cfg.Admin.Listen))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // it listens on every address of this machine
	}
	a.at = net.JoinHostPort(host, port)
	a.url = "https://" + a.at
	if cfg.Admin.TokenFile == "" {
		return nil, deployment.Usage(deployment.Hint(fmt.Errorf("the admin API at %s needs its token", a.at), "name its file with --admin-token-file"))
	}
	if a.token, err = deployment.ReadAdminToken(cfg.Admin.TokenFile); err != nil {
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
		file = deployment.DevCAFile(cfg)
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

// RequestCode requests an authorization code from the running server.
func RequestCode(ctx context.Context, cfg config.Config, req admin.CodeRequest) (admin.CodeAnswer, error) {
	api, err := Open(cfg, "")
	if err != nil {
		return admin.CodeAnswer{}, err
	}
	return api.Code(ctx, req)
}

// Code requests an authorization code.
func (a *Client) Code(ctx context.Context, req admin.CodeRequest) (admin.CodeAnswer, error) {
	var answer admin.CodeAnswer
	body, err := json.Marshal(req)
	if err != nil {
		return answer, err
	}
	resp, err := a.send(ctx, http.MethodPost, "/admin/v1/codes", bytes.NewReader(body))
	if err != nil {
		return answer, a.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		var p admin.Problem
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

// Call sends a request without a body, and decodes the answer into out.
func (a *Client) Call(ctx context.Context, method, path string, out any) error {
	resp, err := a.send(ctx, method, path, nil)
	if err != nil {
		return a.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		var p admin.Problem
		if json.NewDecoder(resp.Body).Decode(&p) == nil && p.Title != "" {
			return fmt.Errorf("admin API: %s", p.Title)
		}
		return fmt.Errorf("admin API: status %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func (a *Client) explain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return deployment.Hint(fmt.Errorf("no server answers on %s: %w", a.at, op.Err), "start it with `mintage serve`, and give this command the same --data")
	}
	err = fmt.Errorf("admin API: %w", err)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return deployment.Hint(err, "name its authority with --ca-file, and a host of its certificate with --admin-listen HOST:PORT")
	}
	return err
}
