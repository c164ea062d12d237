package storetest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var documentPromises = []promise{
	{"a document is read back as it was written, at the extremes of every field", documentReadBack},
	{"Document returns ErrNotFound if there is none", func(t *testing.T, db Database) {
		noDocument(t, open(t, db), newDocument(1).Key)
	}},
	{"a body of more than MaxDocument, or a version below 1, is refused, and nothing is written", documentRefused},
	{"Commit of a document returns ErrConflict unless the stored version is the one before, and writes nothing", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		for _, absent := range []int64{2, 3, math.MaxInt64} {
			next := d
			next.Version = absent
			conflicts(t, st, next)
		}
		noDocument(t, st, d.Key)
		d = written(t, st, d, 4)
		for _, version := range []int64{1, 2, 3, 4, 6, 7, math.MaxInt64} {
			other := d
			other.Version, other.Body = version, []byte("other")
			conflicts(t, st, other)
		}
		holdsDocument(t, st, d)
		putDocument(t, st, successor(d, 9))
		holdsDocument(t, st, successor(d, 9))
	}},
	{"Commit of exactly what is stored is success", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		putDocument(t, st, d)
		putDocument(t, st, d)
		d = successor(d, 2)
		putDocument(t, st, d)
		putDocument(t, st, d)
		holdsDocument(t, st, d)
	}},
	{"Commit returns ErrConflict if the stored one differs in one member alone", func(t *testing.T, db Database) {
		st := open(t, db)
		for _, d := range []store.Document{newDocument(1), successor(newDocument(1), 2)} {
			d = written(t, st, d, d.Version)
			for _, edit := range []func(*store.Document){
				func(d *store.Document) { d.Kind = store.DocumentUser },
				func(d *store.Document) { d.ExpiresAt++ },
				func(d *store.Document) { d.ExpiresAt = 0 },
				func(d *store.Document) { d.Body = append(slices.Clone(d.Body), 0) },
				func(d *store.Document) { d.Body = nil },
				func(d *store.Document) { d.Owner[0]++ },
				func(d *store.Document) { d.Owner = store.Owner{} },
			} {
				other := d
				edit(&other)
				conflicts(t, st, other)
			}
			holdsDocument(t, st, d)
		}
	}},
	{"a document's kind never changes: ErrConflict", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		putDocument(t, st, d)
		next := successor(d, 2)
		next.Kind = store.DocumentUser
		conflicts(t, st, next)
		holdsDocument(t, st, d)
	}},
	{"Commit stores the document, the cutoffs and the events, all or nothing", documentAllOrNothing},
	{"documents and events do not change the directory's version", func(t *testing.T, db Database) {
		st := open(t, db)
		before := changes(t, st, 0).Version
		d := newDocument(1)
		putDocument(t, st, d)
		putDocument(t, st, successor(d, 2))
		if err := st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{d.Key}}); err != nil {
			t.Errorf("Commit of a deletion: %v", err)
		}
		nothingNew(t, st, before)
		if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Events: []store.Event{event("alice", base, 1)}}); err != nil {
			t.Errorf("Commit: %v", err)
		}
		nothingNew(t, st, before)
	}},
	{"a document that has expired is found until it is swept", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		d.ExpiresAt = 1
		putDocument(t, st, d)
		holdsDocument(t, st, d)
		d = successor(d, 2)
		d.ExpiresAt = 1
		putDocument(t, st, d)
		holdsDocument(t, st, d)
		if deleted := sweepDocuments(t, st, 2, 10); deleted != 1 {
			t.Errorf("%d deleted, want 1", deleted)
		}
		noDocument(t, st, d.Key)
	}},
	{"Commit deletes a document, whatever its version, and an absent one is no error", func(t *testing.T, db Database) {
		st := open(t, db)
		kept, gone := newDocument(1), newDocument(2)
		putDocument(t, st, kept)
		gone = written(t, st, gone, 3)
		for range 3 {
			if err := st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{gone.Key}}); err != nil {
				t.Errorf("Commit of a deletion: %v", err)
			}
			noDocument(t, st, gone.Key)
		}
		holdsDocument(t, st, kept)
		conflicts(t, st, successor(gone, 4))
		gone.Version = 1
		putDocument(t, st, gone)
		holdsDocument(t, st, gone)
	}},
	{"Documents lists one kind in the order of the keys, after a key, at most limit", listedDocuments},
	{"CountDocuments counts the documents of one kind", func(t *testing.T, db Database) {
		st := open(t, db)
		for _, d := range []store.Document{
			{Kind: store.DocumentUser, Key: store.DocumentKey{1}, Version: 1, Body: []byte("{}")},
			{Kind: store.DocumentUser, Key: store.DocumentKey{2}, Version: 1, Body: []byte("{}")},
			{Kind: store.DocumentSession, Key: store.DocumentKey{3}, Version: 1, Body: []byte("{}")},
		} {
			if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
				t.Fatal(err)
			}
		}
		for kind, want := range map[store.DocumentKind]int{store.DocumentUser: 2, store.DocumentSession: 1, store.DocumentConsents: 0} {
			if n, err := st.CountDocuments(t.Context(), kind); err != nil || n != want {
				t.Errorf("%d documents of kind %s, %v; want %d", n, kind, err, want)
			}
		}
	}},
	{"TallyUsers changes with every new user, and every new version of one", func(t *testing.T, db Database) {
		st := open(t, db)
		for i, d := range []store.Document{{Kind: store.DocumentUser, Key: store.DocumentKey{1}, Version: 1}, {Kind: store.DocumentUser, Key: store.DocumentKey{1}, Version: 2},
			{Kind: store.DocumentSession, Key: store.DocumentKey{3}, Version: 1}, {Kind: store.DocumentUser, Key: store.DocumentKey{2}, Version: 1}} {
			d.Body = []byte("{}")
			putDocument(t, st, d)
			want := []store.Tally{{Users: 1, Versions: 1}, {Users: 1, Versions: 2}, {Users: 1, Versions: 2}, {Users: 2, Versions: 3}}[i]
			if have, err := st.TallyUsers(t.Context()); err != nil || have != want {
				t.Errorf("after document %d: %+v, %v; want %+v", i, have, err, want)
			}
		}
	}},
	{"Documents lists the documents of one owner and kind, even if a later version set the owner", ownedDocuments},
	{"the store keeps no reference to a body that it received or returned", func(t *testing.T, db Database) {
		st := open(t, db)
		d, listed := newDocument(1), newDocument(2)
		for n, d := range []store.Document{d, listed} {
			given := d
			given.Body = slices.Clone(d.Body)
			if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{given}, Events: slices.Repeat([]store.Event{event("alice", base, n)}, n)}); err != nil {
				t.Fatalf("Commit: %v", err)
			}
			clear(given.Body)
			got, err := st.Document(t.Context(), d.Key)
			if err != nil {
				t.Fatalf("Document: %v", err)
			}
			clear(got.Body)
			holdsDocument(t, st, d)
		}
	}},
	{"a document that was written survives closing and opening again", func(t *testing.T, db Database) {
		st, err := db(t.Context())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		kept, gone := written(t, st, newDocument(1), 3), newDocument(2)
		putDocument(t, st, gone)
		if err := errors.Join(st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{gone.Key}}), st.Close()); err != nil {
			t.Fatalf("Commit, Close: %v", err)
		}
		st = open(t, db)
		holdsDocument(t, st, kept)
		noDocument(t, st, gone.Key)
	}},
}

