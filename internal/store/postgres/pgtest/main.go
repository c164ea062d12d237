package pgtest

import (
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests with a server of theirs, which it puts into
// server, and returns the exit code.
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
