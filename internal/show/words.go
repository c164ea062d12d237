package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/grant"
)

// Instant is how people see an instant; "" for none.
func Instant(i grant.Instant) string {
	if i == 0 {
		return ""
	}
	return i.Time().Format(time.RFC3339)
}

// JSONInstant is an instant in JSON; null for none.
func JSONInstant(i grant.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}

// OrDash fills an empty cell.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Quote is a text as one word of a shell.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@:", r))
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Bounded limits the length of text of unauthenticated callers, and escapes it for
// a terminal.
func Bounded(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return Printable(s)
}

// Printable is s with everything escaped that a terminal would not show as a
// character: what moves its cursor, begins a line, or turns the direction of
// text (CWE-150).
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Ago is how long before or after now an instant is.
func Ago(now, at grant.Instant) string {
	if at > now {
		return "in " + Roughly(at.Since(now))
	}
	return Roughly(now.Since(at)) + " ago"
}

// Roughly is a duration in the unit that matters.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Count is a number of things.
func Count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Bytes is a size.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
