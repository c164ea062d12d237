package main

import (
	"os"
	"testing"
)

func TestPageIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page() {
		t.Errorf("%s is stale: run make docs", file)
	}
}
