package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// server serves all tests of the package, each in a database of its own.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	if server, err = pgtest.Start("shared_preload_libraries=pg_stat_statements"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}
