//go:build e2e

package upgrade

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// spell is how long the clients work in each state of an upgrade, in rounds and time.
func spell() (rounds int64, d time.Duration) {
	return int64(binary.Scaled(12, 500)), time.Duration(binary.Scaled(100, 20_000)) * time.Millisecond
}

// become returns a function that restarts a node with another program.
func become(t *testing.T, program string) func(*binary.Server) {
	return func(n *binary.Server) {
		if err := n.Stop(); err != nil {
			t.Errorf("%v\n%s", err, n.Log())
		}
		if strings.Contains(n.Log(), `"level":"ERROR"`) {
			t.Errorf("the log of the node that was stopped holds an error:\n%s", n.Log())
		}
		n.Program = program
		if err := n.Restart(t); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOP14_OldAndNewNodesServeOneStoreUnderLoad upgrades the nodes on PostgreSQL one
// after the other, and then downgrades them again, while clients use all nodes.
func TestOP14_OldAndNewNodesServeOneStoreUnderLoad(t *testing.T) {
	t.Parallel()
	programs(t)
	_, url := database.Schema(t)
	first := binary.StartProgram(t, old, t.TempDir(), "--store", url)
	second := first.Peer(t)
	kept, err := first.FastCode(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	l := begin(t, 4, first, second)
	defer l.end()
	pair, err := l.post(first.ExchangeForm(kept), true)
	if err != nil {
		t.Fatal(err)
	}
	rounds, d := spell()
	for _, step := range []struct {
		name    string
		node    int
		program string
	}{
		{"old and old", 0, ""},
		{"old and new", 1, new}, {"new and new", 0, new},
		{"new and old again", 1, old}, {"old and old again", 0, old},
	} {
		if step.program != "" {
			l.without(step.node, become(t, step.program))
		}
		l.lasts(rounds, d)
		// Grants of before the upgrade must keep working.
		if pair, err = l.post(first.RefreshForm(pair.RefreshToken), true); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		// Commands of either program can read what the other one has written.
		for _, program := range []string{old, new} {
			cmd := exec.Command(program, "grant", "list", "--data", t.TempDir(), "--store", url, "--subject", "kept")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "active") {
				t.Fatalf("%s: %s: %v\n%s", step.name, cmd, err, out)
			}
		}
		t.Logf("%s: %d rounds until here", step.name, l.rounds.Load())
	}
}

// TestOP14_ASingleNodeGoesOnAsTheNewProgram upgrades a node with SQLite: it stops the old
// program and starts the new one on the same directory.
func TestOP14_ASingleNodeGoesOnAsTheNewProgram(t *testing.T) {
	t.Parallel()
	programs(t)
	node := binary.StartProgram(t, old, t.TempDir())
	code, err := node.FastCode(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	l := begin(t, 4, node)
	defer l.end()
	pair, err := l.post(node.ExchangeForm(code), true)
	if err != nil {
		t.Fatal(err)
	}
	unredeemed, err := node.FastCode(t.Context(), "late")
	if err != nil {
		t.Fatal(err)
	}
	rounds, d := spell()
	l.lasts(rounds, d)
	l.without(0, become(t, new))
	l.lasts(rounds, d)
	if pair, err = l.post(node.RefreshForm(pair.RefreshToken), true); err != nil {
		t.Error(err)
	}
	if _, err = l.post(node.ExchangeForm(unredeemed), true); err != nil {
		t.Error(err)
	}
	if _, err = l.post(node.ExchangeForm(code), false); err != nil {
		t.Errorf("a code that was redeemed at the old program: %v", err)
	}

	// The old program may refuse the new program's store, but must not damage it.
	l.without(0, func(n *binary.Server) {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		n.Program = old
		if err := n.Restart(t); err != nil {
			if !strings.Contains(err.Error(), "version") {
				t.Errorf("the old program refuses the store without saying why: %v", err)
			}
			n.Program = new
			if err := n.Restart(t); err != nil {
				t.Fatal(err)
			}
		}
	})
	l.lasts(rounds, d)
}