// newDocument returns a session with a random key, and with n in its body.
func newDocument(n int) store.Document {
	d := store.Document{Kind: store.DocumentSession, Version: 1, ExpiresAt: base + 1000, Owner: store.OwnerOf("/api", fmt.Sprint(n)), Body: fmt.Appendf(nil, `{"number":%d}`, n)}
	rand.Read(d.Key[:])
	return d
}

// successor returns the next version of d, with n in its body.
func successor(d store.Document, n int) store.Document {
	d.Version++
	d.ExpiresAt++
	d.Body = fmt.Appendf(nil, `{"next":%d}`, n)
	return d
}

func putDocument(t *testing.T, st store.Store, d store.Document) {
	t.Helper()
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatalf("Commit of version %d: %v", d.Version, err)
	}
}

// written stores d and its successors up to a version, and returns the last one.
func written(t *testing.T, st store.Store, d store.Document, version int64) store.Document {
	t.Helper()
	d.Version = 1
	putDocument(t, st, d)
	for d.Version < version {
		d = successor(d, int(d.Version))
		putDocument(t, st, d)
	}
	return d
}

// conflicts checks that d conflicts, alone and with a cutoff and an event.
func conflicts(t *testing.T, st store.Store, d store.Document) {
	t.Helper()
	cutoff := store.Cutoff{Realm: "/api", Subject: "conflict", At: base}
	for _, err := range []error{
		st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}),
		st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Cutoffs: []store.Cutoff{cutoff}, Events: []store.Event{event("conflict", base, 1)}}),
	} {
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("Commit of version %d: %v, want ErrConflict", d.Version, err)
		}
	}
	if list := recorded(t, st, "conflict"); len(list) != 0 {
		t.Errorf("%d events of a write that did not happen", len(list))
	}
	for _, c := range changes(t, st, 0).Cutoffs {
		if c.Subject == "conflict" {
			t.Error("a cutoff of a write that did not happen")
		}
	}
}

