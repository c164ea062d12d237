// Package show formats output for operators: tables and lists for people, JSON for
// programs, and instants, durations, sizes and counts in words. Every command uses
// it.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// JSON writes a value, indented, and with URLs as they are.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Table aligns rows under a heading, whose names are separated by "|".
func Table(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(heading, "|", "\t"))
	for _, r := range rows {
		for i, cell := range r {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, Printable(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// Fields aligns names and values; a pair without a value is left out.
func Fields(w io.Writer, fields [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", f[0], Printable(f[1]))
		}
	}
	return t.Flush()
}

// Instant formats an instant for people (RFC 3339); "" for zero.
func Instant(i grant.Instant) string {
	if i == 0 {
		return ""
	}
	return i.Time().Format(time.RFC3339)
}

// JSONInstant converts an instant for JSON. It returns nil, which is null, for zero.
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

// Quote returns a text as one word for a shell, in quotes if necessary.
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

// OneLine joins the lines of an error to one line. A database driver, for example, returns
// a line for each host.
func OneLine(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	joined := ""
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || joined == "":
			joined += line
		case strings.HasSuffix(joined, ":"):
			joined += " " + line
		default:
			joined += "; " + line
		}
	}
	return joined
}

// Printable returns s with unprintable characters escaped, such as those that move a
// terminal's cursor, begin a line, or turn the direction of text (CWE-150).
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

// Ago describes how long before or after now an instant is, such as "5 min ago".
func Ago(now, at grant.Instant) string {
	if at > now {
		return "in " + Roughly(at.Since(now))
	}
	return Roughly(now.Since(at)) + " ago"
}

// Roughly formats a duration in its largest useful unit. A negative duration, from another
// node's clock that is ahead, is 0 ms.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(0, d.Milliseconds()))
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Count formats a number with its noun: one is the singular, more the plural.
func Count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Whom names a subject, a client or both.
func Whom(subject, client, between string) string {
	var parts []string
	if subject != "" {
		parts = append(parts, fmt.Sprintf("subject %q", subject))
	}
	if client != "" {
		parts = append(parts, fmt.Sprintf("client %q", client))
	}
	return strings.Join(parts, between)
}

// Bytes formats a size, such as "1.5 MiB".
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

// GrantAt returns the view of a grant at now under p, without its events. It reads only the
// APIs and cutoffs of ch, and applies the cutoffs that cover the grant.
func GrantAt(g grant.Grant, ch store.Changes, p grant.Policy, now grant.Instant) adminapi.Grant {
	g.ExpiresAt = p.Expiry(g)
	v := adminapi.Grant{
		ID: g.ID.String(), State: g.State.String(), Reason: g.Reason.String(), ClientID: g.ClientID, Subject: g.Subject,
		Scope: string(g.Scope), AuthorizedAt: JSONInstant(g.AuthorizedAt), Generation: g.Generation,
		RotatedAt: JSONInstant(g.RotatedAt), ExpiresAt: JSONInstant(g.ExpiresAt), DeleteAfter: JSONInstant(g.DeleteAfter),
		AuthTime: JSONInstant(g.AuthTime), Claims: json.RawMessage(g.Claims), Session: grant.SessionName(g.Facts.Session),
		APIs: APIs(g.APIs[:], g.Realm, ch.APIs),
	}
	var cut grant.Instant
	for _, c := range ch.Cutoffs {
		if c.Realm == g.Realm && (c.Subject == "" || c.Subject == g.Subject) && (c.ClientID == "" || c.ClientID == g.ClientID) {
			cut = max(cut, c.At)
		}
	}
	switch {
	case g.State == grant.Revoked:
	case cut >= g.AuthorizedAt:
		v.State, v.Cutoff = "cut off", JSONInstant(cut)
	case now >= g.ExpiresAt:
		v.State = "expired"
	}
	return v
}

// APIs returns the ids of the APIs with these numbers, in their order: "issuer" for the
// built-in API, "client audience" for the audience of the client's registration, and
// "deleted API N" for a number that no registered API has.
func APIs(numbers []uint16, realm string, registered []store.API) (ids []string) {
	for _, n := range numbers {
		i := slices.IndexFunc(registered, func(a store.API) bool { return a.Number == n && a.Realm == realm && !a.Deleted })
		switch {
		case n == 0:
		case n == store.IssuerAPI:
			ids = append(ids, "issuer")
		case n == store.ClientAudience:
			ids = append(ids, "client audience")
		case i < 0:
			ids = append(ids, fmt.Sprintf("deleted API %d", n))
		default:
			ids = append(ids, registered[i].ID)
		}
	}
	return ids
}
