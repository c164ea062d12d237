package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store/moving"
)

const (
	terminalPace = 200 * time.Millisecond
	logPace      = 5 * time.Second
)

// A progress shows how far long work is: in one line of a terminal, or else in a
// line every few seconds. Short work shows nothing.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	phase    string
	began    time.Time // the phase
	shown    time.Time
	lines    int
	width    int  // of the line on the terminal
	whole    bool // the last line of the phase was shown
}

func newProgress(w io.Writer, now func() time.Time) *progress {
	return &progress{w: w, terminal: deployment.IsTerminal(w), now: now, began: now(), shown: now()}
}

// report shows text if the last line is old enough, with the time that the rest of
// the phase takes at the rate so far. If ending is set, a phase shows its end.
func (p *progress) report(phase string, done, total int64, ending bool, text func(took time.Duration) string) {
	now := p.now()
	if phase != p.phase {
		p.phase, p.began, p.shown, p.whole = phase, now, now, false
	}
	pace, ends := logPace, ending && total > 0 && done >= total && !p.whole
	if p.terminal {
		pace = terminalPace
	}
	if now.Sub(p.shown) < pace && !ends {
		return
	}
	took := now.Sub(p.began)
	line := text(took)
	if done > 0 && done < total && took > 0 {
		line += ", " + time.Duration(float64(took)*float64(total-done)/float64(done)).Round(time.Second).String() + " left"
	}
	p.whole, p.shown, p.lines = p.whole || ends, now, p.lines+1
	if !p.terminal {
		fmt.Fprintf(p.w, "mintage: %s\n", line)
		return
	}
	fmt.Fprintf(p.w, "\rmintage: %s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// end leaves the line of the terminal.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
	p.width = 0
}

// moved reports on a move between stores.
func (p *progress) moved(m moving.Progress) {
	p.report(string(m.Phase), m.AllDone, m.AllTotal, true, func(took time.Duration) string {
		if m.Phase == moving.Clearing {
			return fmt.Sprintf("%s %s, from an earlier move", m.Phase, m.Table)
		}
		text := fmt.Sprintf("%s %s: %d of %d rows", m.Phase, m.Table, m.Done, m.Total)
		if m.AllDone > 0 && took > 0 {
			text += fmt.Sprintf("; all tables: %d of %d, %.0f rows/s", m.AllDone, m.AllTotal, float64(m.AllDone)/took.Seconds())
		}
		return text
	})
}

// copied reports on the copy of a store.
func (p *progress) copied(c backup.CopyProgress) {
	p.report(string(c.Phase), c.Done, c.Total, false, func(time.Duration) string {
		if c.Total == 0 {
			return string(c.Phase)
		}
		return fmt.Sprintf("%s: %.1f of %.1f MB", c.Phase, float64(c.Done)/1e6, float64(c.Total)/1e6)
	})
}

// verified reports on the audit log, in bytes.
func (p *progress) verified(done, total int64) {
	p.report("verify", done, total, p.lines > 0, func(time.Duration) string {
		return fmt.Sprintf("%d of %d MiB verified", done>>20, total>>20)
	})
	if done >= total {
		p.end()
	}
}