// holdsDocument fails the test unless the store reads exactly d.
func holdsDocument(t *testing.T, st store.Store, d store.Document) {
	t.Helper()
	got, err := st.Document(t.Context(), d.Key)
	if err != nil {
		t.Errorf("Document: %v", err)
	} else if !got.Equal(d) {
		t.Errorf("read %s version %d, expiry %d, %d bytes; wrote %s version %d, expiry %d, %d bytes",
			got.Kind, got.Version, got.ExpiresAt, len(got.Body), d.Kind, d.Version, d.ExpiresAt, len(d.Body))
	}
}

func noDocument(t *testing.T, st store.Store, key store.DocumentKey) {
	t.Helper()
	d, err := st.Document(t.Context(), key)
	if !errors.Is(err, store.ErrNotFound) || !d.Equal(store.Document{}) {
		t.Errorf("Document = version %d of a %s, %v; want nothing and ErrNotFound", d.Version, d.Kind, err)
	}
}

func documentReadBack(t *testing.T, db Database) {
	st := open(t, db)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, kind := range []store.DocumentKind{store.DocumentUser, store.DocumentSession, store.DocumentInteraction, store.DocumentConsents} {
		for n, body := range [][]byte{nil, {}, {0}, []byte("äöü\x00{}"), every, bytes.Repeat(every, store.MaxDocument/len(every))} {
			d := store.Document{Kind: kind, Key: store.KeyOf(kind, "/api", fmt.Sprint(n)), Version: 1, Body: body}
			d.ExpiresAt = []grant.Instant{0, 1, base, grant.Never, math.MaxInt64, -1}[n]
			putDocument(t, st, d)
			holdsDocument(t, st, d)
			d.Owner = store.Owner{byte(n)} // the zero Owner for the first
			// Engines write a change with events in another way.
			d.Version, d.Body, d.ExpiresAt = 2, slices.Concat(body[:len(body)/2], []byte("2")), base
			if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Events: []store.Event{event("alice", base, n)}}); err != nil {
				t.Fatalf("Commit: %v", err)
			}
			holdsDocument(t, st, d)
			other := store.Document{Kind: kind, Key: store.KeyOf(kind, "/other", fmt.Sprint(n)), Version: 1, Body: body}
			if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{other}, Events: []store.Event{event("alice", base, n)}}); err != nil {
				t.Fatalf("Commit: %v", err)
			}
			holdsDocument(t, st, other)
			holdsDocument(t, st, d)
		}
	}
}

func documentRefused(t *testing.T, db Database) {
	st := open(t, db)
	before := changes(t, st, 0).Version
	kept := newDocument(1)
	putDocument(t, st, kept)
	large, next := newDocument(2), successor(kept, 3)
	large.Body = make([]byte, store.MaxDocument+1)
	next.Body = large.Body
	list := []store.Document{large, next}
	for _, version := range []int64{0, -1, math.MinInt64} {
		d := newDocument(4)
		d.Version = version
		list = append(list, d)
	}
	for _, d := range list {
		for _, err := range []error{
			st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}),
			st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}, Events: []store.Event{event("alice", base, 1)}}),
		} {
			if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("Commit of version %d, %d bytes: %v, want an error of its own", d.Version, len(d.Body), err)
			}
		}
	}
	holdsDocument(t, st, kept)
	noDocument(t, st, large.Key)
	nothingNew(t, st, before)
	if n := len(recorded(t, st, "alice")); n != 0 {
		t.Errorf("%d events of writes that were refused", n)
	}
}

