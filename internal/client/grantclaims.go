package client

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Asserted holds the contents of an assertion that is a grant (RFC 7523 section 2.1).
type Asserted struct {
	Trust     *store.Trust
	ID        string // jti, of an ID-JAG
	Subject   string // of a user at this server, or of a workload at its issuer
	Scope     oauth.Scope
	Scoped    bool     // it names a scope
	Resources []string // APIs that it names
	IssuedAt  grant.Instant
	ExpiresAt grant.Instant
	AuthTime  grant.Instant
	Actors    []grant.Actor
	JKT       oauth.JKT // the key that the request must prove, or zero
	Digest    uint64    // of the signed part of the assertion
}

// grantClaims are the claims of an assertion that is a grant.
type grantClaims struct {
	assertion
	ClientID      string    `json:"client_id"`
	Scope         *string   `json:"scope"`
	Resource      audience  `json:"resource"`
	Tenant        string    `json:"tenant"`
	AudienceSub   string    `json:"aud_sub"`
	Email         string    `json:"email"`
	EmailVerified any       `json:"email_verified"`
	AuthTime      *float64  `json:"auth_time"`
	Actor         *actClaim `json:"act"`

	Confirmation map[string]json.RawMessage `json:"cnf"`
}

type actClaim struct {
	Issuer  string    `json:"iss"`
	Subject string    `json:"sub"`
	Before  *actClaim `json:"act"`
}

// A judgement is the state of the verification of an assertion.
type judgement struct {
	a      *Authenticator
	view   *directory.View
	client string // the client, or "" for that of the trust
	text   oauth.Secret
	now    time.Time

	authenticated bool // whether the client is

	signed *jose.JSONWebSignature
	kind   store.TrustKind
	claims grantClaims
	all    map[string]json.RawMessage
	out    Asserted
}

// A rule is a check of an assertion, by the claim that it is about.
type rule struct {
	claim string
	check func(*judgement, context.Context) error
}

func (j *judgement) times(context.Context) error {
	c, t := j.claims.assertion, j.out.Trust
	life := defaultFederated
	if j.kind == store.TrustIDJAG {
		life = defaultIDJAG
	}
	life = t.Lifetime.Or(life)
	if j.kind == store.TrustIDJAG && c.IssuedAt == nil {
		return wrongClaim("iat", "is missing")
	}
	if err := checkTimes(c, j.now, life+issuedAhead); err != nil {
		return err
	}
	if c.IssuedAt != nil && *c.ExpiresAt-*c.IssuedAt > life.Seconds() {
		return wrongClaim("exp", fmt.Sprintf("is more than %s after iat: see mintage trust update --max-lifetime", life))
	}
	j.out.ExpiresAt = instant(*c.ExpiresAt)
	if j.out.IssuedAt = grant.At(j.now); c.IssuedAt != nil {
		j.out.IssuedAt = min(j.out.IssuedAt, instant(*c.IssuedAt))
	}
	if at := j.claims.AuthTime; at != nil && *at > 0 && *at <= seconds(j.now)+issuedAhead.Seconds() {
		j.out.AuthTime = instant(*at)
	}
	return nil
}

func (j *judgement) id(context.Context) error {
	j.out.ID = j.claims.ID
	switch {
	case j.kind != store.TrustIDJAG:
	case j.claims.ID == "":
		return wrongClaim("jti", "is missing")
	case len(j.claims.ID) > maxJTI:
		return wrongClaim("jti", fmt.Sprintf("is longer than %d bytes", maxJTI))
	}
	return nil
}

func (j *judgement) sub(context.Context) error {
	switch {
	case j.claims.Subject == "":
		return wrongClaim("sub", "is missing")
	case !matches(j.out.Trust, j.claims.Subject):
		return wrongClaimWithValue(j.claims.Subject, "sub", "is not one of the subjects of the trust")
	}
	return nil
}

// matches reports whether a trust is for a subject of its issuer.
func matches(t *store.Trust, subject string) bool {
	return len(t.Subjects) == 0 && t.Kind == store.TrustIDJAG ||
		slices.ContainsFunc(t.Subjects, func(pattern string) bool { return MatchSubject(pattern, subject) })
}

func (j *judgement) tenant(context.Context) error {
	_, given := j.all["tenant"]
	switch {
	case j.out.Trust.Tenant != "" && !given:
		return wrongClaim("tenant", "is missing, and the trust has one")
	case given && j.claims.Tenant != j.out.Trust.Tenant:
		return wrongClaimWithValue(j.claims.Tenant, "tenant", "is not that of the trust")
	}
	return nil
}

// narrows refuses claims that would narrow the grant, but are not supported. It refuses
// id_tokens as assertions of workloads.
func (j *judgement) narrows(context.Context) error {
	for _, name := range []string{"authorization_details", "aud_tenant", "events"} {
		if _, given := j.all[name]; given {
			return wrongClaim(name, "is there, and is not supported")
		}
	}
	for _, name := range []string{"nonce", "at_hash", "c_hash"} {
		if _, given := j.all[name]; given && j.kind == store.TrustWorkload {
			return wrongClaim(name, "is there: an id_token is no assertion")
		}
	}
	return nil
}

