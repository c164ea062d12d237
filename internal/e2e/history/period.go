package history

import (
	"net/http"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// Answers summarizes a node's answers to the requests that were sent to it since Mark.
type Answers struct {
	Issued, Unavailable int
	First               time.Duration // until the first 200
}

// Mark begins a new period of Answers.
func (l *Load) Mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark = l.now()
	clear(l.period)
}

// Since returns the Answers of each node since Mark.
func (l *Load) Since() []Answers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.period)
}

func (l *Load) note(node int, call int64, a binary.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if call < l.mark {
		return
	}
	switch n := &l.period[node]; a.Status {
	case http.StatusOK:
		if n.Issued++; n.Issued == 1 {
			n.First = time.Duration(l.now() - l.mark)
		}
	case http.StatusServiceUnavailable:
		n.Unavailable++
	}
}
