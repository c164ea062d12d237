package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store/moving"
)

// reports reports a batch of a thousand rows each second, in two tables.
func reports(p *progress, tick func()) {
	m := moving.Progress{Phase: moving.Copying, Table: "events", Total: 3000, AllTotal: 12_000}
	p.moved(m)
	for m.AllDone < m.AllTotal {
		tick()
		if m.Done == m.Total {
			m.Table, m.Done, m.Total = "grants", 0, 9000
		}
		m.Done += 1000
		m.AllDone += 1000
		p.moved(m)
	}
	p.moved(moving.Progress{Phase: moving.Comparing, Table: "events", Total: 3000, AllTotal: 12_000})
	p.moved(moving.Progress{Phase: moving.Comparing, Table: "grants", Done: 9000, Total: 9000, AllDone: 12_000, AllTotal: 12_000})
	p.end()
}

func TestProgressIsALineEveryFewSecondsAndOneAtTheEndOfEachPhase(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	reports(&progress{w: &b, now: func() time.Time { return now }}, func() { now = now.Add(time.Second) })
	const want = `mintage: copy grants: 2000 of 9000 rows; all tables: 5000 of 12000, 1000 rows/s, 7s left
mintage: copy grants: 7000 of 9000 rows; all tables: 10000 of 12000, 1000 rows/s, 2s left
mintage: copy grants: 9000 of 9000 rows; all tables: 12000 of 12000, 1000 rows/s
mintage: compare grants: 9000 of 9000 rows
`
	if b.String() != want {
		t.Errorf("shown:\n%swant:\n%s", b.String(), want)
	}
}

func TestProgressOnATerminalIsOneLineThatIsWrittenOver(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	reports(&progress{w: &b, terminal: true, now: func() time.Time { return now }}, func() { now = now.Add(time.Second) })
	lines := bytes.Count(b.Bytes(), []byte("\n"))
	if over := bytes.Count(b.Bytes(), []byte("\r")); lines != 1 || over != 13 || !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		t.Errorf("%d lines and %d written over: %q", lines, over, b.String())
	}
}