func (j *judgement) confirmation(context.Context) error {
	if j.claims.Confirmation == nil {
		if _, given := j.all["cnf"]; given {
			return wrongClaim("cnf", "is not an object")
		}
		return nil
	}
	var jkt string
	if _, ok := j.claims.Confirmation["jkt"]; !ok || len(j.claims.Confirmation) != 1 {
		return wrongClaim("cnf", "has another member than jkt, or none")
	}
	ok := json.Unmarshal(j.claims.Confirmation["jkt"], &jkt) == nil
	if j.out.JKT, _ = oauth.ParseJKT(jkt); !ok || !j.out.JKT.Bound() {
		return wrongClaim("cnf", "has a jkt that is no thumbprint")
	}
	return nil
}

// actors reads the claim act. Each actor gets an issuer, so that none is mistaken for a
// client of this server.
func (j *judgement) actors(context.Context) error {
	_, given := j.all["act"]
	switch {
	case given && j.kind == store.TrustWorkload:
		return wrongClaim("act", "is there: a workload acts for itself")
	case given && j.claims.Actor == nil:
		return wrongClaim("act", "is not an object")
	}
	for a := j.claims.Actor; a != nil; a = a.Before {
		issuer := cmp.Or(a.Issuer, j.claims.Issuer)
		switch {
		case strings.TrimSuffix(issuer, "/") == strings.TrimSuffix(j.a.Issuer, "/"):
			return wrongClaim("act", "names a party of this server")
		case a.Subject == "" || !oauth.IsText(issuer, maxAudience) || !oauth.IsText(a.Subject, maxAudience):
			return wrongClaim("act", fmt.Sprintf("has no sub, or one that is not UTF-8 text of at most %d bytes", maxAudience))
		}
		j.out.Actors = append(j.out.Actors, grant.Actor{Issuer: issuer, Subject: a.Subject})
	}
	if _, ok := grant.ActorsText(j.out.Actors); !ok {
		return wrongClaim("act", fmt.Sprintf("has more than %d actors, or names that are too long", grant.MaxActors))
	}
	return nil
}

// scope reads the scope and the APIs of the assertion. A claim that is absent narrows
// nothing.
func (j *judgement) scope(context.Context) (err error) {
	if text := j.claims.Scope; text != nil {
		if j.out.Scope, err = oauth.ParseScope(*text); err != nil {
			return wrongClaim("scope", "is malformed")
		}
		j.out.Scoped = true
	} else if _, given := j.all["scope"]; given {
		return wrongClaim("scope", "is not a string")
	}
	j.out.Resources = j.claims.Resource.names
	if _, given := j.all["resource"]; given && len(j.out.Resources) == 0 || slices.Contains(j.out.Resources, "") {
		return wrongClaim("resource", "is empty")
	}
	return nil
}

// subject sets the subject of a user. By default it contains the issuer: two issuers can
// never name the same user, and no issuer a user of this server.
func (j *judgement) subject(context.Context) error {
	c, t := &j.claims, j.out.Trust
	j.out.Subject = c.Subject
	if t.Kind == store.TrustWorkload {
		return nil
	}
	switch t.SubjectFrom {
	case store.SubjectAudSub:
		if j.out.Subject = c.AudienceSub; c.AudienceSub == "" {
			return wrongClaim("aud_sub", "is missing")
		}
	case store.SubjectEmail:
		_, domain, ok := strings.Cut(c.Email, "@")
		switch {
		case !ok || strings.Contains(domain, "@"):
			return wrongClaim("email", "is missing, or no address")
		case c.EmailVerified != true:
			return wrongClaim("email", "is not email_verified")
		case !slices.Contains(t.Domains, oauth.InSmallLetters(domain)):
			return wrongClaimWithValue(domain, "email", "is of a domain that the trust does not list")
		}
		j.out.Subject = oauth.InSmallLetters(c.Email)
	case store.SubjectUpstream:
		if j.a.UpstreamSubject == nil {
			return wrongClaim("sub", "cannot be mapped: the realm has no provider with this issuer")
		}
		claims := map[string]stdjson.RawMessage{}
		for name, value := range j.all {
			claims[name] = stdjson.RawMessage(value)
		}
		subject, err := j.a.UpstreamSubject(c.Issuer, claims)
		if err != nil {
			return wrongClaim("sub", "cannot be mapped as the realm's provider has it: "+err.Error())
		}
		j.out.Subject = subject
	default:
		parts := []string{c.Issuer, c.Subject}
		if t.Tenant != "" {
			parts = []string{c.Issuer, t.Tenant, c.Subject}
		}
		j.out.Subject = strings.Join(parts, "|")
	}
	if !oauth.IsText(j.out.Subject, oauth.MaxSubject) {
		return wrongClaim("sub", fmt.Sprintf("makes a subject that is not UTF-8 text of at most %d bytes", oauth.MaxSubject))
	}
	return nil
}
