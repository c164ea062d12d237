package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A copyProgress shows how far a copy is, as progress does for a move. Short work
// shows nothing.
type copyProgress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	phase sqlite.CopyPhase
	began time.Time
	shown time.Time
	width int
}

func newCopyProgress(w io.Writer) *copyProgress {
	now := time.Now()
	return &copyProgress{w: w, terminal: deployment.IsTerminal(w), now: time.Now, began: now, shown: now}
}

func (p *copyProgress) report(c sqlite.CopyProgress) {
	now := p.now()
	if c.Phase != p.phase {
		p.phase, p.began = c.Phase, now
	}
	pace := logPace
	if p.terminal {
		pace = terminalPace
	}
	if now.Sub(p.shown) < pace {
		return
	}
	p.shown = now
	text := string(c.Phase)
	if c.Total > 0 {
		text = fmt.Sprintf("%s: %.1f of %.1f MB", c.Phase, float64(c.Done)/1e6, float64(c.Total)/1e6)
		if took := now.Sub(p.began); c.Done > 0 && c.Done < c.Total && took > 0 {
			text += ", " + time.Duration(float64(took)*float64(c.Total-c.Done)/float64(c.Done)).Round(time.Second).String() + " left"
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
func (p *copyProgress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
}
