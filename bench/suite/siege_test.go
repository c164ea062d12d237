package main

import (
	"os"
	"strings"
	"testing"
)

// TestEachSharedTableHasALoad: each table in the threat model that both kinds of clients
// fill has a load here, or a reason why it cannot be filled.
func TestEachSharedTableHasALoad(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## What clients that registered themselves share with operators' clients\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("the threat model has no such section")
	}
	rows := map[string]int{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && !strings.Contains(cells[1], "---") && strings.TrimSpace(cells[1]) != "table" {
			rows[strings.TrimSpace(cells[1])]++
		}
	}
	if len(rows) < 15 {
		t.Fatalf("the threat model lists %d tables", len(rows))
	}
	for _, s := range sieges {
		for _, table := range s.fills {
			rows[table.name]--
			if table.full <= 0 {
				t.Errorf("%s: nothing shows that it is full", table.name)
			}
		}
	}
	for _, table := range unfilled {
		rows[table.name]--
	}
	for name, n := range rows {
		if n != 0 {
			t.Errorf("%q: %+d rows of the threat model more than loads", name, n)
		}
	}
}
