package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
)

// A DocumentKind says what a document is.
type DocumentKind string

const (
	DocumentUser        DocumentKind = "user"         // a built-in user, by username
	DocumentSubject     DocumentKind = "subject"      // that a user or a client is created with, by subject
	DocumentSession     DocumentKind = "session"      // a browser's, by its id
	DocumentInteraction DocumentKind = "interaction"  // what is asked of a user, by its id
	DocumentPushed      DocumentKind = "pushed"       // a client's authorization request that its browser brings later, by its id
	DocumentLeaving     DocumentKind = "leaving"      // a client's request to log a user out, by its id
	DocumentConsents    DocumentKind = "consents"     // what a subject has agreed to, by subject
	DocumentClaims      DocumentKind = "claims"       // what the last login said about a subject, by subject
	DocumentClient      DocumentKind = "client"       // a client that registered itself, by its id
	DocumentDeployment  DocumentKind = "deployment"   // what the store remembers of the deployment, by what that is
	DocumentAssertion   DocumentKind = "assertion"    // a client assertion that was used, by client and jti
	DocumentAdminTokens DocumentKind = "admin_tokens" // the tokens of the admin API, in one document
	DocumentOperators   DocumentKind = "operators"    // of the console, in one document
	DocumentTraffic     DocumentKind = "traffic"      // what a process has answered in two hours, by these and the process
	DocumentAuditHead   DocumentKind = "audit_head"   // how far an audit log has got, by the name of its chain

	// Of the console, by a text that only a browser or a link has.
	DocumentConsoleSession    DocumentKind = "console_session"
	DocumentConsoleInvitation DocumentKind = "console_invitation"
	DocumentConsoleTicket     DocumentKind = "console_ticket"
	DocumentDevice            DocumentKind = "device" // a device authorization, by its user code

	// Of logins at a provider.
	DocumentProviderSession DocumentKind = "provider_session" // the sessions of one at the provider, by issuer and sid
	DocumentProviderLogout  DocumentKind = "provider_logout"  // a logout token that has counted, by issuer and jti

	// Their keys begin with an instant, which is their order; the first is of the issuer,
	// the others are of package logout.
	DocumentSessionEnd  DocumentKind = "session_end"  // the end of a session whose grants are to be revoked
	DocumentLogout      DocumentKind = "logout"       // the end of a session, or of all sessions of a subject
	DocumentLogoutToken DocumentKind = "logout_token" // what one client is told of it

	DocumentServiceRevoked DocumentKind = "service_revoked" // a service token that its client has revoked, by its id
)

// A DocumentKey names a document. It is a digest, at least in part: keys spread over the
// table, and the ids of sessions and interactions are nowhere in the store but sealed.
type DocumentKey [sha256.Size]byte

// KeyOf is the key of the document of a kind that has a name in a realm.
func KeyOf(kind DocumentKind, realm, name string) DocumentKey {
	return sha256.Sum256([]byte(string(kind) + "\x00" + realm + "\x00" + name))
}

// KeyAt returns the key of a document by an instant and further names. Keys of this form
// sort by the instant.
func KeyAt(at grant.Instant, name ...string) DocumentKey {
	key := DocumentKey(sha256.Sum256(fmt.Appendf(nil, "%q", name)))
	copy(key[:], at.Append(nil))
	return key
}

// ClaimsKey is the key of what the last login said about a subject.
func ClaimsKey(realm, subject string) DocumentKey { return KeyOf(DocumentClaims, realm, subject) }

// An Owner is the subject to which a document belongs, as a digest, or what else the
// documents of a kind are found by. The zero Owner is nobody.
type Owner [sha256.Size]byte

// OwnerOf returns the Owner of the documents of a subject in a realm.
func OwnerOf(realm, subject string) Owner { return sha256.Sum256([]byte(realm + "\x00" + subject)) }

// Bytes returns the stored form of o, which is empty for nobody.
func (o Owner) Bytes() []byte {
	if o == (Owner{}) {
		return []byte{}
	}
	return o[:]
}

// MaxDocument bounds a document's body, in bytes.
const MaxDocument = 16 << 10

// A Document is what the authorization endpoint has to remember: it is found
// by its key or by its owner, and nothing in an engine looks into its body. Its kind never
// changes.
type Document struct {
	Kind      DocumentKind
	Key       DocumentKey
	Version   int64         // counts changes; the first is 1
	ExpiresAt grant.Instant // may go after it; zero: never
	Owner     Owner
	Body      []byte
}

// A DocumentFilter selects documents of one kind, and of one owner unless that is
// zero. Limit is at least 1.
type DocumentFilter struct {
	Kind  DocumentKind
	Owner Owner
	After DocumentKey
	Limit int
}

// A Tally is how many built-in users there are, and the sum of their versions. As long as
// none is deleted, every change of one changes it.
type Tally struct{ Users, Versions int64 }

// Equal reports whether two documents are the same in every member.
func (d Document) Equal(o Document) bool {
	return d.Kind == o.Kind && d.Key == o.Key && d.Version == o.Version && d.ExpiresAt == o.ExpiresAt && d.Owner == o.Owner && bytes.Equal(d.Body, o.Body)
}

// Documents implements Store.
func (r Reader) Documents(ctx context.Context, f DocumentFilter) ([]Document, error) {
	text, args := r.ListDocuments, []any{string(f.Kind), f.After[:], f.Limit}
	if f.Owner != (Owner{}) {
		text, args = r.ListOwner, append(args, f.Owner[:])
	}
	documents, err := ReadList(ctx, r, ScanDocument, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	return documents, nil
}
