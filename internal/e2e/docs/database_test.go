//go:build e2e

package docs

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// startDatabase starts a PostgreSQL for a page and returns its address. The administrator
// postgres needs no password, as on a reader's machine; all other roles need one.
func startDatabase(t *testing.T) (address string, err error) {
	server, err := pgtest.Start()
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server.URL("postgres"))
	if err != nil {
		return "", err
	}
	for _, step := range []struct{ user, text string }{
		{"mintage", `CREATE ROLE postgres SUPERUSER LOGIN`},
		// The page creates the role mintage itself.
		{"postgres", `ALTER ROLE mintage RENAME TO made_by_initdb`},
		{"postgres", `DO $$ BEGIN EXECUTE format('COPY (VALUES (''host all postgres 127.0.0.1/32 trust''), (''host all all 127.0.0.1/32 scram-sha-256'')) TO %L',
			current_setting('hba_file')); END $$`},
		{"postgres", `SELECT pg_reload_conf()`},
	} {
		psql := exec.Command("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", step.text)
		psql.Env = append(os.Environ(), "PGHOST="+u.Hostname(), "PGPORT="+u.Port(), "PGUSER="+step.user)
		if out, err := psql.CombinedOutput(); err != nil {
			return "", fmt.Errorf("psql: %w\n%s", err, out)
		}
	}
	return u.Host, nil
}
