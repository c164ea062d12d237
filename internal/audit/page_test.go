package audit

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const page = "../../docs/reference/events.md"

// The page and the program list the same events.
func TestThePageListsEveryEvent(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Events\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var listed []Name
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			listed = append(listed, Name(name[1]))
		}
	}
	for _, name := range Names() {
		if n := len(slices.DeleteFunc(slices.Clone(listed), func(l Name) bool { return l != name })); n != 1 {
			t.Errorf("%s stands %d times on the page", name, n)
		}
	}
	for _, name := range listed {
		if !slices.Contains(Names(), name) {
			t.Errorf("the page has %s, which does not exist", name)
		}
	}
}

// The example is what the program would write.
func TestTheExampleOfThePageIsALine(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	prev, ok := ParseHash("c1b4c2f3f4cf1e9f4e1f0d4be1ab6dc43a0e0f4a3c0f2f9f3a4e1c5d6b7a8f90")
	if !ok {
		t.Fatal("the page's example has no hash")
	}
	want := appendLine(nil, &Event{
		Name: "refresh_replayed", Outcome: Refused, Time: time.Date(2026, 11, 21, 9, 30, 0, 123e6, time.UTC), Realm: "/api", ClientID: "billing",
		Subject: "alice", GrantID: "0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b", Generation: 7, RequestID: "5f2b6c0e9a1d4473",
		RemoteIP: netip.MustParseAddr("192.0.2.7"), Actor: "billing", Detail: "generation 5 presented from 192.0.2.7, request 5f2b6c0e9a1d4473",
	}, 1042, prev, &author{node: "auth1"})
	body, mac, ok := cutMAC([]byte(strings.TrimSuffix(example, "\n")))
	if string(body)+"}\n" != string(want) || !ok || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{32}$`).Match(mac) {
		t.Errorf("the page has\n%s, and a line is, with a mac,\n%s", example, want)
	}
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(example, -1) {
		if !strings.Contains(string(text), "`"+m[1]+"`") {
			t.Errorf("the page does not explain %s", m[1])
		}
	}
}
