package keys

import (
	"cmp"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// A Schedule holds the durations of the phases of keys.
type Schedule struct {
	// Lifetime is how long a key makes new tokens before its successor does. Zero
	// disables scheduled rotation.
	Lifetime time.Duration
	// Lead is how long before its first use a key is made and published.
	Lead time.Duration
	// MaxAge is how long verifiers may cache the published set.
	MaxAge time.Duration
	// Retention is how long after its last use a signing key is published: the
	// lifetime of its JWTs, and the time by which clocks may differ.
	Retention time.Duration
	// MaxSkew is how much the clocks of nodes may differ.
	MaxSkew time.Duration
	// Algorithms lists the signing purposes that always have a key.
	Algorithms []Purpose
	// Registrations reports that clients may register themselves.
	Registrations bool
}

// Retaining returns s with a Retention that suffices for JWTs with the lifetime life,
// which the registration of a client or an API may set.
func (s Schedule) Retaining(life time.Duration) Schedule {
	if life != 0 {
		s.Retention = max(s.Retention, life+s.MaxAge+2*s.MaxSkew+time.Minute)
	}
	return s
}

// settle is how long it takes until every serving node has a key: the write takes
// at most 2 seconds, a node that cannot poll stops serving after 5, and the rest is
// for responses in flight.
const settle = 10 * time.Second

// Notice returns the least time between the creation of a key and its first use. A
// signing key waits until every verifier's cache of the published set has expired.
func (s Schedule) Notice(p Purpose) time.Duration {
	if p.Signs() {
		return settle + s.MaxSkew + s.MaxAge
	}
	return settle + s.MaxSkew
}

// Rotating lists the purposes whose keys rotate.
func (s Schedule) Rotating() []Purpose {
	list := append([]Purpose{MAC, Seal, Audit}, s.Algorithms...)
	if s.Registrations {
		list = append(list, Registration)
	}
	return list
}

// RegistrationRetention is how long the ids that a retired key sealed stay valid.
const RegistrationRetention = 365 * 24 * time.Hour

// retention returns how long after its last use a key still has tokens to verify, or
// 0 for ever.
func (s Schedule) retention(p Purpose) time.Duration {
	switch {
	case p.Signs():
		return s.Retention
	case p == Registration:
		return RegistrationRetention
	}
	return 0
}

// A Phase is a part of a key's life, computed from the time.
type Phase string

const (
	Next    Phase = "next"    // published, not used
	Active  Phase = "active"  // makes new tokens
	Retired Phase = "retired" // verifies the tokens that it made
	Gone    Phase = "gone"    // all its tokens have expired
	// Withdrawn: an operator has declared the key untrusted.
	Withdrawn Phase = "withdrawn"
)

// A Timeline holds keys in the order of their use. It is immutable.
type Timeline struct {
	lines map[Purpose][]Stored // of one purpose, in the order of their use
	used  map[Purpose][]Stored // the same, without keys that were withdrawn before their use
}

// NewTimeline sorts records. It needs no key-encryption key.
func NewTimeline(records []Stored) Timeline {
	t := Timeline{lines: map[Purpose][]Stored{}, used: map[Purpose][]Stored{}}
	for _, r := range records {
		t.lines[r.Purpose] = append(t.lines[r.Purpose], r)
	}
	for _, line := range t.lines {
		slices.SortFunc(line, func(a, b Stored) int {
			return cmp.Or(cmp.Compare(a.ActiveAt, b.ActiveAt), cmp.Compare(a.ID, b.ID))
		})
	}
	for p, line := range t.lines {
		for _, r := range line {
			if at := r.WithdrawnAt(); at == 0 || at > r.ActiveAt {
				t.used[p] = append(t.used[p], r)
			}
		}
	}
	return t
}

// Records lists all keys.
func (t Timeline) Records() (list []Stored) {
	for _, line := range t.lines {
		list = append(list, line...)
	}
	return list
}

// active returns the index of the key in use: the first one if this clock is behind
// the clock that dated it. The successor of a withdrawn key is in use at once, even
// before its ActiveAt.
func active(line []Stored, now grant.Instant) int {
	at := 0
	for i := len(line) - 1; i > 0; i-- {
		if line[i].ActiveAt <= now {
			at = i
			break
		}
	}
	for at+1 < len(line) && line[at].WithdrawnAt() != 0 {
		at++
	}
	return at
}

// maker returns the period of use of r.
func (t Timeline) maker(r Stored) grant.Maker {
	m := grant.Maker{Key: r.ID, Withdrawn: r.WithdrawnAt() != 0}
	line := t.used[r.Purpose]
	if i := place(line, r.ID); i >= 0 && i+1 < len(line) {
		m.Until = line[i+1].ActiveAt.Add(settle)
	}
	return m
}

// A Life is a key and its phase.
type Life struct {
	Stored
	Phase Phase
	// EndsAt is when the phase ends, or zero if it has no end: a retired key of
	// tokens, codes or the audit log is needed for ever, to recognise old ones.
	EndsAt grant.Instant
}

// Lives lists all keys by purpose, in the order of their use.
func (t Timeline) Lives(now grant.Instant, s Schedule) []Life {
	var list []Life
	for _, p := range slices.Concat(Purposes, SigningAlgorithms, []Purpose{Audit, Registration}) {
		for _, r := range t.lines[p] {
			list = append(list, t.life(r, now, s))
		}
	}
	return list
}

// Life returns the phase of a key, if there is such a key.
func (t Timeline) Life(id grant.KeyID, now grant.Instant, s Schedule) (Life, bool) {
	r, known := t.record(id)
	if !known {
		return Life{}, false
	}
	return t.life(r, now, s), true
}

// Phase returns the phase of a key, or "" if there is no such key.
func (t Timeline) Phase(id grant.KeyID, now grant.Instant, s Schedule) Phase {
	l, _ := t.Life(id, now, s)
	return l.Phase
}

// record finds a key, wrapped or not.
func (t Timeline) record(id grant.KeyID) (Stored, bool) {
	for _, line := range t.lines {
		for _, r := range line {
			if r.ID == id {
				return r, true
			}
		}
	}
	return Stored{}, false
}

// place returns the index of a key, or -1.
func place(line []Stored, id grant.KeyID) int {
	return slices.IndexFunc(line, func(r Stored) bool { return r.ID == id })
}

func (t Timeline) life(r Stored, now grant.Instant, s Schedule) Life {
	l := Life{Stored: r}
	if r.WithdrawnAt() != 0 {
		l.Phase = Withdrawn
		return l
	}
	line := t.used[r.Purpose]
	i := place(line, r.ID)
	switch at := active(line, now); {
	case i > at:
		l.Phase, l.EndsAt = Next, l.ActiveAt
	case i == at:
		l.Phase = Active
		if i+1 < len(line) {
			l.EndsAt = line[i+1].ActiveAt
		}
	case s.retention(l.Purpose) == 0:
		l.Phase = Retired
	default:
		l.Phase, l.EndsAt = Retired, line[i+1].ActiveAt.Add(s.retention(l.Purpose))
		if now > l.EndsAt {
			l.Phase, l.EndsAt = Gone, 0
		}
	}
	return l
}

// Scheduled returns when the schedule ends the use of the key that is in use at an
// instant, or zero if it never does.
func (t Timeline) Scheduled(p Purpose, at, now grant.Instant, s Schedule) grant.Instant {
	line := t.used[p]
	if len(line) == 0 || s.Lifetime <= 0 {
		return 0
	}
	return max(line[active(line, at)].ActiveAt.Add(s.Lifetime), now.Add(s.Notice(p)))
}

// A Successor describes a successor key to create.
type Successor struct {
	Purpose  Purpose
	ActiveAt grant.Instant
}

// Due lists the successor keys that are to be made now, so that each key is used
// for Lifetime. It scans the keys in order and stops at the first gap: a key that
// an operator or a wrong clock has dated far ahead does not delay the others.
func (t Timeline) Due(now grant.Instant, s Schedule) []Successor {
	var due []Successor
	for _, p := range s.Rotating() {
		line := t.used[p]
		if len(line) == 0 {
			// The first key of its purpose is used at once.
			due = append(due, Successor{p, now})
			continue
		}
		if s.Lifetime <= 0 {
			continue
		}
		rest := line[active(line, now):]
		last := rest[0].ActiveAt
		for rest = rest[1:]; ; {
			for len(rest) > 0 && rest[0].ActiveAt <= last.Add(s.Lifetime) {
				last, rest = rest[0].ActiveAt, rest[1:]
			}
			if last.Add(s.Lifetime-s.Lead) > now {
				break
			}
			// Publish the key before its use, even if no server ran when it was due.
			last = max(last.Add(s.Lifetime), now.Add(s.Notice(p)))
			if len(rest) > 0 && rest[0].ActiveAt <= last {
				continue
			}
			due = append(due, Successor{p, last})
		}
	}
	return due
}
