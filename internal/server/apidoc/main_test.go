package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const root = "../../.."

func TestWhatIsMadeFromTheDocumentIsCurrent(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: make docs", name)
		}
	}
}

func TestMergesAliasesAndOrderAreKept(t *testing.T) {
	v, err := parse([]byte("b: &one {y: 1, x: [2, three]}\na: {<<: *one, y: '4'}\nx-headers: {}\nc: *one\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"b": {"y": 1, "x": [2, "three"]}, "a": {"y": "4", "x": [2, "three"]}, "c": {"y": 1, "x": [2, "three"]}}`
	if got := v.json(0); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := parse([]byte("a: {b: 1, b: 2}")); err == nil {
		t.Error("a member that is there twice is accepted")
	}
}
