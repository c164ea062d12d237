package postgres_test

import (
	"testing"

	"github.com/mintage/mintage/internal/store"
)

func TestExamineTellsWhatTheServerSaysOfItself(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	if _, err := st.Heartbeat(t.Context(), store.Node{ID: store.NodeID{1}, Name: "a", Since: base, Clock: base}); err != nil {
		t.Fatal(err)
	}
	c, err := st.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The servers of these tests run without fsync.
	for name, want := range map[string]string{"fsync": "off", "synchronous_commit": "on", "autovacuum": "on", "transaction_read_only": "off", "synchronous_standby_names": ""} {
		if got, known := c.Settings[name]; !known || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if c.Settings["server_version"] == "" || c.Standby || c.Encrypted || c.Dead < 0 {
		t.Errorf("Examine = %+v", c)
	}
	if len(c.Nodes) != 1 || c.Nodes[0].Name != "a" {
		t.Errorf("nodes: %+v", c.Nodes)
	}
	if err := st.TryWrite(t.Context()); err != nil {
		t.Error(err)
	}
}
