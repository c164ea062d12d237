package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
)

func TestMomentsAreTimesDaysOrDurations(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), "90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7),
		"2026-11-20T08:00": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), "2026-11-20T08:00:00+01:00": time.Date(2026, 11, 20, 7, 0, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "2026-13-01", "5"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// What a stranger has sent neither breaks a line nor moves the cursor.
func TestAnEntryIsOneLineOfATerminal(t *testing.T) {
	var b bytes.Buffer
	e := audit.Entry{Event: audit.LoginFailed, Outcome: audit.Refused, Subject: "a\nb\x1b[2J", Detail: "two words", ClientID: "plain", Generation: 3}
	if err := printEntry(&b, e, false); err != nil {
		t.Fatal(err)
	}
	if want := ` login_failed       refused client=plain subject="a\nb\x1b[2J" generation=3 detail="two words"` + "\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q", b.String())
	}
}

func TestVerifyingALongTrailShowsHowFarItIs(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var b bytes.Buffer
	show := showBytes(&b, func() time.Time { return now })
	const total = 100 << 20
	for done := int64(0); done < total; done += 10 << 20 {
		show(done, total)
		now = now.Add(3 * time.Second)
	}
	show(total, total)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 || lines[0] != "mintage: 20 of 100 MiB verified, 24s left" || lines[4] != "mintage: 100 of 100 MiB verified" {
		t.Errorf("%q", lines)
	}
	b.Reset()
	showBytes(&b, func() time.Time { return now })(total, total)
	if b.Len() > 0 {
		t.Errorf("short work tells of itself: %q", b.String())
	}
}
