package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// EntryTrust is the kind of a trust's entry.
const EntryTrust EntryKind = "trust"

// A TrustKind is which assertions of an issuer a client may present as a grant (RFC 7523
// section 2.1).
type TrustKind string

const (
	// TrustIDJAG is for users: Identity Assertion JWT Authorization Grants
	// (draft-ietf-oauth-identity-assertion-authz-grant).
	TrustIDJAG TrustKind = "id-jag"
	// TrustWorkload is for the client itself: tokens of the platform on which it runs.
	TrustWorkload TrustKind = "workload"
)

// TrustKinds lists them.
var TrustKinds = []TrustKind{TrustIDJAG, TrustWorkload}

// A SubjectFrom is how the subject of a user is made of an ID-JAG.
type SubjectFrom string

const (
	SubjectSub      SubjectFrom = "sub"      // issuer|sub, or issuer|tenant|sub
	SubjectAudSub   SubjectFrom = "aud_sub"  // the subject here, as the issuer names it
	SubjectEmail    SubjectFrom = "email"    // a verified address of a listed domain
	SubjectUpstream SubjectFrom = "upstream" // as a login at the realm's provider makes it
)

// SubjectsFrom lists them.
var SubjectsFrom = []SubjectFrom{SubjectSub, SubjectAudSub, SubjectEmail, SubjectUpstream}

// A Trust lets a client present assertions of an issuer as a grant, for some APIs. There
// is one of each issuer, kind and client of a realm.
type Trust struct {
	ID       string    `json:"id"` // TrustID of what follows
	Realm    string    `json:"realm"`
	Issuer   string    `json:"issuer"`
	Kind     TrustKind `json:"kind"`
	ClientID string    `json:"client_id"`
	Disabled bool      `json:"disabled,omitempty"`
	Deleted  bool      `json:"deleted,omitempty"`

	APIs []string `json:"apis"` // see ReadAllowedAPI
	// The issuer's keys are Keys, or at KeysURI, or else where its metadata say.
	Keys    json.RawMessage `json:"jwks,omitempty"`
	KeysURI string          `json:"jwks_uri,omitempty"`
	KeysCA  string          `json:"jwks_ca,omitempty"` // PEM
	// Audience is the aud of a workload's assertions; "": this server's issuer.
	Audience string        `json:"audience,omitempty"`
	Lifetime *Milliseconds `json:"max_lifetime_ms,omitempty"` // nil: the default of its kind
	Tenant   string        `json:"tenant,omitempty"`          // of the issuer; "": it has none
	// Subjects are patterns of sub. A trust of users without one is for all of them.
	Subjects    []string    `json:"subjects,omitempty"`
	SubjectFrom SubjectFrom `json:"subject_from,omitempty"`
	Domains     []string    `json:"email_domains,omitempty"` // of SubjectEmail

	// Since is when it was last created or enabled: what was issued before has ended.
	Since     grant.Instant `json:"since"`
	CreatedAt grant.Instant `json:"created_at"`
	UpdatedAt grant.Instant `json:"updated_at"`
	Version   int64         `json:"version"`

	Later
}

// trustIDSize is the bytes of a trust's id.
const trustIDSize = 8

// TrustID returns the id of the trust of an issuer, a kind and a client: a digest, so that
// there is one.
func TrustID(issuer string, kind TrustKind, clientID string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + string(kind) + "\x00" + clientID))
	return hex.EncodeToString(sum[:trustIDSize])
}

// NewID returns the id of an access token that a workload gets by t, with half of random.
// Nothing is stored about such a token: its id names the trust. See TrustOf.
func (t Trust) NewID(random grant.ID) grant.ID {
	hex.Decode(random[:trustIDSize], []byte(t.ID)) // it was made by TrustID
	return random
}

// TrustOf returns the id of the trust that an id of NewID names. Any other id names one
// that does not exist.
func TrustOf(id grant.ID) string { return hex.EncodeToString(id[:trustIDSize]) }

// AssertionID returns the id of the grant that an assertion makes. Two assertions of one
// issuer with the same jti make the same grant.
func AssertionID(realm, issuer, jti string) (id grant.ID) {
	h := sha256.New()
	for _, part := range []string{"assertion", realm, issuer, jti} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	copy(id[:], h.Sum(nil))
	return id
}

// Permits reports whether t is in force for what was issued at an instant.
func (t *Trust) Permits(issuedAt grant.Instant) bool {
	return t != nil && !t.Disabled && !t.Deleted && issuedAt >= t.Since
}

// Of returns the scopes of an API that t allows, and whether it allows the API.
func (t Trust) Of(a *API) (scope oauth.Scope, ok bool) {
	for _, text := range t.APIs {
		l, err := ReadAllowedAPI(text)
		if err == nil && oauth.CanonicalTarget(l.ID) == oauth.CanonicalTarget(a.ID) {
			scope, ok = scope.Union(l.Of(a)), true
		}
	}
	return scope, ok
}

// Entry returns the row of t.
func (t Trust) Entry() Entry {
	return Entry{EntryTrust, InRealm(t.Realm, t.ID), t.Version, t.encoded(t)}
}

var knownOfTrust = sync.OnceValue(memberNames[Trust])

// Trust decodes an entry of kind EntryTrust.
func (e Entry) Trust() (t Trust, err error) {
	if err = decodeJSON(string(e.Body), &t, &t.Later, knownOfTrust); err != nil {
		err = fmt.Errorf("decode trust %q: %w", e.ID, err)
	}
	return t, err
}
