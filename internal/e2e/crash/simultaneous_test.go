//go:build e2e

package crash

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const simultaneous = 64

// A session is a server, many open connections to it, and a client for single requests.
type session struct {
	*binary.Server
	lines  binary.Lines
	client *http.Client
}

func open(t *testing.T, args ...string) session {
	s := binary.Start(t, t.TempDir(), args...)
	return session{s, binary.Connect(t, simultaneous, s), &http.Client{Transport: s.Transport(t, "")}}
}

func (s session) code(t *testing.T) string {
	t.Helper()
	code, err := s.FastCode(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// post sends one request and requires a status; with 400, also invalid_grant.
func (s session) post(t *testing.T, form url.Values, status int) binary.Answer {
	t.Helper()
	a, err := s.Post(t.Context(), s.client, form)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != status || status == http.StatusBadRequest && a.Error != "invalid_grant" {
		t.Fatalf("answer %d %s %q, want %d", a.Status, a.Error, a.Description, status)
	}
	return a
}

// TestTC19_SimultaneousRedemptionsHaveOneWinner redeems one code many times
// simultaneously. All but one are replays, so the winner's tokens are revoked in the end
// (RFC 6749 section 4.1.2).
func TestTC19_SimultaneousRedemptionsHaveOneWinner(t *testing.T) {
	s := open(t)
	for range binary.Scaled(20, 200) {
		winner := binary.OneWinner(t, s.lines.Together(t, s.ExchangeForm(s.code(t))))
		s.post(t, s.RefreshForm(winner.RefreshToken), http.StatusBadRequest)
	}
}

// TestTR13_SimultaneousRefreshesGetOnePair presents one refresh token many times
// simultaneously, inside the retry window: all requests get the same successor.
func TestTR13_SimultaneousRefreshesGetOnePair(t *testing.T) {
	s := open(t)
	for range binary.Scaled(10, 100) {
		first := s.post(t, s.ExchangeForm(s.code(t)), http.StatusOK)
		pair := binary.OnePair(t, s.lines.Together(t, s.RefreshForm(first.RefreshToken)))
		// The successor is valid; once a client has used it, the old token is a replay.
		second := s.post(t, s.RefreshForm(pair.RefreshToken), http.StatusOK)
		s.post(t, s.RefreshForm(first.RefreshToken), http.StatusBadRequest)
		s.post(t, s.RefreshForm(second.RefreshToken), http.StatusBadRequest)
	}
}

// TestTR11_SimultaneousRefreshesWithoutWindowHaveOneWinner does the same with
// retry_window 0: one request rotates the token, the others are replays and revoke the
// family.
func TestTR11_SimultaneousRefreshesWithoutWindowHaveOneWinner(t *testing.T) {
	s := open(t, "--retry-window", "0s")
	for range binary.Scaled(10, 100) {
		first := s.post(t, s.ExchangeForm(s.code(t)), http.StatusOK)
		winner := binary.OneWinner(t, s.lines.Together(t, s.RefreshForm(first.RefreshToken)))
		s.post(t, s.RefreshForm(winner.RefreshToken), http.StatusBadRequest)
		s.post(t, s.RefreshForm(first.RefreshToken), http.StatusBadRequest)
	}
}
