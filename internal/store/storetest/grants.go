package storetest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

var grantPromises = []promise{
	{"a grant is read back as it was written, at the extremes of every field", readBack},
	{"Grant returns ErrNotFound if there is no such row", func(t *testing.T, db Database) {
		st := open(t, db)
		if g, err := st.Grant(t.Context(), newID()); !errors.Is(err, store.ErrNotFound) || g != (grant.Grant{}) {
			t.Errorf("Grant = %+v, %v; want nothing and ErrNotFound", g, err)
		}
	}},
	{"CreateGrant returns ErrConflict if the id is taken, and writes nothing", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		other := g
		other.Attempt, other.Subject, other.ExpiresAt = 2, "mallory", g.ExpiresAt+1
		if err := st.CreateGrant(t.Context(), other); !errors.Is(err, store.ErrConflict) {
			t.Errorf("CreateGrant of a taken id: %v, want ErrConflict", err)
		}
		holds(t, st, g)
	}},
	{"CreateGrant returns ErrConflict if the grant differs in its attempt alone", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		other := g
		other.Attempt |= 1 << 63
		if err := st.CreateGrant(t.Context(), other); !errors.Is(err, store.ErrConflict) {
			t.Errorf("CreateGrant with another attempt: %v, want ErrConflict", err)
		}
		holds(t, st, g)
	}},
	{"CreateGrant returns ErrConflict for a grant that was updated since", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		next := rotated(g, 2)
		update(t, st, next)
		if err := st.CreateGrant(t.Context(), g); !errors.Is(err, store.ErrConflict) {
			t.Errorf("CreateGrant again after a rotation: %v, want ErrConflict", err)
		}
		holds(t, st, next)
	}},
	{"CreateGrant of exactly the stored grant is success", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g, g, g)
		holds(t, st, g)
	}},
	{"UpdateGrant stores what decide makes of the stored grant", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		for n := range 20 {
			var seen grant.Grant
			err := st.UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
				seen = have
				return rotated(have, uint64(n)), nil
			})
			if err != nil || seen != g {
				t.Fatalf("UpdateGrant: %v, decided on\n%+v, want\n%+v", err, seen, g)
			}
			g = rotated(g, uint64(n))
			holds(t, st, g)
		}
	}},
	{"UpdateGrant returns an error if the version is not the next, and writes nothing", wrongVersion},
	{"UpdateGrant returns ErrNotFound if there is no such row, and does not call decide", func(t *testing.T, db Database) {
		st := open(t, db)
		id := newID()
		err := st.UpdateGrant(t.Context(), id, func(g grant.Grant) (grant.Grant, []store.Event) {
			t.Errorf("decide was called with %+v", g)
			return g, nil
		})
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("UpdateGrant of nothing: %v, want ErrNotFound", err)
		}
		if _, err := st.Grant(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Grant: %v, want ErrNotFound", err)
		}
	}},
	{"nothing is written and recorded if decide leaves the grant as it is", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		for range 3 {
			err := st.UpdateGrant(t.Context(), g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
				return g, []store.Event{event(g.ID.String(), base, 1)}
			})
			if err != nil {
				t.Errorf("UpdateGrant: %v", err)
			}
		}
		holds(t, st, g)
		if list := recorded(t, st, g.ID.String()); len(list) != 0 {
			t.Errorf("%d events of an update that changed nothing", len(list))
		}
	}},
	{"a panic of decide is its caller's, and changes nothing", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		caught := func() (v any) {
			defer func() { v = recover() }()
			_ = st.UpdateGrant(t.Context(), g.ID, func(grant.Grant) (grant.Grant, []store.Event) { panic("a fault of the rules") })
			return nil
		}()
		if caught != "a fault of the rules" {
			t.Errorf("recovered %v", caught)
		}
		holds(t, st, g)
		update(t, st, rotated(g, 2))
	}},
	{"id, realm, client, subject, scope, AuthorizedAt, AuthTime and Facts of a stored grant never change", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		next := rotated(g, 2)
		next.Realm, next.ClientID, next.Subject, next.Scope, next.AuthorizedAt = "/other", "mallory", "eve", "admin", 1
		next.AuthTime, next.Facts = 2, grant.Facts{Claims: `{"tenant":"t2"}`, Session: [16]byte{2}, ACR: 1, AMR: 1}
		// An engine may reject this update or store only what may change. It must not
		// change the rest.
		err := Replace(t.Context(), st, next)
		got, readErr := st.Grant(t.Context(), g.ID)
		if readErr != nil {
			t.Fatalf("Grant: %v", readErr)
		}
		want := g
		if err == nil {
			want = rotated(g, 2)
		}
		if got != want {
			t.Errorf("UpdateGrant: %v; then read\n%+v, want\n%+v", err, got, want)
		}
	}},
	{"the events of an update are recorded with it", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		about := g.ID.String()
		want := []store.Event{event(about, base+1, 1), event(about, base+2, 2)}
		update(t, st, rotated(g, 2), want...)
		sameEvents(t, recorded(t, st, about), want)
	}},
}

