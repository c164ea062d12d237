package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A write surely did not happen only if the server reports that it was undone.
func TestOnlyARefusalSaysThatNothingWasWritten(t *testing.T) {
	for _, c := range []struct{ code, severity, want string }{
		{"23505", "ERROR", "refused"}, // unique violation
		{"22P02", "ERROR", "refused"}, // invalid text
		{"53100", "ERROR", "refused"}, // disk full
		{"P0001", "ERROR", "refused"}, // raised by a trigger
		{"40001", "ERROR", "outrun"},
		{"40P01", "ERROR", "outrun"},
		{"55P03", "ERROR", "outrun"},
		{"25006", "ERROR", "unsent"},  // read-only
		{"40003", "ERROR", "unknown"}, // statement completion unknown
		{"23505", "FATAL", "unknown"}, // the session ends, perhaps while the commit waits for a standby
		{"P0001", "PANIC", "unknown"},
		{"53100", "", "unknown"},
		{"08006", "ERROR", "unknown"},
		{"57014", "ERROR", "unknown"}, // a cancelled wait for a standby
		{"57P01", "FATAL", "unknown"},
		{"58030", "ERROR", "unknown"},
		{"XX000", "ERROR", "unknown"},
	} {
		err := fmt.Errorf("write grants: %w", &pgconn.PgError{Code: c.code, SeverityUnlocalized: c.severity})
		if got := postgres.Judge(err); got != c.want {
			t.Errorf("%s %s is %s, want %s", c.severity, c.code, got, c.want)
		}
	}
	for err, want := range map[error]string{
		nil: "fine", errors.New("read: connection reset"): "unknown", fmt.Errorf("x: %w", store.ErrBusy): "unsent",
	} {
		if got := postgres.Judge(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

// An operation that was written before its batch failed keeps its outcome.
func TestAWrittenOperationKeepsItsOutcomeWhenItsBatchFails(t *testing.T) {
	t.Parallel()
	if err := postgres.SettledTwice(nil, errors.New("the batch's")); err != nil {
		t.Errorf("a write that happened returned %v", err)
	}
	name, url := server.Schema(t)
	st := open(t, url)
	plain, recorded := newGrant(1), newGrant(2)
	create(t, st, plain, recorded)
	// The plain updates of a batch run before those with events. The latter fail with an
	// unknown outcome.
	server.Run(t, "postgres", `CREATE FUNCTION `+name+`.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fault' USING ERRCODE = '40003'; END $$;
		CREATE TRIGGER fault BEFORE INSERT ON `+name+`.events FOR EACH ROW EXECUTE FUNCTION `+name+`.fault()`)
	errs := together(t, st, postgres.Updates, 2, func(n int) error {
		if n == 0 {
			return storetest.Replace(t.Context(), st, rotated(plain, 3))
		}
		return storetest.Replace(t.Context(), st, rotated(recorded, 3), store.Event{At: base, Name: store.EventGrantRevoked, About: recorded.ID.String()})
	})
	if errs[0] != nil {
		t.Errorf("a write that happened returned %v", errs[0])
	}
	ambiguous(t, errs[1])
	holds(t, st, rotated(plain, 3))
	holds(t, st, recorded)
}

// A change that fails because the disk is full gets an error that does not blame the
// request.
func TestAFullDiskIsAnOutageForChanges(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	server.Run(t, "postgres", `CREATE FUNCTION `+name+`.no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER no_space BEFORE INSERT ON `+name+`.cutoffs FOR EACH ROW EXECUTE FUNCTION `+name+`.no_space()`)
	err := st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "could not extend file") {
		t.Errorf("error %v", err)
	}
}

// If a change of several documents finds the disk full, the node is not ready until a test
// write finds room.
func TestAFullDiskOfATransactionMakesTheStoreUnready(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	server.Run(t, "postgres", `CREATE FUNCTION `+name+`.no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER no_space BEFORE INSERT ON `+name+`.documents FOR EACH ROW EXECUTE FUNCTION `+name+`.no_space()`)
	var documents []store.Document
	for _, of := range []string{"first", "second"} {
		documents = append(documents, store.Document{Kind: store.DocumentLogout, Key: store.KeyOf("logout", "", of), Version: 1, ExpiresAt: base.Add(time.Hour), Body: []byte("{}")})
	}
	if err := st.Commit(t.Context(), store.Change{Documents: documents}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	if err := st.Ready(t.Context()); err == nil {
		t.Error("the store is ready")
	}
	server.Run(t, "postgres", `DROP TRIGGER no_space ON `+name+`.documents`)
	if err := st.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// An operator may set a lock_timeout for the user. Statements that it ends are tried
// again.
func TestAChangeOutlastsLockTimeouts(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t, "lock_timeout=20ms")
	st := open(t, url)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE `+name+`.cutoffs`); err != nil {
		t.Fatal(err)
	}
	outcome := make(chan error, 1)
	go func() {
		outcome <- st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}})
	}()
	soon(t, "a lock timeout", func() bool {
		return strings.Contains(server.Log(), "lock timeout")
	})
	if _, err := conn.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Error(err)
	}
}

// A row that changes between the sweep's select and its delete stays, even if it is still
// due.
func TestTheSweepLeavesAGrantThatHasChangedSinceItLooked(t *testing.T) {
	t.Parallel()
	st, database := fresh(t)
	g := newGrant(1)
	create(t, st, g)
	conn, err := pgx.Connect(t.Context(), server.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN; UPDATE grants SET version = version + 1, attempt = 7`); err != nil {
		t.Fatal(err)
	}
	deleted, outcome := 0, make(chan error, 1)
	go func() {
		_, n, err := st.Sweep(t.Context(), store.SweptGrants, "", g.DeleteAfter+1, 10)
		deleted = n
		outcome <- err
	}()
	soon(t, "the deletion waiting for the update", func() bool {
		return server.Run(t, database, `SELECT count(*)`+others+`wait_event_type = 'Lock'`) == "1"
	})
	if _, err := conn.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil || deleted != 0 {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	g.Version, g.Attempt = g.Version+1, 7
	holds(t, st, g)
}
