package store

import (
	"cmp"
	"strings"
	"time"

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
