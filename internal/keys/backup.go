package keys

import "github.com/mintage/mintage/internal/grant"

// CompleteUntil returns how long a copy of the ring, made at the instant made, stays
// complete: until the schedule may bring a key into use that the copy lacks. It
// returns zero if no key rotates.
func (t Timeline) CompleteUntil(made grant.Instant, s Schedule) grant.Instant {
	if s.Lifetime <= 0 {
		return 0
	}
	var until grant.Instant
	for _, p := range s.Rotating() {
		line := t.used[p]
		if len(line) == 0 {
			return made // the next start of a server creates the key
		}
		line = line[active(line, made):]
		last := line[0].ActiveAt
		for _, r := range line[1:] {
			if r.ActiveAt > last.Add(s.Lifetime) {
				break
			}
			last = r.ActiveAt
		}
		// If no server ran when the key was due, it is used Notice after made at the earliest.
		if end := max(last.Add(s.Lifetime), made.Add(s.Notice(p))); until == 0 || end < until {
			until = end
		}
	}
	return until
}