// extremes returns grants at the limits of what the rest of the program allows, and
// one in which every field is zero that may be.
func extremes() []grant.Grant {
	// The longest subject, of 255 bytes, with quotes, escapes, combining marks,
	// right-to-left text, and characters beyond the basic multilingual plane.
	subject := `'"; DROP TABLE grants; -- %_\ ` + "é e\u0301 שלום 日本 😀 "
	subject += strings.Repeat("x", 255-len(subject))
	var scopes []string
	for i := range oauth.MaxScopes {
		scopes = append(scopes, string([]byte{'a' + byte(i/8), '!' + byte(i%8)*2 + 2}))
	}
	const farAway = grant.Instant(1)<<48 - 1 // the latest instant in a token
	most := grant.Grant{
		ID:    grant.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		Realm: "/" + strings.Repeat("r", 49), ClientID: strings.Repeat("~", 64), Subject: subject,
		Scope: oauth.Scope(strings.Join(scopes, " ")), AuthorizedAt: farAway,
		Generation: math.MaxUint32, Version: 1, RotatedAt: farAway, KeyID: math.MaxUint32, ExpiresAt: farAway,
		DeleteAfter: farAway, AccessFloor: farAway, State: grant.Revoked, Reason: grant.ReasonOperator, Attempt: math.MaxUint64,
		AuthTime: farAway, Facts: grant.Facts{Claims: `{"` + strings.Repeat("ü", 60) + `":""}`, Session: [16]byte{0xff, 15: 0xff}, ACR: 0xff, AMR: 0xff,
			ReportedACR: strings.Repeat("a", grant.MaxReportedACR), ReportedAMR: strings.Repeat("m", grant.MaxReportedAMR), InUserInfo: 1<<32 - 1, InIDToken: 1, Device: true, SaysACR: true},
	}
	topBit := newGrant(1 << 63)
	topBit.Generation, topBit.KeyID = 1<<31, 1<<31
	negative := newGrant(1)
	negative.AuthorizedAt, negative.RotatedAt = -1, math.MinInt64 // a clock before 1970
	return []grant.Grant{most, topBit, negative, {ID: grant.ID{15: 1}, Version: 1, State: grant.Active}}
}

func readBack(t *testing.T, db Database) {
	st := open(t, db)
	for _, g := range extremes() {
		create(t, st, g)
		holds(t, st, g)
	}
	// Updates store the same extremes: they write other columns than creations.
	for _, g := range extremes() {
		first := newGrant(5)
		first.ID[0] = 0x55
		first.Realm, first.ClientID, first.Subject, first.Scope, first.AuthorizedAt = g.Realm, g.ClientID, g.Subject, g.Scope, g.AuthorizedAt
		first.AuthTime, first.Facts = g.AuthTime, g.Facts
		create(t, st, first)
		g.ID, g.Version = first.ID, 2
		update(t, st, g)
		holds(t, st, g)
	}
	// Grants reads rows by statements of its own.
	list, err := st.Grants(t.Context(), store.GrantFilter{Limit: 100})
	if err != nil {
		t.Fatalf("Grants: %v", err)
	}
	for _, g := range list {
		holds(t, st, g)
	}
	if want := 2 * len(extremes()); len(list) != want {
		t.Errorf("%d grants listed, want %d", len(list), want)
	}
}

func wrongVersion(t *testing.T, db Database) {
	st := open(t, db)
	g := newGrant(1)
	create(t, st, g)
	g = rotated(g, 2)
	update(t, st, g)
	g = rotated(g, 3)
	update(t, st, g)
	for _, version := range []int64{math.MinInt64, -1, 0, 1, 2, 3, 5, 6, math.MaxInt64} {
		err := st.UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
			other := rotated(have, 99)
			other.Version = version
			return other, []store.Event{event(g.ID.String(), base, 1)}
		})
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
			t.Errorf("UpdateGrant to version %d of a row at version %d: %v, want an error", version, g.Version, err)
		}
	}
	holds(t, st, g)
	if list := recorded(t, st, g.ID.String()); len(list) != 0 {
		t.Errorf("%d events of updates that did not happen", len(list))
	}
}
