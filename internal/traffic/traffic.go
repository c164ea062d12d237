// Package traffic counts the responses of all nodes in the last week, in steps of five
// minutes. Each process stores its counts, as one document for two hours, and Sum adds up
// the documents. So the counts outlive restarts, and a node keeps a week of them in memory
// only while it responds to a request for them.
package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// Names are the names of the counts: first successes, then errors by their cause. The set
// is closed, which limits the size of the documents.
var Names = []string{
	"requests", "refreshes", "codes", "logins",
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
	"access_denied", "expired_token", "invalid_dpop_proof", "server_error", "temporarily_unavailable", "other",
	"login_wrong", "login_throttled", "login_rejected", "login_failed", "login_other", "throttled", "overloaded",
}

// Errors are the causes of errors among Names.
var Errors = Names[4:]

// Step is the period that one count covers.
const Step = 5 * time.Minute

const (
	perBlock = 24 // steps of a document
	block    = perBlock * Step
	// kept is how long a document is stored: a Sum of a week also reads the block in which
	// the week begins.
	kept = 7*24*time.Hour + 2*block
	// maxBlocks limits the documents that one Sum reads: a week of 50 processes.
	maxBlocks = 50 * 7 * 12
	// maxUnwritten limits the blocks that a process keeps while the store cannot be written.
	maxUnwritten = 12
)

// A Recorder counts for one process.
type Recorder struct {
	store  store.Store
	totals func() map[string]uint64
	now    func() time.Time
	id     string // of the process, among the documents of a block

	mu     sync.Mutex
	last   map[string]uint64
	blocks map[int64]*counts // by number; those that are not over, or not stored yet
}

// counts holds the counts of a block: for each step, one for each of Names. A name that is
// not listed counts 0.
type counts struct {
	Names []string   `json:"names"`
	Steps [][]uint64 `json:"steps"`
}

// New returns a Recorder. Totals returns the counts since the start of the process, by name.
func New(st store.Store, totals func() map[string]uint64, now func() time.Time) *Recorder {
	return &Recorder{store: st, totals: totals, now: now, id: string(keys.NewSecret()), last: map[string]uint64{}, blocks: map[int64]*counts{}}
}

// Tick adds the counts since the last Tick to the current step.
func (r *Recorder) Tick() {
	totals, step := r.totals(), r.now().Unix()/int64(Step/time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	number := step / perBlock
	b := r.blocks[number]
	for i, name := range Names {
		n := totals[name] - min(r.last[name], totals[name])
		if n == 0 {
			continue
		}
		if b == nil {
			b = &counts{Names: Names, Steps: make([][]uint64, perBlock)}
			r.blocks[number] = b
		}
		at := step % perBlock
		if b.Steps[at] == nil {
			b.Steps[at] = make([]uint64, len(Names))
		}
		b.Steps[at][i] += n
	}
	r.last = totals
	for old := range r.blocks {
		if old <= number-maxUnwritten {
			delete(r.blocks, old)
		}
	}
}

// Write stores the counts. It then removes the blocks that are over from memory.
func (r *Recorder) Write(ctx context.Context) error {
	r.Tick()
	r.mu.Lock()
	present := r.now().Unix() / int64(block/time.Second)
	bodies := map[int64][]byte{}
	var err error
	for number, b := range r.blocks {
		text, encodeErr := json.Marshal(b)
		bodies[number], err = text, errors.Join(err, encodeErr)
	}
	r.mu.Unlock()
	for number, body := range bodies {
		if writeErr := r.write(ctx, number, body); writeErr != nil {
			err = errors.Join(err, writeErr)
			continue
		}
		if number < present {
			r.mu.Lock()
			delete(r.blocks, number)
			r.mu.Unlock()
		}
	}
	return err
}

// write replaces the document of a block. It reads the document's version: an earlier
// write may have been applied without an acknowledgement.
func (r *Recorder) write(ctx context.Context, number int64, body []byte) error {
	began := beginning(number)
	d, err := r.store.Document(ctx, store.KeyAt(began, r.id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return r.store.Commit(ctx, store.Change{Documents: []store.Document{{Kind: store.DocumentTraffic, Key: store.KeyAt(began, r.id), Version: d.Version + 1, ExpiresAt: began.Add(kept), Body: body}}})
}

func beginning(number int64) grant.Instant {
	return grant.At(time.Unix(number*int64(block/time.Second), 0))
}

// A Sum adds up the counts of all nodes: for each name, one count per Step.
type Sum struct {
	From  time.Time
	Step  time.Duration
	Names []string
	Of    map[string][]uint64
}

// Sum adds up the steps that began in the given time before now, in steps of the given
// length. What other processes have counted in the last five minutes may be missing.
func (r *Recorder) Sum(ctx context.Context, of, step time.Duration) (Sum, error) {
	r.Tick()
	end := r.now().Truncate(step).Add(step)
	s := Sum{From: end.Add(-of).UTC(), Step: step, Names: Names, Of: map[string][]uint64{}}
	for _, name := range Names {
		s.Of[name] = make([]uint64, of/step)
	}
	r.mu.Lock()
	own := map[store.DocumentKey]bool{}
	for number, b := range r.blocks {
		own[store.KeyAt(beginning(number), r.id)] = true
		s.add(number, *b)
	}
	r.mu.Unlock()
	first := s.From.Unix() / int64(block/time.Second)
	var after store.DocumentKey
	copy(after[:], beginning(first).Append(nil))
	read := 0
	for d, err := range store.EachDocument(ctx, r.store, store.DocumentFilter{Kind: store.DocumentTraffic, After: after}) {
		if err != nil {
			return s, store.Unavailable(err)
		}
		var b counts
		if own[d.Key] || json.Unmarshal(d.Body, &b) != nil {
			continue // r.blocks holds newer counts of this process
		}
		s.add(int64(d.ExpiresAt.Add(-kept).Time().Unix())/int64(block/time.Second), b)
		if read++; read == maxBlocks {
			break
		}
	}
	return s, nil
}

// add adds a block.
func (s *Sum) add(number int64, b counts) {
	for i, values := range b.Steps {
		at := beginning(number).Add(time.Duration(i) * Step).Time()
		place := int(at.Sub(s.From) / s.Step)
		if at.Before(s.From) || place >= len(s.Of[s.Names[0]]) {
			continue
		}
		for j, n := range values {
			if j < len(b.Names) && s.Of[b.Names[j]] != nil {
				s.Of[b.Names[j]][place] += n
			}
		}
	}
}
