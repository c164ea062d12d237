package grant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

func TestExpiresInIsTheRemainingLifetime(t *testing.T) {
	p := specification()
	for _, tt := range []struct {
		name string
		a    grant.Access
		now  grant.Instant
		want int64
	}{
		{"fresh at a whole second", access("a", t0, t0+5*minute), t0, 300},
		{"fresh at any millisecond", access("a", t0+1, t0+second+5*minute), t0 + 1, 300},
		{"a second later", access("a", t0, t0+5*minute), t0 + second, 299},
		{"a millisecond later", access("a", t0, t0+5*minute), t0 + 1, 299},
		{"never more than the lifetime, on a clock behind", access("a", t0, t0+5*minute), t0 - minute, 300},
		{"last second", access("a", t0, t0+5*minute), t0 + 5*minute - second, 1},
		{"less than a second", access("a", t0, t0+5*minute), t0 + 5*minute - second + 1, 0},
		{"over", access("a", t0, t0+5*minute), t0 + 6*minute, -60},
		{"capped by the end of the grant", access("a", t0, t0+90*second), t0, 90},
	} {
		if got := p.ExpiresIn(tt.a, tt.now); got != tt.want {
			t.Errorf("%s: %d seconds, want %d", tt.name, got, tt.want)
		}
	}
}

func TestExpiresInOfAFreshAndOfARepeatedToken(t *testing.T) {
	p := specification()
	for offset := range grant.Instant(2000) {
		now := rotated + hour + offset
		g := third()
		d := g.Refresh(presents(g, 3), p, now)
		if got := p.ExpiresIn(d.Access, now); got != 300 {
			t.Fatalf("rotation at %d ms: expires_in %d", offset, got)
		}
		later := now + second
		again := d.Next.Refresh(presents(d.Next, 3), p, later)
		if !again.Repeated || again.Access != d.Access {
			t.Fatalf("repeat at %d ms: %+v, want the access token %+v", offset, again, d.Access)
		}
		if got := p.ExpiresIn(again.Access, later); got < 299 || got > 300 {
			t.Fatalf("repeat a second later: expires_in %d", got)
		}
		if got := p.ExpiresIn(again.Access, now+2*second); got >= 300 {
			t.Fatalf("repeat two seconds later: expires_in %d", got)
		}
	}
}

func TestAnUnrecordedTokenMeansALossUntilItExpires(t *testing.T) {
	for _, tt := range []struct {
		now  grant.Instant
		want grant.Refusal
	}{{t0 - 1, grant.StoreBehind}, {t0, grant.GrantExpired}, {t0 + 1, grant.GrantExpired}} {
		if got := (grant.Restore{}).Unrecorded(t0-day, t0, tt.now); got != tt.want {
			t.Errorf("%d ms after expiry: %s, want %s", tt.now-t0, got, tt.want)
		}
	}
}

func TestInstant(t *testing.T) {
	at := time.Date(2027, 1, 15, 8, 0, 0, 999_999_999, time.FixedZone("", 3600))
	i := grant.At(at)
	if want := at.Truncate(time.Millisecond).UTC(); i.Time() != want {
		t.Errorf("At rounds to %s, want %s", i.Time(), want)
	}
	if got := i.Add(1500 * time.Millisecond).Since(i); got != 1500*time.Millisecond {
		t.Errorf("Since undoes Add to %s", got)
	}
	if got := i.Since(i + 7); got != -7*time.Millisecond {
		t.Errorf("Since an instant to come is %s", got)
	}
}

func TestLabelsAreDistinctWordsForLogs(t *testing.T) {
	seen := map[string]bool{}
	label := func(s string) {
		t.Helper()
		if s == "" || s == "unknown" || s != strings.ToLower(s) || strings.ContainsAny(s, " -.") || seen[s] {
			t.Errorf("label %q is empty, unknown, taken or not a word", s)
		}
		seen[s] = true
	}
	for r := range grant.UserBarred + 1 {
		label(r.String())
	}
	if got := (grant.UserBarred + 1).String(); got != "unknown" {
		t.Errorf("a refusal outside the list is %q", got)
	}
	clear(seen)
	for _, r := range []grant.Reason{grant.ReasonCodeReplayed, grant.ReasonRefreshReplayed, grant.ReasonOperator, grant.ReasonClient, grant.ReasonLogout} {
		label(r.String())
	}
	if got := grant.NoReason.String() + (grant.ReasonLogout + 1).String(); got != "unknown" {
		t.Errorf("no reason, and a reason outside the list: %q", got)
	}
	if grant.Active.String() != "active" || grant.Revoked.String() != "revoked" {
		t.Errorf("states read %s and %s", grant.Active, grant.Revoked)
	}
}

func TestIDRoundTrip(t *testing.T) {
	id := grant.ID{0, 1, 0xfe, 15: 0xff}
	got, err := grant.ParseID(id.String())
	if err != nil || got != id {
		t.Errorf("ParseID(%s) = %s, %v", id, got, err)
	}
	for _, bad := range []string{"", "00", id.String() + "00", id.String()[1:], strings.Repeat("g", 32), " " + id.String()[1:]} {
		if _, err := grant.ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) is accepted", bad)
		}
	}
	if got := grant.KeyID(0xab).String(); got != "000000ab" {
		t.Errorf("key id reads %q", got)
	}
}
