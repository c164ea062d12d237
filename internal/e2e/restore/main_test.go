//go:build e2e

// Package restore rehearses a disaster: a server with active clients loses its store, an
// older backup is restored, and the clients continue.
package restore

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

var database *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &database)) }

// A site is a service with its clients.
type site struct {
	*testing.T
	nodes []*binary.Server
	http  *http.Client
	// The credentials of a resource server.
	apiID, apiSecret string
}

func open(t *testing.T, nodes ...*binary.Server) *site {
	s := &site{T: t, nodes: nodes, http: &http.Client{Transport: nodes[0].Transport(t, ""), Timeout: 30 * time.Second}}
	var api struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal([]byte(nodes[0].Run(t, "client", "create", "--json", "--name", "API", "--introspect")), &api); err != nil {
		t.Fatal(err)
	}
	s.apiID, s.apiSecret = api.ID, api.Secret
	return s
}

func (s *site) post(node int, form url.Values, status int, code string) binary.Answer {
	s.Helper()
	a, err := s.nodes[node%len(s.nodes)].Post(s.Context(), s.http, form)
	if err != nil {
		s.Fatal(err)
	}
	if a.Status != status || a.Error != code {
		s.Fatalf("%s: status %d %s %q, want %d %s", form.Get("grant_type"), a.Status, a.Error, a.Description, status, code)
	}
	if status == http.StatusServiceUnavailable && a.RetryAfter == "" {
		s.Fatal("503 without Retry-After")
	}
	return a
}

// code issues a code for the demo client.
func (s *site) code() string {
	s.Helper()
	code, err := s.nodes[0].FastCode(s.Context(), "alice")
	if err != nil {
		s.Fatal(err)
	}
	return code
}

func (s *site) redeem(code string) binary.Answer {
	s.Helper()
	return s.post(0, s.nodes[0].ExchangeForm(code), http.StatusOK, "")
}

func (s *site) refresh(node int, token string) binary.Answer {
	s.Helper()
	return s.post(node, s.nodes[0].RefreshForm(token), http.StatusOK, "")
}

// refused requires invalid_grant for a code or a refresh token.
func (s *site) refused(form url.Values) {
	s.Helper()
	s.post(0, form, http.StatusBadRequest, "invalid_grant")
}

func (s *site) dead(refreshToken string) {
	s.Helper()
	s.refused(s.nodes[0].RefreshForm(refreshToken))
}

// introspect returns the response to a resource server about an access token.
func (s *site) introspect(node int, token string) (status int, active bool) {
	s.Helper()
	u, err := url.Parse(s.nodes[node].TokenEndpoint)
	if err != nil {
		s.Fatal(err)
	}
	u.Path = strings.TrimSuffix(u.Path, "access_token") + "introspect"
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, u.String(), strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(s.apiID, s.apiSecret)
	resp, err := s.http.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Active bool }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, body.Active
}

// grantOf returns the id of a subject's grant.
func (s *site) grantOf(subject string) string {
	s.Helper()
	var list []struct {
		ID string `json:"id"`
	}
	out := s.nodes[0].Run(s.T, "grant", "list", "--json", "--subject", subject)
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].ID == "" {
		s.Fatalf("grants of %s: %v\n%s", subject, err, out)
	}
	return list[0].ID
}

func says(t *testing.T, text string, phrases ...string) {
	t.Helper()
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

// start restarts a node, and retries: another connection may occupy its port for a
// moment.
func (s *site) start(node int) {
	s.Helper()
	var err error
	for range 20 {
		if err = s.nodes[node].Restart(s.T); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// command runs the program and demands its exit status.
func command(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := binary.Command(t, args...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("mintage %s: %v, want exit status %d\n%s%s", strings.Join(args, " "), err, status, out.String(), text.String())
	}
	return out.String(), text.String()
}
