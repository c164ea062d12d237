package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

func TestExamineReportsTheServersSettings(t *testing.T) {
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
	if c.Settings["server_version"] == "" || c.Standby || c.Encrypted || c.Denied != "" || c.Dead < 0 {
		t.Errorf("Examine = %+v", c)
	}
	if nodes, err := st.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].Name != "a" {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	if err := st.TryWrite(t.Context()); err != nil {
		t.Error(err)
	}
}

// guest creates a user that owns nothing, and returns a URL with that user.
func guest(t *testing.T, schema, url, rights string) string {
	t.Helper()
	server.Run(t, "postgres", "CREATE ROLE guest_"+schema+" LOGIN; GRANT USAGE ON SCHEMA "+schema+" TO guest_"+schema+"; "+strings.ReplaceAll(rights, "GUEST", "guest_"+schema))
	t.Cleanup(func() { server.Run(t, "postgres", "DROP OWNED BY guest_"+schema+"; DROP ROLE guest_"+schema) })
	return strings.Replace(url, "mintage@", "guest_"+schema+"@", 1)
}

func TestExamineNamesTablesThatTheUserMayNotChange(t *testing.T) {
	t.Parallel()
	schema, url := server.Schema(t)
	open(t, url)
	st := open(t, guest(t, schema, url, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO GUEST; REVOKE DELETE ON "+schema+".grants FROM GUEST; REVOKE SELECT ON "+schema+".events FROM GUEST"))
	if c, err := st.Examine(t.Context()); err != nil || c.Denied != "events, grants" {
		t.Errorf("Examine = %+v, %v", c, err)
	}
}

func TestARefusalAtTheStartNamesWhatTheServerLacks(t *testing.T) {
	t.Parallel()
	schema, url := server.Schema(t)
	open(t, url)
	refused := func(url, want string) {
		t.Helper()
		st, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
		if err == nil {
			st.Close()
			t.Fatalf("%s was opened", url)
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "is the server running") {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	refused(guest(t, schema, url, ""), "needs SELECT, INSERT, UPDATE and DELETE on the tables")
	refused(url+"&default_transaction_read_only=on", "default_transaction_read_only is on")

	// A commit that waits for its standby is not confirmed, like one that waits for a
	// lock.
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "BEGIN; UPDATE pulse SET beats = beats"); err != nil {
		t.Fatal(err)
	}
	refused(url+"&connect_timeout=1", "wait for a synchronous standby")
}
