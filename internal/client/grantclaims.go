package client

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func (j *judgement) forClient(context.Context) error {
	if j.kind == store.TrustIDJAG && j.claims.ClientID != j.client {
		return wrongClaim("client_id", "is not the client that presents it")
	}
	return nil
}

func (j *judgement) audience(context.Context) error {
	if !j.aimed(j.out.Trust) {
		if j.kind == store.TrustIDJAG {
			return wrongClaim("aud", "is not the issuer, as one string or a list of one; the token endpoint is none")
		}
		return wrongClaim("aud", "is not the audience of the trust, as one string or a list of one")
	}
	return nil
}

// aimed reports whether the audience is that of a trust. Of the issuer of this server, a
// slash at its end does not count.
func (j *judgement) aimed(t *store.Trust) bool {
	if len(j.claims.Audience.names) != 1 {
		return false
	}
	aud := j.claims.Audience.names[0]
	if t.Kind == store.TrustWorkload && t.Audience != "" {
		return aud == t.Audience
	}
	return strings.TrimSuffix(aud, "/") == strings.TrimSuffix(j.a.Issuer, "/")
}

func (j *judgement) times(context.Context) error {
	c, t := j.claims.assertion, j.out.Trust
	life := defaultFederated
	if j.kind == store.TrustIDJAG {
		life = defaultIDJAG
	}
	if t.Lifetime != nil {
		life = t.Lifetime.Duration()
	}
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

func instant(seconds float64) grant.Instant { return grant.Instant(seconds * 1000) }

func (j *judgement) id(context.Context) error {
	j.out.ID = j.claims.ID
	if j.kind == store.TrustIDJAG && (j.claims.ID == "" || len(j.claims.ID) > maxJTI) {
		return wrongClaim("jti", fmt.Sprintf("is missing, or longer than %d bytes", maxJTI))
	}
	return nil
}

func (j *judgement) sub(context.Context) error {
	if j.claims.Subject == "" || !matches(j.out.Trust, j.claims.Subject) {
		return wrongClaim("sub", "is missing, or not one of the subjects of the trust")
	}
	return nil
}

// matches reports whether a trust is for a subject of its issuer.
func matches(t *store.Trust, subject string) bool {
	return len(t.Subjects) == 0 && t.Kind == store.TrustIDJAG ||
		slices.ContainsFunc(t.Subjects, func(pattern string) bool { return MatchSubject(pattern, subject) })
}

func (j *judgement) tenant(context.Context) error {
	if _, given := j.all["tenant"]; j.claims.Tenant != j.out.Trust.Tenant && (given || j.out.Trust.Tenant != "") {
		return wrongClaim("tenant", "is not that of the trust")
	}
	return nil
}

// narrows refuses what would narrow what is granted, and is not understood here; and, as
// a workload's, tokens that are about a login.
func (j *judgement) narrows(context.Context) error {
	c := &j.claims
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{"authorization_details", c.Details}, {"aud_tenant", c.AudienceTenant}, {"events", c.Events}} {
		if m.value != nil {
			return wrongClaim(m.name, "is there, and is not supported")
		}
	}
	if j.kind == store.TrustWorkload && (c.Nonce != nil || c.AccessHash != nil || c.CodeHash != nil) {
		return wrongClaim("nonce", "or at_hash is there: an id_token is no assertion")
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
	ok := len(j.claims.Confirmation) == 1 && json.Unmarshal(j.claims.Confirmation["jkt"], &jkt) == nil
	if j.out.JKT, _ = oauth.ParseJKT(jkt); !ok || !j.out.JKT.Bound() {
		return wrongClaim("cnf", "has another member than jkt, or no thumbprint")
	}
	return nil
}

// actors reads who acts for the user. Each has an issuer, so that none reads as a client
// of this server.
func (j *judgement) actors(context.Context) error {
	if _, given := j.all["act"]; given && (j.kind == store.TrustWorkload || j.claims.Actor == nil) {
		return wrongClaim("act", "is not an object, or a workload's")
	}
	for a := j.claims.Actor; a != nil; a = a.Before {
		issuer := a.Issuer
		if issuer == "" {
			issuer = j.claims.Issuer
		}
		if issuer == j.a.Issuer || a.Subject == "" || !oauth.IsText(issuer, maxAudience) || !oauth.IsText(a.Subject, maxAudience) {
			return wrongClaim("act", "has no sub, or names a party of this server")
		}
		j.out.Actors = append(j.out.Actors, grant.Actor{Issuer: issuer, Subject: a.Subject})
	}
	if _, ok := grant.ActorsText(j.out.Actors); !ok {
		return wrongClaim("act", fmt.Sprintf("has more than %d actors, or names that are too long", grant.MaxActors))
	}
	return nil
}

// scope reads what the assertion is for. What it does not name, it does not narrow.
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

// subject makes the subject of a user. Without another setting, no two issuers can name
// one user, and none a user of this server.
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
		if !ok || strings.Contains(domain, "@") || c.EmailVerified != true || !slices.Contains(t.Domains, strings.ToLower(domain)) {
			return wrongClaim("email", "is missing, not email_verified, or of a domain that the trust does not list")
		}
		j.out.Subject = strings.ToLower(c.Email)
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
