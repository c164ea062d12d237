package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/store/storetest"
)

// ambiguous fails the test unless err leaves open whether the write happened.
func ambiguous(t *testing.T, err error) {
	t.Helper()
	if err == nil || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v, want an error of unknown outcome", err)
	}
}

// others selects from the other sessions of the database. The caller appends a condition.
const others = ` FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND `

// ownServer starts a server for a test that breaks it.
func ownServer(t *testing.T) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAConnectionLostWithinAStatementLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	st, database := fresh(t)
	g := newGrant(1)
	create(t, st, g)
	// An update in another session holds the row's lock, so ours waits until its
	// connection is cut.
	end := make(chan struct{})
	go func() {
		defer close(end)
		server.Run(t, database, `BEGIN; UPDATE grants SET version = version; SELECT pg_sleep(2)`)
	}()
	defer func() { <-end }()
	soon(t, "the other update", func() bool {
		return server.Run(t, database, `SELECT count(*)`+others+`wait_event = 'PgSleep'`) == "1"
	})
	outcome := make(chan error, 1)
	go func() { outcome <- storetest.Replace(t.Context(), st, rotated(g, 2)) }()
	soon(t, "our update waiting", func() bool {
		return server.Run(t, database, `SELECT count(*)`+others+`wait_event_type = 'Lock'`) == "1"
	})
	server.Run(t, database, `SELECT pg_terminate_backend(pid)`+others+`wait_event_type = 'Lock'`)
	ambiguous(t, <-outcome)
	holds(t, st, g)
}

func TestIdleConnectionsThatDiedAreReplacedUnnoticed(t *testing.T) {
	t.Parallel()
	st, database := fresh(t)
	g := newGrant(1)
	create(t, st, g)
	for n := range 5 {
		server.Run(t, database, `SELECT pg_terminate_backend(pid)`+others+`true`)
		next := rotated(g, uint64(n))
		if err := storetest.Replace(t.Context(), st, next); err != nil {
			t.Errorf("the first operation after the connections died: %v", err)
		}
		g = next
		holds(t, st, g)
	}
}

func TestADatabaseThatBecomesReadOnlyIsBusyUntilItIsWritableAgain(t *testing.T) {
	t.Parallel()
	st, database := fresh(t)
	g := newGrant(1)
	create(t, st, g)
	if err := st.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	server.Run(t, database, `ALTER DATABASE `+database+` SET default_transaction_read_only = on`)
	server.Run(t, database, `SELECT pg_terminate_backend(pid)`+others+`true`)
	// Reads are refused too: the server may be an outdated standby by now.
	if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Grant: %v, want ErrBusy", err)
	}
	for name, err := range map[string]error{
		"CreateGrant": st.CreateGrant(t.Context(), newGrant(2)),
		"UpdateGrant": storetest.Replace(t.Context(), st, rotated(g, 2)),
		"a cutoff":    st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}}),
	} {
		// The write surely did not happen, so there is no need to find its outcome.
		if !errors.Is(err, store.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	if err := st.Ready(t.Context()); err == nil {
		t.Error("Ready although nothing can be written")
	}
	server.Run(t, "postgres", `ALTER DATABASE `+database+` RESET default_transaction_read_only`)
	if err := st.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	if err := storetest.Replace(t.Context(), st, rotated(g, 3)); err != nil {
		t.Errorf("a write after the fault has passed: %v", err)
	}
	if err := st.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

func TestAServerThatIsGoneIsBusyAtOnceAndServesAgainAfterItsReturn(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	st := open(t, own.URL(own.Database(t)))
	g := newGrant(1)
	create(t, st, g)
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	// The first write may only detect the failure by a connection that breaks.
	_ = storetest.Replace(t.Context(), st, rotated(g, 2))
	began := time.Now()
	for range 10 {
		if err := storetest.Replace(t.Context(), st, rotated(g, 2)); !errors.Is(err, store.ErrBusy) {
			t.Errorf("UpdateGrant without a server: %v, want ErrBusy", err)
		}
		if _, err := st.Grant(t.Context(), g.ID); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("Grant without a server: %v", err)
		}
	}
	_, listed := st.Grants(t.Context(), store.GrantFilter{Limit: 1})
	_, changed := st.Changes(t.Context(), 0)
	_, read := st.Client(t.Context(), "billing")
	for name, err := range map[string]error{"Grants": listed, "Changes": changed, "Client": read} {
		if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s without a server: %v, want ErrUnavailable in one line", name, err)
		}
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("20 refusals took %v", d)
	}
	if err := st.Ready(t.Context()); err == nil {
		t.Error("Ready without a server")
	}
	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := st.Ready(t.Context()); err != nil {
		t.Errorf("Ready after the server's return: %v", err)
	}
	holds(t, st, g)
	if err := storetest.Replace(t.Context(), st, rotated(g, 3)); err != nil {
		t.Errorf("UpdateGrant after the server's return: %v", err)
	}
}

