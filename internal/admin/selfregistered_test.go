package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// agreed stores a self-registered client, as a user's first consent does.
func agreed(t *testing.T, a *admin.Admin, n int) store.Client {
	t.Helper()
	now := grant.At(a.Now())
	c := store.Client{
		ID: fmt.Sprintf("https://agent-%d.example/client.json", n), Realm: a.Realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now.Add(time.Hour), Settings: store.Settings{Name: fmt.Sprintf("Agent %d", n), Auth: store.AuthNone,
			GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{"http://127.0.0.1/cb"}, Scope: "use", APIs: []string{"https://mcp.example"},
		},
	}
	if err := a.Store.Commit(t.Context(), store.Change{Documents: []store.Document{c.Record(now, now.Add(24*time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// Operators can list self-registered clients in pages, including disabled ones and those
// whose record is gone.
func TestClientsThatRegisteredThemselvesAreListed(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	var ids []string
	for i := range 25 {
		ids = append(ids, agreed(t, a, i).ID)
	}
	for _, id := range ids[:3] {
		if _, err := a.Clients().SetState(ctx, id, "", store.ClientDisabled); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Store.Commit(ctx, store.Change{Delete: []store.DocumentKey{store.ClientKey(a.Realm, ids[0])}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Clients().Delete(ctx, ids[4], ""); err != nil {
		t.Fatal(err)
	}
	// An expired record does not count, even if no sweep has deleted it yet.
	expired := agreed(t, a, 25)
	d := expired.Record(grant.At(a.Now()), grant.At(a.Now()))
	d.Version = 2
	if err := a.Store.Commit(ctx, store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Clients().Create(ctx, billing(), store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	list := func(p adminapi.Page, all bool) (found []string) {
		t.Helper()
		for {
			page, more, err := a.Clients().ListSelfRegistered(ctx, p, all)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page {
				found = append(found, c.ID)
				if !c.SelfRegistered() || (c.State == store.ClientDisabled) != slices.Contains(ids[:3], c.ID) {
					t.Errorf("%+v", c)
				}
			}
			if !more {
				slices.Sort(found)
				return found
			}
			p.After = found[len(found)-1]
		}
	}
	sorted := func(ids ...string) []string { return slices.Sorted(slices.Values(ids)) }
	rest := slices.Concat(ids[:4], ids[5:])
	for what, tt := range map[string]struct {
		p    adminapi.Page
		all  bool
		want []string
	}{
		"all at once":     {adminapi.Page{Limit: 100}, false, sorted(rest...)},
		"one by one":      {adminapi.Page{Limit: 1}, false, sorted(rest...)},
		"in pages of 7":   {adminapi.Page{Limit: 7}, false, sorted(rest...)},
		"and the deleted": {adminapi.Page{Limit: 100}, true, sorted(ids...)},
		"by name":         {adminapi.Page{Limit: 100, Match: "agent 7"}, false, ids[7:8]},
		"by host":         {adminapi.Page{Limit: 100, Match: "127.0.0.1"}, false, sorted(rest...)},
		"disabled":        {adminapi.Page{Limit: 2, State: "disabled"}, false, sorted(ids[:3]...)},
		"deleted":         {adminapi.Page{Limit: 2, State: "deleted"}, false, ids[4:5]},
	} {
		for _, a.Records = range []*admin.Records{nil, {}} {
			if got := list(tt.p, tt.all); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %q, want %q", what, got, tt.want)
			}
		}
	}
	if page, _, err := a.Clients().List(ctx, adminapi.Page{Limit: 100}, true); err != nil || len(page) != 1 || page[0].ID != "billing" {
		t.Errorf("among those of operators: %+v, %v", page, err)
	}
}

// A counted store counts the documents that lists read.
type counted struct {
	store.Store
	documents int
}

func (c *counted) Documents(ctx context.Context, f store.DocumentFilter) ([]store.Document, error) {
	list, err := c.Store.Documents(ctx, f)
	c.documents += len(list)
	return list, err
}

// A search reads only the records that have changed since the last search, and all of
// them once an hour, to notice those that a sweep has deleted.
func TestASearchReadsWhatHasChanged(t *testing.T) {
	a, _ := newAdmin(t)
	reads := &counted{Store: a.Store}
	now := grant.At(a.Now())
	a.Store, a.Records, a.Now = reads, &admin.Records{}, func() time.Time { return now.Time() }
	search := func(what, match string, read int, want ...string) {
		t.Helper()
		reads.documents = 0
		page, _, err := a.Clients().ListSelfRegistered(t.Context(), adminapi.Page{Limit: 100, Match: match}, false)
		var got []string
		for _, c := range page {
			got = append(got, c.Name)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) || reads.documents != read {
			t.Errorf("%s: %q, %v, by %d documents; want %q by %d", what, got, err, reads.documents, want, read)
		}
	}
	for n := range 50 {
		agreed(t, a, n)
	}
	search("at first", "AGENT 7", 50, "Agent 7")
	search("what was written a moment ago", "agent 8", 50, "Agent 8")
	now = now.Add(20 * time.Minute)
	search("nothing since", "agent 7", 50, "Agent 7")
	now = now.Add(20 * time.Minute)
	search("nothing for longer", "agent 7", 0, "Agent 7")
	c := agreed(t, a, 50)
	search("a new one", "agent 50", 1, "Agent 50")
	c.Name, c.Version = "Renamed", 1
	if err := a.Store.Commit(t.Context(), store.Change{Documents: []store.Document{c.Record(now, now.Add(24*time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	search("by its new name", "renamed", 1, "Renamed")
	search("by its old name", "agent 50", 1)
	if err := a.Store.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{store.ClientKey(a.Realm, c.ID)}}); err != nil {
		t.Fatal(err)
	}
	search("one that has gone", "renamed", 0)
	now = now.Add(30 * time.Minute)
	search("an hour after the first", "agent 7", 50, "Agent 7")
	now = now.Add(-2 * time.Hour)
	search("after the clock went back", "agent 7", 50, "Agent 7")
}

// A self-registered client can be shown, disabled, enabled and deleted, with the events
// of every client, but not changed. An operator can register its id.
func TestAClientThatRegisteredItselfIsOperated(t *testing.T) {
	a, changes := newAdmin(t)
	ctx := t.Context()
	c := agreed(t, a, 1)
	got, err := a.Clients().Read(ctx, c.ID)
	if err != nil || got.Name != "Agent 1" || got.Scope != "" || got.APIs != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	text, err := json.Marshal(admin.ViewClient(got, grant.At(a.Now())))
	if err != nil || !strings.Contains(string(text), `"self_registered":{"by":"document","redirect_hosts":["127.0.0.1"],"first_agreement_at":"2026-`) {
		t.Errorf("%s, %v", text, err)
	}
	for range 2 { // the second time changes nothing
		for _, state := range []store.ClientState{store.ClientDisabled, store.ClientEnabled} {
			before := *changes
			next, err := a.Clients().SetState(ctx, c.ID, "", state)
			if err != nil || next.State != state || *changes != before+1 {
				t.Fatalf("%s: %+v, %v", state, next, err)
			}
			if again, err := a.Clients().SetState(ctx, c.ID, admin.ClientETag(next), state); err != nil || again.State != state || *changes != before+1 {
				t.Errorf("%s again: %v", state, err)
			}
			if got, err := a.Clients().Read(ctx, c.ID); err != nil || got.State != state {
				t.Errorf("%s: %+v, %v", state, got, err)
			}
		}
	}
	if _, err := a.Clients().SetState(ctx, c.ID, "another", store.ClientDisabled); codeOf(err) != admin.Changed {
		t.Errorf("with another ETag: %v", err)
	}
	if _, err := rename(t, a, c.ID, "", "Bank"); codeOf(err) != admin.Conflict {
		t.Errorf("changed: %v", err)
	}
	if _, _, err := a.Clients().AddSecret(ctx, c.ID, 0); codeOf(err) != admin.Conflict {
		t.Errorf("with a secret: %v", err)
	}
	if _, err := a.Clients().Read(ctx, "https://none.example/client.json"); codeOf(err) != admin.NotFound {
		t.Errorf("a client without any consent: %v", err)
	}
	events, err := a.Events(ctx, c.ID)
	if err != nil || len(events) != 4 || events[0].Name != "client_changed" || events[0].Detail != "disabled" || events[3].Detail != "enabled" {
		t.Errorf("%+v, %v", events, err)
	}
	if _, err := a.Clients().Delete(ctx, c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Clients().Read(ctx, c.ID); codeOf(err) != admin.Deleted {
		t.Errorf("after its deletion: %v", err)
	}
	other := agreed(t, a, 2)
	if _, err := a.Clients().SetState(ctx, other.ID, "", store.ClientDisabled); err != nil {
		t.Fatal(err)
	}
	r := billing()
	r.ID = other.ID
	if _, _, err := a.Clients().Create(ctx, r, store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Clients().Read(ctx, other.ID); err != nil || got.SelfRegistered() || got.Name != "Billing" {
		t.Errorf("registered by an operator: %+v, %v", got, err)
	}
}

// A client that was disabled after the backup stays disabled in the restored store, even
// if that has no entry for it.
func TestADisabledClientThatRegisteredItselfStaysSoAfterARestore(t *testing.T) {
	a, _ := newAdmin(t)
	c := agreed(t, a, 1)
	kek, err := a.KEK(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := c
	gone.ID, gone.State = "https://gone.example/client.json", store.ClientDisabled
	e := admin.Ended{Clients: []admin.EndedClient{
		{ID: c.ID, State: store.ClientDisabled},
		{ID: gone.ID, State: store.ClientDisabled, Own: &gone},
		{ID: "unknown", State: store.ClientDisabled},
	}}
	for range 2 {
		if err := e.Merge(t.Context(), a.Store, kek, "operator:test", a.Now); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{c.ID, gone.ID} {
		if got, err := a.Store.Client(t.Context(), id); err != nil || got.State != store.ClientDisabled || got.Version != 1 || !got.SelfRegistered() {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	if _, err := a.Store.Client(t.Context(), "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

// The id of a self-registered client contains the registration, so even a client without
// any consent can be described, if this server has issued the id.
func TestARegistrationWithoutConsentIsDescribed(t *testing.T) {
	a, _ := newAdmin(t)
	kek, err := a.KEK(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.Schedule.Registrations = true
	dir, err := directory.Open(t.Context(), a.Store, kek, a.Schedule, slog.New(slog.DiscardHandler), a.Now)
	if err == nil {
		err = dir.RotateDue(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Ring = func(context.Context) (*keys.Ring, error) { return dir.Ring(), nil }
	at := grant.At(a.Now())
	id, err := dir.Ring().Registrations(a.Realm).Seal(keys.SealedRegistration{Name: "Agent", At: at, Redirects: [][16]byte{{1}, {2}}})
	if err != nil {
		t.Fatal(err)
	}
	changed := id[:len(id)-4] + "AAAA"
	for id, want := range map[string]string{
		id:        fmt.Sprintf("it is a registration of %s, by the name \"Agent\" and with 2 redirect URIs, and no user has agreed to it, or not lately", show.Instant(at)),
		changed:   "it looks like a registration, but not one of this server",
		"billing": `there is no client "billing"`,
	} {
		_, err := a.Clients().Read(t.Context(), id)
		if codeOf(err) != admin.NotFound || !strings.Contains(err.Error(), want) || (id == "billing") != (err.Error() == want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	a.Ring = func(context.Context) (*keys.Ring, error) { return nil, errors.New("no key-encryption key") }
	if _, err := a.Clients().Read(t.Context(), id); codeOf(err) != admin.NotFound || !strings.Contains(err.Error(), "agreed to: no key-encryption key") {
		t.Error(err)
	}
}
