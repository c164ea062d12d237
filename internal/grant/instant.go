package grant

import "time"

// An Instant is a time in milliseconds since 1970. Comparisons, the store and
// tokens use the same number. Zero means "none".
type Instant int64

// Never is later than every instant of a grant: the last one of the year 9999.
const Never Instant = 253402300799999

// At returns t as an Instant, rounded down to the millisecond.
func At(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns i in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Since returns the time from earlier to i. It is negative if i is before earlier.
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

// ReadInstant decodes what Append has encoded. The slice holds at least 6 bytes.
func ReadInstant(b []byte) Instant {
	return Instant(b[0])<<40 | Instant(b[1])<<32 | Instant(b[2])<<24 | Instant(b[3])<<16 | Instant(b[4])<<8 | Instant(b[5])
}
