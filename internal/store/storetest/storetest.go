// Package storetest checks an engine against every promise of package store,
// and makes stores fail on purpose. An engine's own tests call Run; they add
// only what is particular to that engine.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Database opens one database, which is empty at first. Each call opens another
// handle, as another process or another node would. A handle that is opened after all
// others were closed reads what they wrote.
type Database func(ctx context.Context) (store.Store, error)

// Run checks every promise, each on a database of its own.
func Run(t *testing.T, fresh func(t *testing.T) Database) {
	for _, chapter := range []struct {
		name     string
		promises []promise
	}{
		{"grants", grantPromises},
		{"outcomes", outcomePromises},
		{"listing", listingPromises},
		{"sweep", sweepPromises},
		{"clients", clientPromises},
		{"directory", directoryPromises},
		{"commit", commitPromises},
		{"revocations", revocationPromises},
		{"realms", realmPromises},
		{"handles", handlePromises},
		{"history", historyPromises},
		{"documents", slices.Concat(documentPromises, documentsTogetherPromises)},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			for _, p := range chapter.promises {
				t.Run(p.text, func(t *testing.T) {
					t.Parallel()
					p.check(t, fresh(t))
				})
			}
		})
	}
}

// A promise is a sentence about the contract of package store, with the test that
// checks it.
type promise struct {
	text  string
	check func(t *testing.T, db Database)
}

// open opens a handle that is closed at the end of the test.
func open(t *testing.T, db Database) store.Store {
	t.Helper()
	st, err := db(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

// base is the instant around which the grants of these tests live.
const base grant.Instant = 1_700_000_000_000

// newID returns a random id of a grant.
func newID() (id grant.ID) {
	rand.Read(id[:])
	return id
}

// newGrant returns an everyday grant after its redemption.
func newGrant(attempt uint64) grant.Grant {
	return grant.Grant{
		ID: newID(), Realm: "/api", ClientID: "billing", Subject: "alice", Scope: "read write",
		AuthorizedAt: base, Generation: 1, Version: 1, RotatedAt: base + 1, KeyID: 7,
		ExpiresAt: base + 1000, DeleteAfter: base + 2000, State: grant.Active, Attempt: attempt,
		AuthTime: base - 1000, Facts: grant.Facts{Claims: `{"tenant":"t1"}`},
	}
}

// rotated returns g after one rotation.
func rotated(g grant.Grant, attempt uint64) grant.Grant {
	g.Generation++
	g.Version++
	g.RotatedAt++
	g.ExpiresAt++
	g.DeleteAfter++
	g.Attempt = attempt
	return g
}

func create(t *testing.T, st store.Store, list ...grant.Grant) {
	t.Helper()
	for _, g := range list {
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatalf("CreateGrant: %v", err)
		}
	}
}

// Replace is a compare-and-swap by UpdateGrant: it stores g if the stored version is
// g.Version-1, and returns store.ErrConflict otherwise. It also succeeds if the store
// already has exactly g.
func Replace(ctx context.Context, st store.Store, g grant.Grant, events ...store.Event) error {
	var lost atomic.Bool // decide may outlive a call whose context ends
	err := st.UpdateGrant(ctx, g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
		lost.Store(have != g && have.Version != g.Version-1)
		if lost.Load() || have == g {
			return have, nil
		}
		return g, events
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && lost.Load() {
		return store.ErrConflict
	}
	return err
}

func update(t *testing.T, st store.Store, g grant.Grant, events ...store.Event) {
	t.Helper()
	if err := Replace(t.Context(), st, g, events...); err != nil {
		t.Fatalf("UpdateGrant: %v", err)
	}
}

// holds fails the test unless the store reads exactly g.
func holds(t *testing.T, st store.Store, g grant.Grant) {
	t.Helper()
	got, err := st.Grant(t.Context(), g.ID)
	if err != nil {
		t.Errorf("Grant: %v", err)
	} else if got != g {
		t.Errorf("read  %+v\nwrote %+v", got, g)
	}
}

// recorded returns the events about something.
func recorded(t *testing.T, st store.Store, about string) []store.Event {
	t.Helper()
	list, err := st.Events(t.Context(), about, 100)
	if err != nil {
		t.Fatalf("Events: %v", err)
	}
	return list
}

// newClient returns an everyday client with two secrets.
func newClient(id string) store.Client {
	return store.Client{
		ID: id, Realm: "/api", State: store.ClientEnabled, Settings: store.Settings{Name: "Billing", Auth: store.AuthEither,
			GrantTypes:   []string{store.GrantAuthorizationCode, store.GrantRefreshToken},
			RedirectURIs: []string{"https://client.example/cb"}, Scope: oauth.Scope("read write")},
		Secrets: []store.Secret{
			{ID: id + "-first", Digest: []byte{0, 1, 2, 0xff}, CreatedAt: base},
			{ID: id + "-second", Slow: "$argon2id$x", CreatedAt: base + 1, ExpiresAt: base + 9},
		},
		CreatedAt: base, UpdatedAt: base, Version: 1,
	}
}

// event returns an event about something, with n in its detail.
func event(about string, at grant.Instant, n int) store.Event {
	return store.Event{At: at, Name: store.EventGrantRevoked, About: about, Actor: "operator:root", Detail: fmt.Sprintf("number %d", n)}
}
