package issuer

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An AssertionRequest is a client's token request with an assertion of another issuer
// (RFC 7523 section 2.1): the verified claims of the assertion, and the parameters.
type AssertionRequest struct {
	Trust     *store.Trust
	ID        string // its jti
	Subject   string // of the user; ignored for a workload, which is the client
	Named     oauth.Scope
	NamesAny  bool     // the assertion names scopes and is limited to Named
	Resources []string // to which the assertion is limited; empty: no limit
	IssuedAt  grant.Instant
	ExpiresAt grant.Instant
	AuthTime  grant.Instant
	Actors    []grant.Actor
	Bound     oauth.JKT // the key that must have signed the request's proof, or zero
	Digest    uint64

	Scope    string
	Resource string
	JKT      oauth.JKT // the key that signed the request's proof, or zero
}

// Assertions are the use cases of assertions as grants (RFC 7523). A token issued for an
// assertion ends with the trust that accepted the assertion.
type Assertions struct{ *Issuer }

// AssertionToken issues an access token for an assertion. A token about a user belongs to
// a grant, which the first presentation of the assertion creates. A workload gets a token
// for itself, without a grant.
func (iss Assertions) AssertionToken(ctx context.Context, c *store.Client, r AssertionRequest) (Tokens, error) {
	view, err := iss.viewFor(r.JKT)
	if err == nil && iss.Directory.OlderNodes(store.FormsAsserted) {
		err = errOlderNodes
	}
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	asked, err := oauth.ParseScope(r.Scope)
	if err != nil {
		return Tokens{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
	}
	asked = asked.Without(oauth.OfflineAccess)
	now, trust := iss.now(), view.TrustRow(iss.Realm, r.Trust.ID)
	switch {
	case !trust.Permits(now):
		return Tokens{}, &grant.Refused{Why: grant.TrustEnded}
	case r.Bound.Bound() && r.Bound != r.JKT:
		return Tokens{}, &grant.Refused{Why: grant.KeyMismatch} // RFC 7800 section 3
	}
	e := iss.of(view, c)
	apis, scope, err := e.asserted(trust, r)
	if err != nil {
		return Tokens{}, err
	}
	if trust.Kind == store.TrustWorkload {
		return iss.workload(e, trust, apis, scope, asked, r, now)
	}
	if err := iss.checkSubject(ctx, view, trust, r.Subject); err != nil {
		return Tokens{}, err
	}
	a := grant.Assertion{
		GrantID: store.AssertionID(iss.Realm, trust.Issuer, r.ID), Realm: iss.Realm, ClientID: c.ID, Subject: r.Subject, Scope: scope,
		IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt, AuthTime: r.AuthTime, Digest: r.Digest,
	}
	a.Trust = trust.ID
	a.Acting, _ = grant.ActorsText(r.Actors)
	for i, api := range apis {
		a.APIs[i] = api.Number
	}
	return iss.user(ctx, e, trust, a, asked, r, now)
}

// Foreseen returns the scope that the client of a trust would get for a verified assertion
// if the request named no scope, or an error that says why the client would get none.
func (iss Assertions) Foreseen(ctx context.Context, r AssertionRequest) (oauth.Scope, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	c, err := iss.Directory.Client(ctx, view, iss.Realm, r.Trust.ClientID)
	if c == nil && err == nil { // a client that registers itself may have no record yet
		if c, err = iss.Directory.Unrecorded(ctx, iss.Realm, r.Trust.ClientID); c != nil {
			view.Offer(c)
		}
	}
	switch {
	case err != nil:
		return "", err
	case c == nil:
		return "", errors.New("the client of the trust is disabled or deleted")
	}
	_, scope, err := iss.of(view, c).asserted(r.Trust, r)
	if err == nil && r.Trust.Kind == store.TrustIDJAG {
		err = iss.checkSubject(ctx, view, r.Trust, r.Subject)
	}
	return scope, err
}

// asserted returns the APIs that an assertion is for, and its scope there: what the trust,
// the client's registration and the assertion all allow. The scopes of OpenID Connect are
// excluded: they are for users who sign in at the client.
func (e entitlements) asserted(t *store.Trust, r AssertionRequest) (apis []*store.API, scope oauth.Scope, err error) {
	why := grant.TargetUnknown
	for _, text := range t.APIs {
		l, _ := store.ReadAllowedAPI(text)
		api, ok := e.view.API(e.iss.Realm, l.ID)
		if !ok || slices.Contains(apis, api) || len(r.Resources) > 0 && !slices.ContainsFunc(r.Resources, func(uri string) bool {
			return oauth.CanonicalTarget(uri) == oauth.CanonicalTarget(api.ID)
		}) {
			continue
		}
		may, allowed := e.allowed(api.Number)
		of, _ := t.Of(api)
		if of = of.Common(may.scope).Without(oauth.OpenIDScopes); !allowed || of == "" {
			continue
		}
		if r.NamesAny {
			if of = of.Common(r.Named); of == "" {
				why = grant.ScopeTooWide
				continue
			}
		}
		if apis, scope = append(apis, api), scope.Union(of); len(apis) > grant.MaxAPIs {
			return nil, "", oauth.ErrTarget
		}
	}
	if len(apis) == 0 {
		return nil, "", &grant.Refused{Why: why}
	}
	return apis, scope, nil
}

// checkSubject returns an error if no token about a subject may be issued by a trust. It rejects
// the id of a client, because the client's own tokens have that sub (RFC 9068 section 5).
// It rejects the subject of a built-in user, unless the trust's issuer may name subjects
// of this server (SubjectAudSub) and the user is enabled.
func (iss Assertions) checkSubject(ctx context.Context, view *directory.View, t *store.Trust, subject string) error {
	if _, taken := view.Registered(iss.Realm, subject); taken {
		return &grant.Refused{Why: grant.UserBarred}
	}
	if iss.Users == nil {
		return nil
	}
	known, enabled, err := iss.Users(ctx, subject)
	switch {
	case err != nil:
		return store.Unavailable(err)
	case known && (t.SubjectFrom != store.SubjectAudSub || !enabled):
		return &grant.Refused{Why: grant.UserBarred}
	}
	return nil
}

// user issues a token about a user. It creates the grant of the assertion, or finds the
// grant that an earlier presentation created.
func (iss Assertions) user(ctx context.Context, e entitlements, t *store.Trust, a grant.Assertion, asked oauth.Scope, r AssertionRequest, now grant.Instant) (Tokens, error) {
	view, p := e.view, iss.PolicyOf(e.c)
	req := grant.Redemption{
		Allowed: iss.AllowedScope(view, e.c).Common(view.ScopeOf(iss.Realm, t.APIs)), Cutoff: view.Cutoff(iss.Realm, a.Subject, a.ClientID),
		Restore: view.Restore(), KeyID: view.Ring.Current(keys.MAC, now), Target: e.target(a.APIs, r.Resource),
	}
	d := a.Redeem(asked, req, p, view.LongestAccess(iss.Policy.AccessLifetime), now)
	if d.Refusal == grant.Allowed {
		if err := iss.firstRecord(ctx, e.c, now); err != nil {
			return Tokens{}, store.Unavailable(err)
		}
		err := iss.Store.CreateGrant(ctx, d.Next)
		switch {
		case errors.Is(err, store.ErrConflict):
			g, err := iss.Store.Grant(ctx, a.GrantID)
			if err != nil {
				return Tokens{}, store.Unavailable(err) // a sweep has deleted the grant: the assertion has expired by the store's clock
			}
			req.Cutoff, req.Target = view.Cutoff(iss.Realm, g.Subject, g.ClientID), e.target(g.APIs, r.Resource)
			if d = g.Asserted(a, asked, req, p, now); d.Refusal == grant.Allowed && !t.Permits(g.RotatedAt) {
				d.Refusal = grant.TrustEnded
			}
		case err != nil && !iss.settled(ctx, d.Next, err):
			return Tokens{}, store.Unavailable(err)
		}
	}
	if d.Refusal != grant.Allowed {
		return Tokens{}, &grant.Refused{Why: d.Refusal, GrantID: a.GrantID}
	}
	iss.keepRecord(ctx, e.c, now)
	answer := response{iss.Issuer, view, e.c, &d, r.JKT, now}
	text, format, err := answer.accessToken()
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	return Tokens{
		Scope: d.Access.Scope, ExpiresIn: p.ExpiresIn(d.Access, now), AccessToken: text, Format: format, Bound: answer.binding().Bound(),
		GrantID: a.GrantID, Subject: d.Next.Subject, Generation: d.Next.Generation, Trust: t.ID,
	}, nil
}

// firstRecord stores the record of a client that registered itself and has none yet,
// because no user has consented: inspecting the client's tokens requires the record. An
// operator has agreed by creating the trust.
func (iss Assertions) firstRecord(ctx context.Context, c *store.Client, now grant.Instant) error {
	if !c.SelfRegistered() || c.RecordedUntil != 0 {
		return nil
	}
	err := iss.Store.Commit(ctx, store.Change{
		Documents: []store.Document{c.Record(now, iss.RecordUntil(now))},
		Events:    []store.Event{{At: now, Name: store.EventClientRecorded, About: c.ID, Actor: c.ID, Detail: strconv.Quote(c.Name) + ", recorded because of a trust"}},
	})
	if errors.Is(err, store.ErrConflict) {
		return nil // another request has done so
	}
	return err
}

// workload issues an access token to a client for itself. The token's id names the trust.
func (iss Assertions) workload(e entitlements, t *store.Trust, apis []*store.API, scope, asked oauth.Scope, r AssertionRequest, now grant.Instant) (Tokens, error) {
	if r.Resource != "" {
		apis = slices.DeleteFunc(apis, func(api *store.API) bool { return oauth.CanonicalTarget(api.ID) != oauth.CanonicalTarget(r.Resource) })
		if len(apis) == 0 {
			return Tokens{}, &grant.Refused{Why: grant.TargetUnknown}
		}
		scope = scope.Common(apis[0].Scope())
	}
	if asked != "" {
		if !scope.Covers(asked) {
			return Tokens{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(e.view, r.Scope))
		}
		scope = asked
		apis = slices.DeleteFunc(apis, func(api *store.API) bool { return api.Scope().Common(asked) == "" })
	}
	var id grant.ID
	rand.Read(id[:])
	out, err := e.serviceToken(t.NewID(id), scope, apis, r.JKT, now)
	out.Trust = t.ID
	return out, err
}
