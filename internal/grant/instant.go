package grant

import "time"

// An Instant is a moment in milliseconds since 1970. Every instant of a grant
// is one, so that what is compared, stored and put into tokens is the same
// number. Zero means "none".
type Instant int64

// Never is later than every instant of a grant: the last one of the year 9999.
const Never Instant = 253402300799999

// At is the instant of t, rounded down to the millisecond.
func At(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is i as a time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add is the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Since is the time from earlier to i, which is negative if i comes first.
func (i Instant) Since(earlier Instant) time.Duration {
	return time.Duration(i-earlier) * time.Millisecond
}

// nextSecond rounds i up to a whole second.
func (i Instant) nextSecond() Instant { return (i + 999) / 1000 * 1000 }
