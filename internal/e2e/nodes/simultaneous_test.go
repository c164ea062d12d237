//go:build e2e

package nodes

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A cluster is some nodes, open connections to each of them, and a client for single
// requests.
type cluster struct {
	nodes  []*binary.Server
	lines  binary.Lines
	client *http.Client
}

func open(t *testing.T, n int, args ...string) *cluster {
	t.Helper()
	c := &cluster{nodes: start(t, n, args...)}
	c.lines = binary.Connect(t, 2*n, c.nodes...)
	c.client = &http.Client{Transport: c.nodes[0].Transport(t, "")}
	return c
}

// node returns the i-th node, modulo their number.
func (c *cluster) node(i int) *binary.Server { return c.nodes[i%len(c.nodes)] }

func (c *cluster) code(t *testing.T, i int) string {
	t.Helper()
	code, err := c.node(i).FastCode(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// post sends one request to a node and requires a status; with 400, also invalid_grant.
func (c *cluster) post(t *testing.T, i int, form url.Values, status int) binary.Answer {
	t.Helper()
	a, err := c.node(i).Post(t.Context(), c.client, form)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != status || status == http.StatusBadRequest && a.Error != "invalid_grant" {
		t.Fatalf("node %d answers %d %s %q, want %d", i%len(c.nodes), a.Status, a.Error, a.Description, status)
	}
	return a
}

// sizes runs f on clusters of one, two and three nodes, with a number of rounds.
func sizes(t *testing.T, args []string, f func(t *testing.T, c *cluster, rounds int)) {
	for n, rounds := range map[int]int{1: binary.Scaled(25, 250), 2: binary.Scaled(25, 250), 3: binary.Scaled(100, 1000)} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			t.Parallel()
			f(t, open(t, n, args...), rounds)
		})
	}
}

// TestTC20_OneCodeAtAllNodesHasOneWinner sends one code to all nodes simultaneously. All
// but one request are replays, so the winner's tokens are revoked in the end, on every
// node.
func TestTC20_OneCodeAtAllNodesHasOneWinner(t *testing.T) {
	t.Parallel()
	sizes(t, nil, func(t *testing.T, c *cluster, rounds int) {
		for i := range rounds {
			winner := binary.OneWinner(t, c.lines.Together(t, c.nodes[0].ExchangeForm(c.code(t, i))))
			c.post(t, i+1, c.nodes[0].RefreshForm(winner.RefreshToken), http.StatusBadRequest)
		}
	})
}

// TestTR12_OneRefreshTokenAtAllNodesHasOneSuccessor sends one refresh token to all nodes
// simultaneously, inside the retry window: every node returns the same pair.
func TestTR12_OneRefreshTokenAtAllNodesHasOneSuccessor(t *testing.T) {
	t.Parallel()
	sizes(t, nil, func(t *testing.T, c *cluster, rounds int) {
		for i := range rounds {
			first := c.post(t, i, c.nodes[0].ExchangeForm(c.code(t, i)), http.StatusOK)
			pair := binary.OnePair(t, c.lines.Together(t, c.nodes[0].RefreshForm(first.RefreshToken)))
			// The successor is valid; once a client has used it, the old token is a
			// replay.
			second := c.post(t, i+1, c.nodes[0].RefreshForm(pair.RefreshToken), http.StatusOK)
			c.post(t, i+2, c.nodes[0].RefreshForm(first.RefreshToken), http.StatusBadRequest)
			c.post(t, i, c.nodes[0].RefreshForm(second.RefreshToken), http.StatusBadRequest)
		}
	})
}

// TestTR12_OneRefreshTokenAtAllNodesWithoutWindowHasOneWinner does the same with
// retry_window 0: one request rotates the token, the others are replays and revoke the
// family.
func TestTR12_OneRefreshTokenAtAllNodesWithoutWindowHasOneWinner(t *testing.T) {
	t.Parallel()
	sizes(t, []string{"--retry-window", "0s"}, func(t *testing.T, c *cluster, rounds int) {
		for i := range rounds {
			first := c.post(t, i, c.nodes[0].ExchangeForm(c.code(t, i)), http.StatusOK)
			winner := binary.OneWinner(t, c.lines.Together(t, c.nodes[0].RefreshForm(first.RefreshToken)))
			c.post(t, i+1, c.nodes[0].RefreshForm(winner.RefreshToken), http.StatusBadRequest)
			c.post(t, i+2, c.nodes[0].RefreshForm(first.RefreshToken), http.StatusBadRequest)
		}
	})
}
