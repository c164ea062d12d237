// Package logout notifies clients that sessions have ended (OpenID Connect Back-Channel
// Logout 1.0). It is a transactional outbox: the change that ends a session stores an End
// in the same commit; one node at a time finds the clients that the End concerns, stores
// a Token for each, and sends it until the client answers or 24 hours have passed. A
// client gets its tokens one after the other, in the order of the ends, each at least
// once.
package logout

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// An End is the end of one session, or of all sessions of a subject.
type End struct {
	Subject string `json:"subject"`
	// Session is the reference of the session, in hexadecimal digits; "": all sessions
	// that began at or before At.
	Session string        `json:"session,omitempty"`
	At      grant.Instant `json:"at"`
	// Looked is when the last round ran, and Done is set after the last of all rounds.
	// Several rounds are needed because a code that was issued before the end may be redeemed
	// after it.
	Looked grant.Instant `json:"looked,omitempty"`
	Done   bool          `json:"done,omitempty"`
	// Seen are the ids of grants that rounds have found and a later round must skip. It may
	// be incomplete.
	Seen []string `json:"seen,omitempty"`
	// Tokens refers to the tokens of the end, at most maxRefs. More counts the others.
	Tokens []TokenRef `json:"tokens,omitempty"`
	More   int        `json:"more,omitempty"`
}

// A TokenRef names the document of a Token.
type TokenRef struct {
	ClientID string `json:"client_id"`
	Key      string `json:"key"`
}

func (r TokenRef) key() (key store.DocumentKey) {
	hex.Decode(key[:], []byte(r.Key))
	return key
}

// maxRefs bounds End.Tokens and End.Seen: a client's id has at most 64 bytes, and
// a document 16 KiB.
const maxRefs = 64

// A State is the result of the delivery of a Token.
type State string

const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Refused   State = "refused"  // the client has answered 400, which is final
	GivenUp   State = "given_up" // no answer within 24 hours
	Dropped   State = "dropped"  // not sent any more: Token.Answer says why
)

// A Token is a logout token for one client. Its text is signed again for each attempt.
type Token struct {
	ClientID  string        `json:"client_id"`
	Subject   string        `json:"subject"`
	SessionID string        `json:"sid,omitempty"`   // "": all sessions of the subject
	Until     grant.Instant `json:"until,omitempty"` // without SessionID: only sessions that began until then
	At        grant.Instant `json:"at"`              // of the end
	State     State         `json:"state"`
	Attempts  int           `json:"attempts,omitempty"`
	Next      grant.Instant `json:"next,omitempty"`   // the next attempt
	Tried     grant.Instant `json:"tried,omitempty"`  // the last attempt
	Answer    string        `json:"answer,omitempty"` // to the last attempt, or why there was none
}

const (
	// pendingFor is how long documents are kept that no node has processed.
	pendingFor = 7 * 24 * hour
	// shownFor is how long the result of a logout can be shown.
	shownFor = 24 * hour
)

// Unfinished documents of the outbox have an owner that is no subject, because subjects
// contain no control characters. Nodes find the documents by their owner.
func ownerNew(realm string) store.Owner     { return store.OwnerOf(realm, "\x00logouts") }
func ownerLater(realm string) store.Owner   { return store.OwnerOf(realm, "\x00logouts seen once") }
func ownerDevices(realm string) store.Owner { return store.OwnerOf(realm, "\x00logouts seen twice") }
func ownerQueue(realm, client string) store.Owner {
	return store.OwnerOf(realm, "\x00logout tokens\x00"+client)
}

// EndOfSession returns the End of a session as a document, to store in the commit that
// ends the session. With e.Grants (an operator ends the session), its key is random:
// clients are notified even if the session has ended before, or at the same instant.
func EndOfSession(realm string, e issuer.SessionEnd, at grant.Instant) store.Document {
	session := hex.EncodeToString(e.Reference[:])
	name := session
	if e.Grants {
		name = rand.Text()
	}
	return End{Subject: e.Subject, Session: session, At: at}.document(realm, name)
}

// EndOfAll returns the End of all sessions of a subject that began at or before an
// instant, as a document.
func EndOfAll(realm, subject string, at grant.Instant) store.Document {
	return End{Subject: subject, At: at}.document(realm, rand.Text()) // another one may end at the same instant
}

// document returns the first version of an End.
func (r End) document(realm, name string) store.Document {
	return store.Document{
		Kind: store.DocumentLogout, Key: store.KeyAt(r.At, realm, r.Subject, name), Version: 1,
		ExpiresAt: r.At.Add(pendingFor), Owner: ownerNew(realm), Body: encode(r),
	}
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode logout: %v", err)) // it has no member that could fail
	}
	return body
}

// errDecode is the error of a document that cannot be decoded. It does not block other
// documents.
var errDecode = errors.New("decode")

func decode[T any](d store.Document) (v T, err error) {
	if err = json.Unmarshal(d.Body, &v); err != nil {
		err = fmt.Errorf("%w %s: %w", errDecode, d.Kind, err)
	}
	return v, err
}

// reference returns the bytes of r.Session.
func (r End) reference() (b [16]byte) {
	hex.Decode(b[:], []byte(r.Session))
	return b
}
