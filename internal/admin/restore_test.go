package admin

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/sqlite"
)

func TestOP13_ARestoreLastsUntilTheLastTokenOfBeforeHasExpired(t *testing.T) {
	const now, day = grant.Instant(1_700_000_000_000), 24 * time.Hour
	const skew = 2 * time.Second
	policy := grant.Policy{RefreshLifetime: time.Hour, MaxSkew: skew}
	for _, tt := range []struct {
		name      string
		seen      grant.Issued
		at, until grant.Instant
	}{
		{"an empty store", grant.Issued{}, now.Add(skew), now.Add(skew + time.Hour)},
		{"the lifetime was lowered since the backup: what was issued after it may live as long as what was issued before",
			grant.Issued{Latest: now.Add(-day), LastExpiry: now.Add(30 * day), Longest: 31 * day}, now.Add(skew), now.Add(skew + 31*day)},
		{"a token expires later than any lifetime tells", grant.Issued{LastExpiry: now.Add(40 * day)}, now.Add(skew), now.Add(40 * day)},
		{"the lifetime was raised", grant.Issued{Latest: now.Add(-day), LastExpiry: now, Longest: time.Minute}, now.Add(skew), now.Add(skew + time.Hour)},
		{"this machine's clock is behind", grant.Issued{Latest: now.Add(time.Minute), Longest: time.Minute}, now.Add(time.Minute) + 1, now.Add(time.Minute+time.Hour) + 1},
		{"the youngest token is of just now", grant.Issued{Latest: now, Longest: time.Minute}, now.Add(skew), now.Add(skew + time.Hour)},
		{"one is of another time altogether", grant.Issued{Latest: now.Add(time.Minute) + 1, Longest: time.Minute}, now.Add(skew), now.Add(skew + time.Hour)},
	} {
		r := Restored(policy, now-1, now, tt.seen)
		if want := (grant.Restore{Backup: now - 1, At: tt.at, Until: tt.until.Add(skew) + 1}); r != want {
			t.Errorf("%s: at %s and until %s,\nwant %s and %s", tt.name, r.At.Time(), r.Until.Time(), want.At.Time(), want.Until.Time())
		}
	}
}

func TestAllGrantsOfAStoreTellOfTheLastToken(t *testing.T) {
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	want := grant.Issued{Latest: 1007, LastExpiry: 61_001, Longest: time.Minute}
	for n := range grant.Instant(7) {
		g := grant.Grant{ID: grant.ID{byte(n), 1}, Realm: "/api", ClientID: "c", Subject: "s", Version: 1, Generation: 1,
			State: grant.Active, RotatedAt: 1001 + n, ExpiresAt: 1100 + n, DeleteAfter: 70_000}
		if n == 0 {
			g.ExpiresAt = 61_001
		}
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if seen, err := issuedIn(t.Context(), st, nil); err != nil || seen != want {
		t.Errorf("%+v, %v; want %+v", seen, err, want)
	}
}
