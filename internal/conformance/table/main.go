// Command table writes docs/reference/conformance.md from the tests of the repository. It
// is run at the root.
package main

import (
	"fmt"
	"os"

	"github.com/mintage/mintage/internal/conformance"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run() error {
	tests, err := conformance.Tests(".")
	if err != nil {
		return err
	}
	for _, fault := range conformance.Missing(tests) {
		fmt.Fprintln(os.Stderr, "table:", fault)
	}
	return os.WriteFile(conformance.Page, []byte(conformance.Write(tests)), 0o644)
}
