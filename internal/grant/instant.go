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

// Append appends i in the form that it has in tokens and codes: 6 bytes, which
// last until the year 10889.
func (i Instant) Append(b []byte) []byte {
	return append(b, byte(i>>40), byte(i>>32), byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
}

// ReadInstant reads what Append wrote. B has at least 6 bytes.
func ReadInstant(b []byte) Instant {
	return Instant(b[0])<<40 | Instant(b[1])<<32 | Instant(b[2])<<24 | Instant(b[3])<<16 | Instant(b[4])<<8 | Instant(b[5])
}