// awaitStandby makes the server's commits wait for a standby, until the end of the test at
// most, because until then nothing else can be written.
func awaitStandby(t *testing.T, own *pgtest.Server, name string) {
	t.Helper()
	own.Run(t, "postgres", `ALTER SYSTEM SET synchronous_standby_names = '`+name+`'`)
	own.Run(t, "postgres", `SELECT pg_reload_conf()`)
	soon(t, "the setting", func() bool { return own.Run(t, "postgres", `SHOW synchronous_standby_names`) == name })
	if name == "" {
		return
	}
	t.Cleanup(func() { awaitStandby(t, own, "") })
	// Commits wait only after the checkpointer has read the setting, and no statement
	// shows when.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, err := pgx.Connect(ctx, own.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = conn.Exec(ctx, `SELECT pg_logical_emit_message(true, '', '')`)
		}
	}()
	soon(t, "a commit that waits for the standby", func() bool {
		return own.Run(t, "postgres", `SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND wait_event = 'SyncRep'`) == "1"
	})
}

// A server that has been replaced can still answer reads on open connections. Reads must
// detect this, too, even if they never stop.
func TestAServerThatConfirmsNothingIsNotReadFrom(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	st := open(t, own.URL(own.Database(t)))
	g := newGrant(1)
	create(t, st, g)
	st.Trust(300 * time.Millisecond)
	awaitStandby(t, own, "absent")
	refused := 0
	for began := time.Now(); refused < 3; {
		switch got, err := st.Grant(t.Context(), g.ID); {
		case errors.Is(err, store.ErrBusy):
			refused++
		case err != nil || got != g || refused > 0:
			t.Fatalf("Grant = %v, %v after %d refusals", got, err, refused)
		case time.Since(began) > time.Minute:
			t.Fatal("reads never fail")
		}
	}
	// Both have less time than a new connection has for confirming a write.
	for name, try := range map[string]func(context.Context) error{
		"Ready": st.Ready,
		"Heartbeat": func(ctx context.Context) error {
			_, err := st.Heartbeat(ctx, store.Node{Since: base, Clock: base + 1})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := try(ctx); err == nil || !strings.Contains(err.Error(), "did not confirm a write in time") || !errors.Is(err, store.ErrBusy) {
			t.Errorf("%s = %v, want the cause", name, err)
		}
		cancel()
	}
	awaitStandby(t, own, "")
	holds(t, st, g)
}

// A transaction that changed the directory is left open, for example because its machine
// has stopped. New connections must still be possible.
func TestALockOnTheDirectoryKeepsNobodyFromConnecting(t *testing.T) {
	t.Parallel()
	st, database := fresh(t)
	g := newGrant(1)
	create(t, st, g)
	conn, err := pgx.Connect(t.Context(), server.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN; UPDATE directory SET version = version WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	other := open(t, server.URL(database))
	holds(t, other, g)
	if err := storetest.Replace(t.Context(), other, rotated(g, 2)); err != nil {
		t.Error(err)
	}
	if _, err := other.Heartbeat(t.Context(), store.Node{ID: store.NodeID{1}}); err != nil {
		t.Error(err)
	}
}

// A commit that waits for its standby must neither be acknowledged nor be visible: if the
// primary were lost now, the commit would be lost with it.
func TestACommitThatNoStandbyHasConfirmedIsNeitherAcknowledgedNorShown(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	database := own.Database(t)
	// These connections were made before, because there are no new ones while no standby
	// answers.
	const idle = 6
	open(t, own.URL(database)) // so that there is something to confirm
	url := own.URL(database, fmt.Sprint("pool_min_idle_conns=", idle))
	st, other := open(t, url), open(t, url)
	for _, s := range []*postgres.Store{st, other} {
		s.Trust(time.Hour) // the result does not depend on this trust
	}
	g, second := newGrant(1), newGrant(2)
	create(t, st, g, second)
	soon(t, "idle connections", func() bool {
		n, err := strconv.Atoi(own.Run(t, database, `SELECT count(*)`+others+`state = 'idle'`))
		return err == nil && n >= 2*idle
	})
	waits := func(n string) func() bool {
		return func() bool {
			return own.Run(t, database, `SELECT count(*)`+others+`wait_event = 'SyncRep'`) == n
		}
	}
	awaitStandby(t, own, "absent")

	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() { outcome <- storetest.Replace(ctx, st, rotated(g, 2)) }()
	soon(t, "a commit that waits", waits("1"))
	cancel()
	ambiguous(t, <-outcome)
	holds(t, other, g)
	// A transaction whose connection is closed by its caller must not become visible
	// either.
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		outcome <- st.Commit(ctx, store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}})
	}()
	soon(t, "another commit that waits", waits("2"))
	cancel()
	ambiguous(t, <-outcome)
	if ch, err := other.Changes(t.Context(), 0); err != nil || len(ch.Cutoffs) != 0 {
		t.Errorf("%d cutoffs shown, %v", len(ch.Cutoffs), err)
	}
	soon(t, "both still waiting", waits("2"))
	began := time.Now()
	// A new connection is not trusted either: what it reads may be lost with the server.
	if st, err := postgres.Open(t.Context(), postgres.Database{URL: own.URL(database)}); err == nil {
		st.Close()
		t.Error("a server without its standby was trusted")
	}

	// An administrator cancels the wait: the server reports success, with a warning.
	go func() { outcome <- storetest.Replace(t.Context(), st, rotated(second, 3)) }()
	soon(t, "a third commit that waits", waits("3"))
	own.Run(t, database, `SELECT pg_cancel_backend(pid)`+others+`wait_event = 'SyncRep' AND query LIKE 'UPDATE grants%'`)
	ambiguous(t, <-outcome)
	soon(t, "the commit whose wait was cancelled", func() bool { // the warning can precede the visibility of the commit
		got, err := other.Grant(t.Context(), second.ID)
		return err == nil && got == rotated(second, 3)
	})

	// The batch has a timeout of five seconds. The other commit still waits after that.
	for ; !time.Now().After(began.Add(6 * time.Second)); time.Sleep(100 * time.Millisecond) {
		if own.Run(t, database, `SELECT count(*)`+others+`wait_event = 'SyncRep' AND query = 'commit'`) != "1" {
			t.Fatal("the wait of a commit was cancelled")
		}
	}

	awaitStandby(t, own, "")
	soon(t, "the first commit", func() bool {
		got, err := other.Grant(t.Context(), g.ID)
		return err == nil && got == rotated(g, 2)
	})
	g = rotated(g, 2)
	if err := storetest.Replace(t.Context(), st, rotated(g, 4)); err != nil {
		t.Errorf("a write after the fault has passed: %v", err)
	}
}