func documentAllOrNothing(t *testing.T, db Database) {
	st := open(t, db)
	d := newDocument(1)
	cutoffs := []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}, {Realm: "/api", Subject: "alice", ClientID: "billing", At: base + 1}}
	events := []store.Event{event("subject:alice", base, 1), event("subject:alice", base+1, 2)}
	for range 3 {
		// The same change succeeds again, and its events are stored once.
		if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Cutoffs: cutoffs, Events: events}); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		holdsDocument(t, st, d)
		sameCutoffs(t, changes(t, st, 0).Cutoffs, cutoffs)
		sameEvents(t, recorded(t, st, "subject:alice"), events)
	}
	version := changes(t, st, 0).Version
	// A change that conflicts stores nothing.
	lost := d
	lost.Body = []byte("lost")
	conflicts(t, st, lost)
	lost.Version = 3
	conflicts(t, st, lost)
	nothingNew(t, st, version)

	d = successor(d, 2)
	later := store.Cutoff{Realm: "/api", Subject: "alice", At: base + 9}
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Cutoffs: []store.Cutoff{later}}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	holdsDocument(t, st, d)
	sameCutoffs(t, changes(t, st, version).Cutoffs, []store.Cutoff{later})
	// An earlier cutoff never replaces a later one.
	d = successor(d, 3)
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Cutoffs: cutoffs[:1]}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	holdsDocument(t, st, d)
	sameCutoffs(t, changes(t, st, 0).Cutoffs, []store.Cutoff{later, cutoffs[1]})
}

func listedDocuments(t *testing.T, db Database) {
	st := open(t, db)
	all := map[store.DocumentKind][]store.Document{}
	for n := range 30 {
		d := newDocument(n)
		d.Kind = []store.DocumentKind{store.DocumentUser, store.DocumentSession, store.DocumentConsents}[n%3]
		if n%2 == 0 {
			d.ExpiresAt = 0
		}
		all[d.Kind] = append(all[d.Kind], written(t, st, d, int64(1+n%2)))
	}
	for kind, want := range all {
		slices.SortFunc(want, func(a, b store.Document) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		for _, limit := range []int{1, 3, 10, 11} {
			var after store.DocumentKey
			var got []store.Document
			for {
				page, err := st.Documents(t.Context(), store.DocumentFilter{Kind: kind, After: after, Limit: limit})
				if err != nil || len(page) > limit {
					t.Fatalf("Documents: %d of at most %d, %v", len(page), limit, err)
				}
				if got = append(got, page...); len(page) < limit {
					break
				}
				after = page[len(page)-1].Key
			}
			if !slices.EqualFunc(got, want, store.Document.Equal) {
				t.Errorf("%s, %d at once: %d documents, want %d in the order of their keys", kind, limit, len(got), len(want))
			}
		}
	}
	if list, err := st.Documents(t.Context(), store.DocumentFilter{Kind: store.DocumentInteraction, Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("a kind of which there is none: %d, %v", len(list), err)
	}
}

func ownedDocuments(t *testing.T, db Database) {
	st := open(t, db)
	alice, bob := store.OwnerOf("/api", "alice"), store.OwnerOf("/api", "bob")
	if alice == bob || alice == store.OwnerOf("/other", "alice") {
		t.Error("two subjects are one owner")
	}
	var want []store.Document
	for n := range 12 {
		d := newDocument(n)
		d.Kind = []store.DocumentKind{store.DocumentSession, store.DocumentConsents}[n%2]
		d.Owner = []store.Owner{alice, {}, bob}[n%3]
		putDocument(t, st, d)
		if n == 4 { // without an owner at first
			d = successor(d, n)
			d.Owner = alice
			putDocument(t, st, d)
		}
		if d.Owner == alice && d.Kind == store.DocumentSession {
			want = append(want, d)
		}
	}
	slices.SortFunc(want, func(a, b store.Document) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for _, limit := range []int{1, 2, 10} {
		var got []store.Document
		f := store.DocumentFilter{Kind: store.DocumentSession, Owner: alice, Limit: limit}
		for {
			page, err := st.Documents(t.Context(), f)
			if err != nil || len(page) > limit {
				t.Fatalf("Documents: %d of at most %d, %v", len(page), limit, err)
			}
			if got = append(got, page...); len(page) < limit {
				break
			}
			f.After = page[len(page)-1].Key
		}
		if !slices.EqualFunc(got, want, store.Document.Equal) {
			t.Errorf("%d at once: %d documents of an owner, want %d in the order of their keys", limit, len(got), len(want))
		}
	}
}
