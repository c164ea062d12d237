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

// A TrustKind is the kind of assertions that a client may present as a grant (RFC 7523
// section 2.1).
type TrustKind string

const (
	// TrustIDJAG is for users: Identity Assertion JWT Authorization Grants
	// (draft-ietf-oauth-identity-assertion-authz-grant).
	TrustIDJAG TrustKind = "id-jag"
	// TrustWorkload is for the client itself: tokens of the platform on which it runs.
	TrustWorkload TrustKind = "workload"
)

// TrustKinds lists all kinds.
var TrustKinds = []TrustKind{TrustIDJAG, TrustWorkload}

// A SubjectFrom says how the subject of a user is derived from an ID-JAG.
type SubjectFrom string

const (
	SubjectSub      SubjectFrom = "sub"      // issuer|sub, or issuer|tenant|sub
	SubjectAudSub   SubjectFrom = "aud_sub"  // the claim aud_sub: the subject at this server
	SubjectEmail    SubjectFrom = "email"    // a verified address of a listed domain
	SubjectUpstream SubjectFrom = "upstream" // as for a login at the realm's OpenID Connect provider
)

// SubjectsFrom lists all values of SubjectFrom.
var SubjectsFrom = []SubjectFrom{SubjectSub, SubjectAudSub, SubjectEmail, SubjectUpstream}

// A Trust lets a client present assertions of an issuer as a grant, for some APIs. A realm
// has at most one Trust for the same issuer, kind and client.
type Trust struct {
	ID       string    `json:"id"` // TrustID of Issuer, Kind and ClientID
	Realm    string    `json:"realm"`
	Issuer   string    `json:"issuer"`
	Kind     TrustKind `json:"kind"`
	ClientID string    `json:"client_id"`
	Disabled bool      `json:"disabled,omitempty"`
	Deleted  bool      `json:"deleted,omitempty"`

	APIs []string `json:"apis"` // see ReadAllowedAPI
	// The issuer's keys are in Keys, or at KeysURI, or else at the address in its metadata.
	Keys    json.RawMessage `json:"jwks,omitempty"`
	KeysURI string          `json:"jwks_uri,omitempty"`
	KeysCA  string          `json:"jwks_ca,omitempty"` // PEM
	// Audience is the aud of a workload's assertions; "": this server's issuer.
	Audience string        `json:"audience,omitempty"`
	Lifetime *Milliseconds `json:"max_lifetime_ms,omitempty"` // nil: the default of its kind
	Tenant   string        `json:"tenant,omitempty"`          // of the issuer; "": it has none
	// Subjects are patterns of sub. A trust of kind TrustIDJAG without any is for all users.
	Subjects    []string    `json:"subjects,omitempty"`
	SubjectFrom SubjectFrom `json:"subject_from,omitempty"`
	Domains     []string    `json:"email_domains,omitempty"` // for SubjectEmail

	// Since is when the trust was last created or enabled: tokens issued before are invalid.
	Since     grant.Instant `json:"since"`
	CreatedAt grant.Instant `json:"created_at"`
	UpdatedAt grant.Instant `json:"updated_at"`
	Version   int64         `json:"version"`

	Later
}

// trustIDSize is the size of a trust's id, in bytes.
const trustIDSize = 8

// TrustID returns the id of the trust of an issuer, a kind and a client. It is their digest,
// so that a second trust of the same would have the same id.
func TrustID(issuer string, kind TrustKind, clientID string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + string(kind) + "\x00" + clientID))
	return hex.EncodeToString(sum[:trustIDSize])
}

// NewID returns the id of an access token that a workload gets by t: the id of t and half of
// random. The store contains nothing about such a token; TrustOf finds its trust.
func (t Trust) NewID(random grant.ID) grant.ID {
	hex.Decode(random[:trustIDSize], []byte(t.ID)) // valid hex: TrustID has made it
	return random
}

// TrustOf returns the id of the trust in an id that NewID has made. For any other id, it
// returns an id that no trust has.
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

// Permits reports whether t is in force, and has been since a token was issued.
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
