package explain

import (
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// This file declares the types of an explanation. The other files fill and print them.

// An Explainer reads the store and the audit log, also while a server uses them.
type Explainer struct {
	Config    config.Config
	Realm     string
	Realms    []string // all, to name the one that has made a token
	Audited   []string // whose records of the audit log are read; nil: those of all
	Recent    bool     // only the end of the audit log is read
	Store     store.Store
	Directory *directory.Directory
	Now       func() time.Time
	MaxSkew   time.Duration  // how far the clocks of nodes may be apart
	Issuer    *issuer.Issuer // decides what would become of a request
	// Locked is the reason why tokens cannot be verified, or nil.
	Locked error
	// ResponseTo returns the token endpoint's answer to a refused request of a grant type.
	ResponseTo func(grantType string, why grant.Refusal) (status int, code oauth.ErrorCode)
}

// now returns the instant of an explanation.
func (x *Explainer) now() grant.Instant { return grant.At(x.Now()) }

// lives returns the policy by which grants expire.
func (x *Explainer) lives() grant.Policy {
	return grant.Policy{GrantLifetime: x.Config.GrantLifetime.Std()}
}

// madeIn returns the other realm that has made a text, or "".
func (x *Explainer) madeIn(ring *keys.Ring, text string) string {
	for _, realm := range x.Realms {
		if realm != x.Realm && ring.Diagnose(realm, text).Fault == keys.NoFault {
			return realm
		}
	}
	return ""
}

// An Explained is a complete explanation.
type Explained struct {
	*Explanation // nil for a request that is about no grant
	by           *Explainer
	input        Input
	session      *sessionFacts // of a session, or of the session that made the grant
	request      *requestFacts
	life         []adminapi.LifeEntry
	// auditNote is the reason why the audit log could not be read to its end, or "".
	auditNote string
	// shared counts the audit log's records of requests by a second holder of the
	// grant's token.
	shared int
	// service is set if, by the audit log, the id is that of a client's token for itself.
	service bool
}

// Found reports whether the realm has made the text, or has the grant.
func (v *Explained) Found() bool {
	return v.Explanation != nil && v.Authentic && (v.As != AsGrant || v.Grant != nil)
}

// holders returns the line about a refresh token that several processes hold, or "".
func (v *Explained) holders() string {
	if v.shared == 0 {
		return ""
	}
	return "2 holders or more: requests with an earlier refresh token were answered under the client's reuse grace; the audit log has " + fmt.Sprint(v.shared)
}

// pasted returns notes on how the token was extracted from the pasted text.
func (v *Explained) pasted() (facts []fact) {
	for _, n := range v.input.notes {
		facts = append(facts, row("pasted", n))
	}
	return facts
}

// Kinds of input, recognised by form.
const (
	inputText    = "text" // a token or a code, or any other text
	inputGrant   = "grant"
	inputRequest = "request"
	inputSession = "session"
)

// An Input is what Explain explains. Its text may be a secret.
type Input struct {
	Text string
	kind string
	// Subject is the user whose session the text names: a session is looked up by its
	// subject.
	Subject string
	// notes say how the token was extracted from the pasted text. A client that
	// sends the rest of that text as well is refused.
	notes []string
}

// IsRequest reports whether the text is the id of a request.
func (a Input) IsRequest() bool { return a.kind == inputRequest }

// Secret reports whether the text may be a secret: it is no id.
func (a Input) Secret() bool { return a.kind == inputText }

// ExplainedAs is what an Explanation is about.
type ExplainedAs string

const (
	AsUnknown ExplainedAs = "unknown" // of no form that this server makes
	AsRefresh ExplainedAs = "refresh_token"
	AsAccess  ExplainedAs = "access_token"
	AsJWT     ExplainedAs = "jwt"
	AsCode    ExplainedAs = "authorization_code"
	AsGrant   ExplainedAs = "grant"
	AsDevice  ExplainedAs = "device_code"
)

// An Explanation holds all that is known of a token, a code or a grant, and the outcome
// of using it now. It holds no secret: neither the text nor the MAC of a token, neither
// the text nor the challenge of a code.
type Explanation struct {
	As  ExplainedAs
	Now grant.Instant
	// Authentic reports that this deployment issued the text. Otherwise Diagnosis, or
	// JWT, contains the reason, and what the text claims is not proven.
	Authentic bool
	Diagnosis keys.Diagnosis
	MadeIn    string     // the realm that has made the text, or has the grant, if that is another one
	JWT       *JWTFacts  // of a JWT
	Key       *keys.Life // that the text names, if this store has it

	// The contents of the text. Named reports that it names a grant.
	Named bool
	Token issuer.Token
	Scope string // of an access token
	Code  *grant.Code
	// Trust is the id of the trust by which a client got the token for itself, or "".
	Trust string
	// Device is the stored request of a device code, with the answer of its user; nil if
	// the store does not have it any more.
	Device *issuer.Device
	// RedirectURI is the redirect URI of the code, or "" if its client does not have it
	// any more.
	RedirectURI string

	// APIs are the APIs of an access token, or of the grant that a code would make, in
	// the form of show.APIs.
	APIs []string
	// Audience is the audience of an access token that is valid now.
	Audience []string
	// Directory holds the APIs and the cutoffs that exist.
	Directory store.Changes

	Grant   *grant.Grant  // its row, nil if there is none
	Client  *store.Client // its client as stored, nil if there is none
	Cutoffs []store.Cutoff
	Restore grant.Restore // the latest; zero if none
	Events  []store.Event // of the grant, oldest first
	Answer  Answer
}

// isService reports whether the text is a token of a client for itself, which has no grant.
func (e *Explanation) isService() bool { return e.Authentic && e.Token.IsService() }

// bound returns the key that a request with the text must prove (RFC 9449), or the zero key.
func (e *Explanation) bound() oauth.JKT {
	switch {
	case e.Code != nil:
		return e.Code.JKT
	case (e.As == AsRefresh || e.As == AsGrant) && e.Grant != nil:
		return e.Grant.JKT
	}
	return e.Token.JKT
}

// An Answer is the outcome of a request with the text now. For a grant, the request
// presents its current refresh token.
type Answer struct {
	// Known is false if the outcome cannot be predicted: the text names nothing, or
	// keys are locked.
	Known bool
	Why   grant.Refusal // Allowed if it would be answered
	// Repeats reports that a spent refresh token would get the same pair again, and
	// Revokes that the request would end the grant.
	Repeats, Revokes bool
	// SharedUntil is until when an earlier refresh token is treated as the present
	// one, for a second holder under the client's reuse grace; zero if it is not.
	SharedUntil grant.Instant
	// Client is why the client may not make the request: its state, or "grant_type".
	Client string
	// WindowEnds is until when the token spent last gets the same pair again, as
	// long as the present one is unused; zero if it never does.
	WindowEnds grant.Instant
	// CatchesUp reports that a refresh token is newer than its row, because of a
	// restore, and that a refresh would bring the row up to date.
	CatchesUp bool
}

// A JWTFault is why a JWT is no access token of this issuer.
type JWTFault string

const (
	JWTUnreadable   JWTFault = "unreadable"    // no JSON in one of its parts
	JWTOtherIssuer  JWTFault = "other_issuer"  // names another issuer
	JWTUnknownKey   JWTFault = "unknown_key"   // by a key that this store does not have
	JWTKeyGone      JWTFault = "key_gone"      // by a key whose tokens have all expired
	JWTKeyWithdrawn JWTFault = "key_withdrawn" // by a key that an operator has declared untrusted
	JWTWrongSeal    JWTFault = "wrong_seal"    // the signature does not verify
	JWTOtherType    JWTFault = "other_type"    // signed here for another use
	JWTOtherMeaning JWTFault = "other_meaning" // its claims contradict its grant
)

// JWTFacts are the header and the claims of a JWT. They are proven only if the
// explanation is Authentic.
type JWTFacts struct {
	Fault         JWTFault
	Locked        bool // the signature cannot be checked: keys are wrapped
	Algorithm     string
	Type          string
	Issuer        string
	ClientID      string
	Subject       string
	Audience      []string
	ExpectsIssuer string
}

// requestFacts holds the records of one request.
type requestFacts struct {
	id     string
	audit  []audit.Entry
	log    *Log     // nil if none was given
	others []string // further grants that it was about
	hints  []string // what the store has about the defect
}

// A Log holds the log lines of a request.
type Log struct {
	Name  string // where it is, for people
	Lines []adminapi.LogLine
	Read  int // how many lines there were in all
}

// sessionFacts is a session and the grants that it made.
type sessionFacts struct {
	*login.StoredSession // nil if there is no such session
	subject              string
	state                string
	directory            store.Changes
	logouts              []logout.Notified
}

// A part is one piece of an explanation, for people and for programs.
type part struct {
	head  string // title for people; a part without one is not shown to them
	facts []fact
	table table
	name  string // of the member for programs; without one, the facts are members of the whole
	value any    // of the member, if the facts are for people only
}

// A fact is a row for people, unless it has no text, and a member for programs, unless it
// has no name.
type fact struct {
	label, text string
	name        string
	value       any
}

// A table is shown to people only. "|" separates its columns.
type table struct {
	columns string
	rows    [][]string
}

func row(label, text string) fact { return fact{label: label, text: text} }

func member(name string, value any) fact { return fact{name: name, value: value} }

// both is a fact that people and programs see as the same text.
func both(label, name, text string) fact { return fact{label, text, name, text} }
