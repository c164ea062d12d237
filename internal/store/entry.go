package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// An EntryKind is the kind of an entry of the directory.
type EntryKind string

const EntryClient EntryKind = "client"

// An Entry is a row of the directory, which every node holds in memory. It is never
// deleted, and its id is never reused.
type Entry struct {
	Kind    EntryKind
	ID      string // with the realm, unless that is the default one
	Version int64  // counts changes; the first is 1
	Body    []byte // JSON
}

// row returns the key of e in its table. A client's key is its id alone, because the table
// contained only clients at first. Ids contain no space, so that keys of two kinds differ.
func (e Entry) row() string {
	if e.Kind == EntryClient {
		return e.ID
	}
	return string(e.Kind) + " " + e.ID
}

// Changes are rows of the directory, which every node holds in memory. A new kind of entry
// needs a list here, a case in add and a line in OfRealm; tests find one without them.
type Changes struct {
	Version  int64 // of the directory; grows with each change
	Clients  []Client
	APIs     []API
	Trusts   []Trust
	Cutoffs  []Cutoff
	Keys     []keys.Stored
	Restores []grant.Restore
}

// add decodes an entry into the list of its kind. It ignores kinds of later
// versions.
func (ch *Changes) add(kind EntryKind, text string) error {
	switch kind {
	case EntryClient:
		ch.Clients = append(ch.Clients, Client{})
		c := &ch.Clients[len(ch.Clients)-1]
		if err := decode(clientMembers, text, c, &c.Later, knownOfClient); err != nil {
			return fmt.Errorf("decode client %q: %w", c.ID, err)
		}
	case EntryAPI:
		a, err := Entry{Kind: kind, Body: []byte(text)}.API()
		ch.APIs = append(ch.APIs, a)
		return err
	case EntryTrust:
		t, err := Entry{Kind: kind, Body: []byte(text)}.Trust()
		ch.Trusts = append(ch.Trusts, t)
		return err
	}
	return nil
}

// OfRealm returns a copy of ch without the rows of other realms.
func (ch Changes) OfRealm(realm string) Changes {
	ch.Clients = slices.DeleteFunc(slices.Clone(ch.Clients), func(c Client) bool { return c.Realm != realm })
	ch.APIs = slices.DeleteFunc(slices.Clone(ch.APIs), func(a API) bool { return a.Realm != realm })
	ch.Trusts = slices.DeleteFunc(slices.Clone(ch.Trusts), func(t Trust) bool { return t.Realm != realm })
	ch.Cutoffs = slices.DeleteFunc(slices.Clone(ch.Cutoffs), func(c Cutoff) bool { return c.Realm != realm })
	return ch
}

// LongestJWT returns the longest lifetime that a registration gives, or gave, to
// id_tokens or access tokens; zero if none does. ch must hold all registrations.
func (ch Changes) LongestJWT() (longest time.Duration) {
	for _, c := range ch.Clients {
		longest = max(longest, c.LongestIDTokens())
	}
	for _, api := range ch.APIs {
		longest = max(longest, api.LongestLifetime.Duration())
	}
	return longest
}

// FindAPI returns the API of ch with an id, or nil if it is absent or deleted.
func (ch Changes) FindAPI(id string) *API {
	if a := ch.APIRow(id); a.Version != 0 && !a.Deleted {
		return &a
	}
	return nil
}

// APIRow returns the row of an API's id, present or deleted; the zero API if
// there is none.
func (ch Changes) APIRow(id string) API {
	i := slices.IndexFunc(ch.APIs, func(a API) bool { return oauth.CanonicalTarget(a.ID) == oauth.CanonicalTarget(id) })
	if i < 0 {
		return API{}
	}
	return ch.APIs[i]
}

// InRealm returns the key of a name that is unique in its realm: a client's id, an API's,
// or what an event is about. In the default realm, it is the name itself. The key of another
// realm begins with a slash, as realms do, and contains a space. No name does both.
func InRealm(realm, name string) string {
	if cmp.Or(realm, oauth.DefaultRealm) == oauth.DefaultRealm {
		return name
	}
	return realm + " " + name
}

// OtherRealm returns a realm, or "" for the default one, which rows and records do not name.
func OtherRealm(realm string) string {
	if realm == oauth.DefaultRealm {
		return ""
	}
	return realm
}

// SplitRealm returns the realm and the name in the About of an event. The realm is "" for the
// default realm, and for events that belong to no realm.
func SplitRealm(about string) (realm, name string) {
	if before, after, ok := strings.Cut(about, " "); ok && strings.HasPrefix(before, "/") {
		return before, after
	}
	return "", about
}

// A TokenFormat is the format of an access token.
type TokenFormat string

const (
	TokenOpaque TokenFormat = "opaque"
	TokenJWT    TokenFormat = "jwt" // RFC 9068
)

// Milliseconds is a duration in its stored form.
type Milliseconds int64

// Duration converts m.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Or converts m, or returns another duration if m is nil.
func (m *Milliseconds) Or(other time.Duration) time.Duration {
	if m == nil {
		return other
	}
	return m.Duration()
}

// InMilliseconds returns the stored form of a duration.
func InMilliseconds(d time.Duration) *Milliseconds { return new(Milliseconds(d.Milliseconds())) }
