package conformance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/conformance"
)

func TestTableIsCurrent(t *testing.T) {
	const root = "../.."
	tests, err := conformance.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range conformance.Missing(tests) {
		t.Error(fault)
	}
	page, err := os.ReadFile(filepath.Join(root, conformance.Page))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != conformance.Write(tests) {
		t.Errorf("%s is stale: go run ./internal/conformance/table", conformance.Page)
	}
}

// A mutation whose text is gone would prove nothing.
func TestMutationsApply(t *testing.T) {
	declarations, err := conformance.Declarations("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range conformance.Mutations {
		if _, _, err := m.Apply("../..", declarations); err != nil {
			t.Error(err)
		}
	}
}
