package binary

import "testing"

// A program takes a moment until it listens, and one that was killed listens no more.
func TestNoTwoTestsGetTheSameFreeAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		address := FreeAddress(t, "127.0.0.1")
		if seen[address] {
			t.Fatalf("%s twice", address)
		}
		seen[address] = true
	}
}
