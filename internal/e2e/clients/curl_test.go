//go:build e2e

package clients

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// curl sends one request and returns the members of the response and its status.
func curl(t *testing.T, s *binary.Server, args ...string) (members map[string]any, status string) {
	t.Helper()
	all := append([]string{"--silent", "--show-error", "--cacert", s.CAFile, "--write-out", "\n%{http_code} %{content_type}"}, args...)
	out, err := exec.CommandContext(t.Context(), "curl", all...).Output()
	if err != nil {
		t.Fatalf("curl: %v", err)
	}
	body, status, _ := strings.Cut(string(out), "\n")
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatalf("the answer (%s) is not JSON: %v", status, err)
	}
	return members, status
}

// TestCurlDoesBothOperations sends only the five parameters of the service's
// specification.
func TestCurlDoesBothOperations(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	credentials := map[string][]string{
		"form":  {"--data", "client_id=" + s.ClientID, "--data", "client_secret=" + s.ClientSecret},
		"basic": {"--user", s.ClientID + ":" + s.ClientSecret},
	}
	for where, address := range addresses(s) {
		for how, client := range credentials {
			t.Run(where+"/"+how, func(t *testing.T) {
				exchange := append([]string{address, "--data", "grant_type=authorization_code", "--data", "code=" + s.Code(t, "alice"),
					"--data-urlencode", "redirect_uri=" + s.RedirectURI}, client...)
				first, status := curl(t, s, exchange...)
				wantMembers(t, first, status)
				refresh := append([]string{address, "--data", "grant_type=refresh_token", "--data", "refresh_token=" + first["refresh_token"].(string)}, client...)
				second, status := curl(t, s, refresh...)
				wantMembers(t, second, status)
				if first["refresh_token"] == second["refresh_token"] || first["access_token"] == second["access_token"] {
					t.Error("a refresh must bring two new tokens")
				}
				spent, status := curl(t, s, exchange...)
				if status != "400 application/json" || spent["error"] != "invalid_grant" {
					t.Errorf("a spent code: %s %v, want 400 and invalid_grant", status, spent["error"])
				}
			})
		}
	}
}

func wantMembers(t *testing.T, members map[string]any, status string) {
	t.Helper()
	if status != "200 application/json" {
		t.Fatalf("status %s, error %v", status, members["error"])
	}
	if len(members) != 5 || members["scope"] != "read write" || members["expires_in"] != 300.0 || members["token_type"] != "Bearer" {
		t.Errorf("%d members, scope %v, expires_in %v, token_type %v; want 5, read write, 300, Bearer",
			len(members), members["scope"], members["expires_in"], members["token_type"])
	}
	for _, name := range []string{"refresh_token", "access_token"} {
		if text, _ := members[name].(string); len(text) < 40 || len(text) > 255 {
			t.Errorf("%s has %d characters", name, len(text))
		}
	}
}
