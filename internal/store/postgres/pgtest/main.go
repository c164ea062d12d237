package pgtest

import (
	"fmt"
	"os"
	"testing"
)

// Main starts a server for a package's tests, sets *server to it, runs the tests,
// and returns the exit code.
func Main(m *testing.M, server **Server, settings ...string) (code int) {
	var err error
	if *server, err = Start(settings...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := (*server).Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}