func TestASerializationFailureIsRetriedUntilTheTimeout(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	// The first three tries of each attempt fail with serialization errors, like those of
	// a distributed engine.
	server.Run(t, "postgres", `
		CREATE SEQUENCE `+name+`.tried;
		CREATE FUNCTION `+name+`.outrun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.attempt = 1 OR nextval('`+name+`.tried') % 4 <> 0 THEN RAISE EXCEPTION 'again' USING ERRCODE = CASE WHEN NEW.attempt % 2 = 0 THEN '40001' ELSE '40P01' END; END IF;
			RETURN NEW; END $$;
		CREATE TRIGGER outrun BEFORE UPDATE ON `+name+`.grants FOR EACH ROW EXECUTE FUNCTION `+name+`.outrun()`)
	g := newGrant(0)
	create(t, st, g)
	for n := range 4 {
		asked := 0
		err := st.UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
			asked++
			return rotated(have, uint64(n)+2), nil
		})
		g = rotated(g, uint64(n)+2)
		if err != nil || asked != 4 {
			t.Errorf("UpdateGrant: %v after %d decisions, want 4", err, asked)
		}
		holds(t, st, g)
	}
	const span = 200 * time.Millisecond
	var late []time.Duration
	for len(late) < 5 { // a busy machine may be late, but not each time
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		began := time.Now()
		if err := storetest.Replace(ctx, st, rotated(g, 1)); err == nil || errors.Is(err, store.ErrConflict) {
			t.Errorf("an update that always fails with a serialization error: %v", err)
		}
		d := time.Since(began) - span
		if d <= 2*time.Second {
			break
		}
		late = append(late, d)
	}
	if len(late) == 5 {
		t.Errorf("it returned %v after its time", late)
	}
	holds(t, st, g)
}
