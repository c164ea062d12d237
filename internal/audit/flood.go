package audit

import (
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

// Some events can be caused as fast as requests can be sent. Of those that
// strangers cause, each second so many are recorded, after a burst. The others
// are counted, and the trail says how many they were.
const (
	floodRate  = 20
	floodBurst = 5000
)

// ofOneGrant is how many of the events that a client causes by one grant are
// recorded: whoever holds a token that can be presented again and again must
// not fill the disk with it.
var ofOneGrant = overload.Limit{Burst: 60, Every: time.Second / 2}

// A class is of events that are left out before others when there are too many,
// or the disk has no space for them.
type class int

const (
	routine class = 1 + iota // what clients do, as often as they send requests
	hostile                  // failures that anybody can cause
	lasting                  // all else: changes, logins, what is rare
)

func classOf(e *Event) class {
	switch e.Name {
	case ClientAuthFailed, AdminAuthFailed, LoginFailed, Throttled:
		return hostile
	case TokenRefused:
		if e.GrantID == "" {
			return hostile
		}
		return routine // of a client that has proved to be one, about a genuine token
	case TokensRefreshed, RefreshRepeated:
		return routine
	}
	return lasting
}

// A flood counts the events of which there may be too many.
type flood struct {
	level  float64 // of a bucket of what strangers have caused
	at     time.Time
	grants overload.Limiter[string]
}

// tooMany counts an event and tells whether it must be left out, and why.
func (f *flood) tooMany(e *Event, c class) (why reason, out bool) {
	switch c {
	case hostile:
		if passed := e.Time.Sub(f.at).Seconds(); passed > 0 {
			f.level = max(0, f.level-passed*floodRate)
		}
		f.at = e.Time
		if f.level >= floodBurst {
			return ofStrangers, true
		}
		f.level++
	case routine:
		if e.GrantID == "" {
			return 0, false
		}
		if f.grants.Wait(e.GrantID, e.Time) > 0 {
			return aboutOneGrant, true
		}
		f.grants.Add(e.GrantID, e.Time)
	}
	return 0, false
}

// A reason is why an event is missing in the trail.
type reason int

const (
	unwritten     reason = iota // memory is full of others that cannot be written
	noSpace                     // the disk has little space left
	ofStrangers                 // too many that anybody can cause
	aboutOneGrant               // too many about one grant
	reasons
)

// lost is what a gap record is to tell of.
type lost struct {
	count [reasons]uint64
	since time.Time
	grant string // the last about which there were too many events
}

func (l *lost) any() bool { return l.count != [reasons]uint64{} }

func (l *lost) add(why reason, e *Event) {
	if !l.any() {
		l.since = e.Time
	}
	l.count[why]++
	if why == aboutOneGrant {
		l.grant = e.GrantID
	}
}

// told takes away what a gap record has told of at that time. More may have
// been lost since it was made.
func (l *lost) told(of lost, at time.Time) {
	for why := range l.count {
		l.count[why] -= of.count[why]
	}
	if l.since = at; !l.any() {
		*l = lost{}
	}
}

func (l *lost) event(now time.Time) Event {
	e := Event{Name: Gap, Outcome: Failed, Time: now}
	since := l.since.UTC().Format(timeFormat)
	for why, n := range l.count {
		if n == 0 {
			continue
		}
		if e.Detail != "" {
			e.Detail += " "
		}
		e.Detail += fmt.Sprintf("%d events since %s were ", n, since)
		switch reason(why) {
		case unwritten:
			e.Detail += "lost: the trail could not be written."
		case noSpace:
			e.Detail += "left out: the disk has little space left, which is kept for what is out of the ordinary."
		case ofStrangers:
			e.Detail += fmt.Sprintf("left out: strangers caused more than %d in a second.", floodRate)
		case aboutOneGrant:
			e.Detail += fmt.Sprintf("left out: more than %d in a second about one grant, the last about %s.", time.Second/ofOneGrant.Every, l.grant)
		}
	}
	return e
}
