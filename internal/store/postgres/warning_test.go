package postgres_test

import "testing"

// After an upgrade of the collation library, PostgreSQL warns at the start of each
// connection, until the indexes have been rebuilt.
func TestAServerThatWarnsAtEachConnectionsStartIsUsed(t *testing.T) {
	t.Parallel()
	const database = "of_an_older_system"
	server.Run(t, "postgres", `CREATE DATABASE `+database+` TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en' LOCALE 'C'`)
	t.Cleanup(func() { server.Run(t, "postgres", `DROP DATABASE `+database+` WITH (FORCE)`) })
	server.Run(t, "postgres", `UPDATE pg_database SET datcollversion = '1' WHERE datname = '`+database+`'`)
	st := open(t, server.URL(database))
	g := newGrant(1)
	create(t, st, g)
	holds(t, st, g)
}

// Some engines ignore the storage parameter with a warning.
func TestAWriteAfterAMigrationWithAWarningSucceeds(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	server.Run(t, database, `CREATE SCHEMA other;
		CREATE FUNCTION other.warn() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'ignored'; END $$;
		CREATE EVENT TRIGGER warn ON ddl_command_end EXECUTE FUNCTION other.warn()`)
	// With a single connection, the write uses the connection that got the warning.
	st := open(t, server.URL(database, "pool_max_conns=1"))
	g := newGrant(1)
	create(t, st, g)
	holds(t, st, g)
	if err := st.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
