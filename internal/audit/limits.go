package audit

import (
	"fmt"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Events that a caller can cause with each request are rate limited (GCRA). A gap line
// reports how many events exceeded the limits.
var (
	// callersLimit is for all unauthenticated callers together.
	callersLimit = overload.Limit{Burst: floodBurst, Every: time.Second / 20}
	// grantLimit is for each grant, each user and each service: a client or a signed-in browser
	// in a loop, or the holder of a token that can be presented again and again, must not fill
	// the disk. All instances of a correct client stay below it together. Without the limit,
	// one client or user could displace the history within days, and an attacker with the
	// secret of a service within hours.
	grantLimit = overload.Limit{Burst: floodBurst, Every: time.Second / 2}
)

const floodBurst = 5000

const accessRevoked = Name(store.EventAccessRevoked)

// A class determines how an event is limited.
type class int

const (
	change  class = iota // changes, logins and all that is rare: never left out
	looped               // events that one user, grant or service can cause as fast as requests are sent
	routine              // what clients do with each request
	hostile              // failures that callers can cause as fast as they like
)

func classOf(e *Event) class {
	switch e.Name {
	case ClientAuthFailed, AdminAuthFailed, AdminForbidden, LoginFailed, Throttled:
		return hostile
	case TokenRefused:
		if e.GrantID == "" {
			return hostile
		}
		return routine // of an authenticated client, about an authentic token
	case TokensRefreshed, RefreshRepeated, RefreshShared:
		return routine
	case CodeIssued, UserCodeRefused, accessRevoked,
		ServiceTokenIssued, ServiceTokenRevoked, TokenExchanged, UserImpersonated, IDJAGIssued, AssertionAccepted:
		return looped
	}
	return change
}

// A reason is why an event is missing in the audit log.
type reason int

const (
	unwritten reason = iota // memory is full of events that cannot be written
	noSpace                 // the disk has little free space
	tooMany                 // over a rate limit
	reasons
)

var reasonTexts = [reasons]string{
	unwritten: "lost: the audit log could not be written.",
	noSpace:   "left out: the disk has little free space, which is kept for changes.",
	tooMany:   "left out: unauthenticated callers caused more than 20 in a second, or one grant, user or service more than 2.",
}

// lost counts the events that the next gap line reports.
type lost struct {
	count [reasons]uint64
	since time.Time
}

func (l *lost) any() bool { return l.count != [reasons]uint64{} }

func (l *lost) add(why reason, at time.Time) {
	if !l.any() {
		l.since = at
	}
	l.count[why]++
}

// reported subtracts the counts that a gap line of that time has reported. More events
// may have been lost since.
func (l *lost) reported(of lost, at time.Time) {
	for why := range l.count {
		l.count[why] -= of.count[why]
	}
	l.since = at
}

func (l *lost) event(now time.Time) Event {
	e := Event{Name: Gap, Outcome: Failed, Time: now}
	for why, n := range l.count {
		if n == 0 {
			continue
		}
		if e.Detail != "" {
			e.Detail += " "
		}
		e.Detail += fmt.Sprintf("%d events since %s were %s", n, l.since.UTC().Format(timeFormat), reasonTexts[why])
	}
	return e
}

// The audit log is usually on the disk of the store, which needs the space more. While
// less than the reserve is free, only changes are recorded. The reserve is a share of the
// disk, at least minReserve, and at most half of the disk.
const (
	minReserve   = 512 << 20
	reserveShare = 50
	lookEvery    = time.Second
)

// A disk holds the free and the total bytes of a file system.
type disk struct{ free, total uint64 }

// diskOf returns the file system of a path.
func diskOf(path string) (disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return disk{}, err
	}
	return disk{uint64(fs.Bavail) * uint64(fs.Bsize), uint64(fs.Blocks) * uint64(fs.Bsize)}, nil
}

func (d disk) reserve() uint64 { return min(max(minReserve, d.total/reserveShare), d.total/2) }

// short reports whether the free space is below the reserve or, if it was before, has
// not yet exceeded the reserve by a quarter (hysteresis).
func (d disk) short(before bool) bool {
	if before {
		return d.free < d.reserve()/4*5
	}
	return d.free < d.reserve()
}
