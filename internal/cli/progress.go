package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/store/moving"
)

const (
	terminalPace = 200 * time.Millisecond
	logPace      = 5 * time.Second
)

// A progress shows how far a move is: in one line of a terminal, or else in a
// line every few seconds.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	phase moving.Phase
	began time.Time // of the phase
	shown time.Time
	whole bool // the phase's last line was shown
	width int  // of the line on the terminal
}

func (p *progress) report(m moving.Progress) {
	now := p.now()
	if m.Phase != p.phase {
		p.phase, p.began, p.shown, p.whole = m.Phase, now, now, false
	}
	pace := logPace
	if p.terminal {
		pace = terminalPace
	}
	// A short phase shows its end at least.
	ends := m.AllTotal > 0 && m.AllDone == m.AllTotal && !p.whole
	if now.Sub(p.shown) < pace && !ends {
		return
	}
	p.shown, p.whole = now, p.whole || ends
	text := fmt.Sprintf("%s %s: %d of %d rows", m.Phase, m.Table, m.Done, m.Total)
	if m.Phase == moving.Clearing {
		text = fmt.Sprintf("%s %s, from an earlier move", m.Phase, m.Table)
	}
	done, took := m.AllDone, now.Sub(p.began).Seconds()
	if done > 0 && took > 0 {
		rate := float64(done) / took
		text += fmt.Sprintf("; all tables: %d of %d, %.0f rows/s", m.AllDone, m.AllTotal, rate)
		if left := m.AllTotal - m.AllDone; left > 0 {
			text += ", " + time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second).String() + " left"
		}
	}
	if !p.terminal {
		fmt.Fprintf(p.w, "mintage: %s\n", text)
		return
	}
	fmt.Fprintf(p.w, "\rmintage: %s%s", text, strings.Repeat(" ", max(0, p.width-len(text))))
	p.width = len(text)
}

// end leaves the line of the terminal.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
}
