package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// A DocumentKind says what a document is.
type DocumentKind string

const (
	DocumentUser        DocumentKind = "user"         // a built-in user, by username
	DocumentSubject     DocumentKind = "subject"      // a claim, so that a subject is not created twice, by subject; see account.Claim
	DocumentSession     DocumentKind = "session"      // a browser's session, by its id
	DocumentInteraction DocumentKind = "interaction"  // a login or consent in progress, by its id
	DocumentPushed      DocumentKind = "pushed"       // a pushed authorization request (RFC 9126), by its id
	DocumentLeaving     DocumentKind = "leaving"      // a client's request to log a user out, by its id
	DocumentConsents    DocumentKind = "consents"     // what a subject has agreed to, by subject
	DocumentClaims      DocumentKind = "claims"       // the claims of a subject's last login, by subject
	DocumentClient      DocumentKind = "client"       // a client that registered itself, by its id
	DocumentDeployment  DocumentKind = "deployment"   // a lease or a fact of the deployment, such as its issuer, by a name
	DocumentAssertion   DocumentKind = "assertion"    // a client assertion that was used, by client and jti
	DocumentProof       DocumentKind = "proof"        // a proof of a key (RFC 9449) that was used, by key and jti
	DocumentAdminTokens DocumentKind = "admin_tokens" // the tokens of the admin API, in one document
	DocumentOperators   DocumentKind = "operators"    // the operators of the console, in one document
	DocumentTraffic     DocumentKind = "traffic"      // counts of the requests of two hours, by these hours and the process
	DocumentAuditHead   DocumentKind = "audit_head"   // the latest record of an audit log, by the name of its chain

	// Documents of the console, by a secret that only a browser or a link contains.
	DocumentConsoleSession    DocumentKind = "console_session"
	DocumentConsoleInvitation DocumentKind = "console_invitation"
	DocumentConsoleTicket     DocumentKind = "console_ticket" // or a form that was sent
	DocumentDevice            DocumentKind = "device"         // a device authorization, by its user code

	// Documents of logins at an OpenID Connect provider.
	DocumentProviderSession DocumentKind = "provider_session" // the sessions that belong to a session at the provider, by issuer and sid
	DocumentProviderLogout  DocumentKind = "provider_logout"  // an accepted logout token, by its id; or the latest end at the provider, by session or subject

	// Queues in the order of time: the keys begin with an instant (see KeyAt). Package
	// issuer uses session_end, package logout uses the others.
	DocumentSessionEnd  DocumentKind = "session_end"  // the end of a session whose grants are to be revoked
	DocumentLogout      DocumentKind = "logout"       // the end of a session, or of all sessions of a subject
	DocumentLogoutToken DocumentKind = "logout_token" // a logout token for one client about such an end

	DocumentServiceRevoked DocumentKind = "service_revoked" // a service token that its client has revoked, by its id
)

// A DocumentKey names a document. It is a digest, at least in part, so that keys spread over
// the table, and the store contains ids of sessions and interactions only in sealed form.
type DocumentKey [sha256.Size]byte

// KeyOf returns the key of a document by its kind, its realm and its name in the realm.
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

// ClaimsKey returns the key of the claims of a subject's last login.
func ClaimsKey(realm, subject string) DocumentKey { return KeyOf(DocumentClaims, realm, subject) }

// An Owner is a digest by which documents of a kind are listed, usually of the subject to
// which they belong. A document with the zero Owner has none.
type Owner [sha256.Size]byte

// OwnerOf returns the Owner of the documents of a subject in a realm.
func OwnerOf(realm, subject string) Owner { return sha256.Sum256([]byte(realm + "\x00" + subject)) }

// Bytes returns the stored form of o, which is empty for the zero Owner.
func (o Owner) Bytes() []byte {
	if o == (Owner{}) {
		return []byte{}
	}
	return o[:]
}

// MaxDocument bounds a document's body, in bytes.
const MaxDocument = 16 << 10

// A Document is state such as a session or a consent, found by its key or its owner.
// Engines do not interpret its body. Its kind never changes.
type Document struct {
	Kind      DocumentKind
	Key       DocumentKey
	Version   int64         // counts changes; the first is 1
	ExpiresAt grant.Instant // a sweep may delete it afterwards; zero: never
	Owner     Owner
	Body      []byte
}

// RecordUse records that something was used which counts once, such as the jti of a proof,
// and reports whether it is the first use. The record outlives the thing by a minute: the
// node that deletes it may have a clock that is ahead. Its body is random: a second use with
// the same record would pass for the first (see Commit). Its errors are ErrUnavailable.
func RecordUse(ctx context.Context, st Store, kind DocumentKind, realm, name string, validUntil grant.Instant) (first bool, err error) {
	d := Document{Kind: kind, Key: KeyOf(kind, realm, name), Version: 1, ExpiresAt: validUntil.Add(time.Minute), Body: make([]byte, 16)}
	rand.Read(d.Body)
	err = st.Commit(ctx, Change{Documents: []Document{d}})
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, Unavailable(err)
}

// A DocumentFilter selects documents of one kind, and of one owner unless that is
// zero. Limit is at least 1.
type DocumentFilter struct {
	Kind  DocumentKind
	Owner Owner
	After DocumentKey
	Limit int
}

// A Tally is the number of built-in users, and the sum of their versions. As long as no user
// is deleted, every new user and every change of a user changes the tally.
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
