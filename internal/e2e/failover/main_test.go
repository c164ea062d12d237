//go:build e2e

package failover

import (
	"flag"
	"os"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Run the tests in parallel: they wait more than they compute. In the long form run
	// them one by one, because it measures.
	at := "4"
	if binary.Soak() {
		at = "1"
	}
	if err := flag.Set("test.parallel", at); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
