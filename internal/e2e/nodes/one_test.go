//go:build e2e

package nodes

import (
	"net/http"
	"testing"
)

// TestOP04_NodesReadEachOthersWrites hands a grant from node to node.
func TestOP04_NodesReadEachOthersWrites(t *testing.T) {
	nodes := start(t, 3)
	code, err := nodes[1].FastCode(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: nodes[0].Transport(t, "")}
	a, err := nodes[2].Post(t.Context(), client, nodes[2].ExchangeForm(code))
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%+v, %v", a, err)
	}
	for i := range 6 {
		n := nodes[i%3]
		next, err := n.Post(t.Context(), client, n.RefreshForm(a.RefreshToken))
		if err != nil || next.Status != http.StatusOK || next.RefreshToken == a.RefreshToken {
			t.Fatalf("refresh %d: %+v, %v", i, next, err)
		}
		a = next
	}
}
