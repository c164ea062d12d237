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
	for _, m := range conformance.Mutations {
		source, err := os.ReadFile(filepath.Join("../..", m.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.Apply(source); err != nil {
			t.Error(err)
		}
	}
}
