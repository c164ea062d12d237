package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store/moving"
	"github.com/mintage/mintage/internal/store/sqlite"
)

const (
	terminalPace = 200 * time.Millisecond
	logPace      = 5 * time.Second
)

// A progressLine shows how far long work is: in one line of a terminal, or else in
// a line every few seconds.
type progressLine struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	shown    time.Time
	width    int // of the line on the terminal
}

func newProgressLine(w io.Writer) progressLine {
	return progressLine{w: w, terminal: deployment.IsTerminal(w), now: time.Now}
}

// due reports whether it is time to show something.
func (p *progressLine) due(now time.Time) bool {
	if p.terminal {
		return now.Sub(p.shown) >= terminalPace
	}
	return now.Sub(p.shown) >= logPace
}

func (p *progressLine) show(now time.Time, text string) {
	p.shown = now
	if !p.terminal {
		fmt.Fprintf(p.w, "mintage: %s\n", text)
		return
	}
	fmt.Fprintf(p.w, "\rmintage: %s%s", text, strings.Repeat(" ", max(0, p.width-len(text))))
	p.width = len(text)
}

// end leaves the line of the terminal.
func (p *progressLine) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
}

// timeLeft says how long the rest of the work takes at the rate so far, "" if that
// is not known.
func timeLeft(took time.Duration, done, total int64) string {
	if done <= 0 || done >= total || took <= 0 {
		return ""
	}
	return ", " + time.Duration(float64(took)*float64(total-done)/float64(done)).Round(time.Second).String() + " left"
}

// A progress shows how far a move is.
type progress struct {
	progressLine
	phase moving.Phase
	began time.Time // of the phase
	whole bool      // the phase's last line was shown
}

func (p *progress) report(m moving.Progress) {
	now := p.now()
	if m.Phase != p.phase {
		p.phase, p.began, p.shown, p.whole = m.Phase, now, now, false
	}
	// A short phase shows its end at least.
	ends := m.AllTotal > 0 && m.AllDone == m.AllTotal && !p.whole
	if !p.due(now) && !ends {
		return
	}
	p.whole = p.whole || ends
	text := fmt.Sprintf("%s %s: %d of %d rows", m.Phase, m.Table, m.Done, m.Total)
	if m.Phase == moving.Clearing {
		text = fmt.Sprintf("%s %s, from an earlier move", m.Phase, m.Table)
	}
	if took := now.Sub(p.began); m.AllDone > 0 && took > 0 {
		text += fmt.Sprintf("; all tables: %d of %d, %.0f rows/s", m.AllDone, m.AllTotal, float64(m.AllDone)/took.Seconds()) + timeLeft(took, m.AllDone, m.AllTotal)
	}
	p.show(now, text)
}

// A copyProgress shows how far a copy is. Short work shows nothing.
type copyProgress struct {
	progressLine
	phase sqlite.CopyPhase
	began time.Time
}

func newCopyProgress(w io.Writer) *copyProgress {
	p := &copyProgress{progressLine: newProgressLine(w)}
	p.began = p.now()
	p.shown = p.began
	return p
}

func (p *copyProgress) report(c sqlite.CopyProgress) {
	now := p.now()
	if c.Phase != p.phase {
		p.phase, p.began = c.Phase, now
	}
	if !p.due(now) {
		return
	}
	text := string(c.Phase)
	if c.Total > 0 {
		text = fmt.Sprintf("%s: %.1f of %.1f MB", c.Phase, float64(c.Done)/1e6, float64(c.Total)/1e6) + timeLeft(now.Sub(p.began), c.Done, c.Total)
	}
	p.show(now, text)
}
