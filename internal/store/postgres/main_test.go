package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// server serves all tests of the package, each in a database of its own.
var server *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	settings := []string{"shared_preload_libraries=pg_stat_statements"}
	if flag.Lookup("test.bench").Value.String() == "" {
		// Tests of what survives a crash have servers of their own, and the power
		// stays on.
		settings = append(settings, "fsync=off")
	}
	var err error
	if server, err = pgtest.Start(settings...); err != nil {
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
