package keys

import (
	"cmp"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// A Schedule is how long keys live.
type Schedule struct {
	// Lifetime is how long a key is used before its follower. Zero: nothing
	// rotates by itself.
	Lifetime time.Duration
	// Lead is how long before its use a key is made and published.
	Lead time.Duration
	// MaxAge is how long verifiers may keep the published set.
	MaxAge time.Duration
	// Retention is how long after its last use a signing key may be needed:
	// the lifetime of what it signed, and the time for which nodes and
	// verifiers may differ.
	Retention time.Duration
	// MaxSkew is how far the clocks of nodes may differ.
	MaxSkew time.Duration
	// Algorithms lists the signing purposes of which there is always a key.
	Algorithms []Purpose
}

// settle is how long it takes until every node that answers knows a key: the
// write, at most 2 seconds; then 5, after which a node without news answers
// nothing; the rest is for answers on their way.
const settle = 10 * time.Second

// Notice is the least time between the making of a key and its first use. A
// signing key waits until every verifier's copy of the published set is newer.
func (s Schedule) Notice(p Purpose) time.Duration {
	if p.Signs() {
		return settle + s.MaxSkew + s.MaxAge
	}
	return settle + s.MaxSkew
}

// Rotating lists the purposes whose keys follow each other.
func (s Schedule) Rotating() []Purpose { return append([]Purpose{MAC, Seal, Audit}, s.Algorithms...) }

// A Phase is a part of a key's life. Time alone moves a key on.
type Phase string

const (
	Next    Phase = "next"    // published, not used
	Active  Phase = "active"  // makes what is new
	Retired Phase = "retired" // checks what it made
	Gone    Phase = "gone"    // a signing key of which nothing is left to check
	// Withdrawn is a key that an operator has declared untrusted.
	Withdrawn Phase = "withdrawn"
)

// A Timeline is the lives of keys, in order. It does not change.
type Timeline struct {
	lines map[Purpose][]Record // of one purpose, in the order of their use
	used  map[Purpose][]Record // the same, without keys that were withdrawn before their use
}

// NewTimeline orders records. It needs no key-encryption key.
func NewTimeline(records []Record) Timeline {
	t := Timeline{lines: map[Purpose][]Record{}, used: map[Purpose][]Record{}}
	for _, r := range records {
		t.lines[r.Purpose] = append(t.lines[r.Purpose], r)
	}
	for _, line := range t.lines {
		slices.SortFunc(line, func(a, b Record) int {
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
func (t Timeline) Records() (list []Record) {
	for _, line := range t.lines {
		list = append(list, line...)
	}
	return list
}

// active is the index of the key in use, of those that are ever used. It is the
// first one for a clock that is behind the one which made the ring. A key that was
// withdrawn is followed at once by the one after it, also for a clock by which
// that one's instant has not come.
func active(line []Record, now grant.Instant) int {
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

// maker is what is known of the things that say that r made them.
func (t Timeline) maker(r Record) grant.Maker {
	m := grant.Maker{Key: r.ID, Withdrawn: r.WithdrawnAt() != 0}
	line := t.used[r.Purpose]
	if i := place(line, r.ID); i >= 0 && i+1 < len(line) {
		m.Until = line[i+1].ActiveAt.Add(settle)
	}
	return m
}

// A Life is a key and where it is in its life.
type Life struct {
	Record
	Phase Phase
	// EndsAt is when the phase ends, or zero if that is not known: a retired
	// key that is no signing key has no end, because an old token of its must
	// be recognised for ever.
	EndsAt grant.Instant
}

// Lives lists all keys, purpose by purpose, each in the order of their use.
func (t Timeline) Lives(now grant.Instant, s Schedule) []Life {
	var list []Life
	for _, p := range slices.Concat(Purposes, SigningAlgorithms, []Purpose{Audit}) {
		for _, r := range t.lines[p] {
			list = append(list, t.life(r, now, s))
		}
	}
	return list
}

// Phase is where a key is in its life, or "" if there is no such key.
func (t Timeline) Phase(id grant.KeyID, now grant.Instant, s Schedule) Phase {
	l, _ := t.Life(id, now, s)
	return l.Phase
}

// place is the index of a key, or -1.
func place(line []Record, id grant.KeyID) int {
	return slices.IndexFunc(line, func(r Record) bool { return r.ID == id })
}

func (t Timeline) life(r Record, now grant.Instant, s Schedule) Life {
	l := Life{Record: r}
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
	case !l.Purpose.Signs():
		l.Phase = Retired
	default:
		l.Phase, l.EndsAt = Retired, line[i+1].ActiveAt.Add(s.Retention)
		if now > l.EndsAt {
			l.Phase, l.EndsAt = Gone, 0
		}
	}
	return l
}

// A Follower is a key that is to be made.
type Follower struct {
	Purpose  Purpose
	ActiveAt grant.Instant
}

// Due lists the keys that are to be made now, so that each is followed after
// Lifetime. It looks at the keys in their order and stops at the first gap:
// one that is far ahead, planned by an operator or by a clock that was wrong,
// does not keep the others from being made.
func (t Timeline) Due(now grant.Instant, s Schedule) []Follower {
	var due []Follower
	for _, p := range s.Rotating() {
		line := t.used[p]
		if len(line) == 0 {
			// The first of its kind: nothing could be published before.
			due = append(due, Follower{p, now})
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
			// Published before use, also after a time in which nobody looked.
			last = max(last.Add(s.Lifetime), now.Add(s.Notice(p)))
			if len(rest) > 0 && rest[0].ActiveAt <= last {
				continue
			}
			due = append(due, Follower{p, last})
		}
	}
	return due
}
