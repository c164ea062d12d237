//go:build e2e

// Package nodes runs several servers on one PostgreSQL, as providers do who need high
// availability.
package nodes

import (
	"os"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

var database *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &database)) }

// start runs some nodes on a store of their own.
func start(t *testing.T, n int, args ...string) []*binary.Server {
	t.Helper()
	_, url := database.Schema(t)
	nodes := []*binary.Server{binary.Start(t, t.TempDir(), append([]string{"--store", url}, args...)...)}
	for range n - 1 {
		nodes = append(nodes, nodes[0].Peer(t))
	}
	return nodes
}
