package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// idJAGLifetime is how long an identity assertion is valid.
const idJAGLifetime = 5 * time.Minute

// An IDJAGRequest asks for an identity assertion (ID-JAG,
// draft-ietf-oauth-identity-assertion-authz-grant-04 section 4.3).
type IDJAGRequest struct {
	SubjectToken string
	Refresh      bool   // SubjectToken is a refresh token, and no id_token
	Audience     string // issuer of the server that is to accept the assertion
	Resource     string // "": all that are registered
	Scope        string // "": all that is registered
	JKT          oauth.JKT
	From         grant.Origin
}

// An authentication is a login of a user, as an identity assertion reports it.
type authentication struct {
	subject  string
	authTime grant.Instant
	acr      string
	amr      []string
}

// idJAGClaims are the claims of an identity assertion. An assertion has no scope of
// OpenID Connect and no claim about the user beside sub.
type idJAGClaims struct {
	Issuer    string      `json:"iss"`
	Subject   string      `json:"sub"`
	Audience  string      `json:"aud"`
	ClientID  string      `json:"client_id"` // at the audience
	ExpiresAt int64       `json:"exp"`
	IssuedAt  int64       `json:"iat"`
	ID        string      `json:"jti"`
	Resource  audience    `json:"resource,omitempty"`
	Scope     oauth.Scope `json:"scope,omitempty"`
	AuthTime  int64       `json:"auth_time,omitempty"`
	ACR       string      `json:"acr,omitempty"`
	AMR       []string    `json:"amr,omitempty"`

	Confirmation *Confirmation `json:"cnf,omitempty"`
}

// IDJAG returns an identity assertion about the user of a client's login, for the
// authorization server of another party. The client's registration lists these servers,
// and what an assertion for each may contain. Nothing is written.
func (iss Exchanges) IDJAG(ctx context.Context, c *store.Client, r IDJAGRequest) (Tokens, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	p, ok := c.IDJAGFor(r.Audience)
	if !ok || oauth.CanonicalTarget(p.Audience) == oauth.CanonicalTarget(iss.ID) {
		return Tokens{}, oauth.ErrTarget
	}
	if c.Public() && !p.Public {
		return Tokens{}, oauth.ErrClientGrantType
	}
	by := iss.byIDToken
	if r.Refresh {
		by = iss.byRefreshToken
	}
	who, err := by(ctx, view, c, r)
	if err != nil {
		return Tokens{}, unacceptable(oauth.ErrSubjectToken, err)
	}
	if r.Resource != "" {
		i := slices.IndexFunc(p.Resources, func(uri string) bool { return oauth.CanonicalTarget(uri) == oauth.CanonicalTarget(r.Resource) })
		if i < 0 {
			return Tokens{}, oauth.ErrTarget
		}
		p.Resources = p.Resources[i : i+1]
	}
	if r.Scope != "" {
		asked, err := oauth.ParseScope(r.Scope)
		if asked = asked.Without(oauth.OfflineAccess); err != nil || !p.Scope.Covers(asked) {
			return Tokens{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
		}
		p.Scope = asked
	}
	now := iss.now()
	var random [16]byte
	rand.Read(random[:])
	id := grant.NewID(now, random)
	body, err := json.Marshal(idJAGClaims{
		Issuer: iss.ID, Subject: who.subject, Audience: p.Audience, ClientID: p.ClientID,
		ExpiresAt: int64(now.Add(idJAGLifetime)) / 1000, IssuedAt: int64(now) / 1000, ID: id.String(),
		Resource: p.Resources, Scope: p.Scope, AuthTime: int64(who.authTime) / 1000, ACR: who.acr, AMR: who.amr,
		Confirmation: ConfirmationOf(r.JKT),
	})
	if err != nil {
		return Tokens{}, err
	}
	text, err := view.Ring.Sign(cmp.Or(p.Alg, keys.RS256), oauth.JWTIDJAG, body, now)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	return Tokens{
		Scope: p.Scope, ExpiresIn: int64(idJAGLifetime / time.Second), AccessToken: text, GrantID: id, Subject: who.subject,
		Format: store.TokenJWT, Bound: r.JKT.Bound(), Exchanged: &Exchanged{For: p.Audience},
	}, nil
}

// byIDToken returns the login that an id_token of the client reports. The id_token must
// not have expired, and its session must not have ended; an idle session is accepted.
func (iss Exchanges) byIDToken(ctx context.Context, view *directory.View, c *store.Client, r IDJAGRequest) (authentication, error) {
	refused := func(why grant.Refusal) (authentication, error) { return authentication{}, &grant.Refused{Why: why} }
	h, err := iss.Hint(r.SubjectToken)
	now := iss.now()
	switch {
	case errors.Is(err, openid.ErrHint):
		return refused(grant.TokenUnknown)
	case err != nil:
		return authentication{}, err
	case h.ClientID != c.ID:
		return refused(grant.OtherClient)
	case now >= h.ExpiresAt:
		return refused(grant.GrantExpired)
	case grant.CutOffAt(h.Authorized, view.Cutoff(iss.Realm, h.Subject, c.ID), iss.Policy):
		return refused(grant.CutOff)
	case iss.SessionLives == nil || h.SessionID == "":
		return refused(grant.GrantRevoked) // without a session, no logout would end the login
	}
	lives, err := iss.SessionLives(ctx, h.Subject, func(reference [16]byte) bool { return openid.SessionID(reference, c.ID) == h.SessionID })
	if err != nil || !lives {
		return authentication{}, cmp.Or(err, error(&grant.Refused{Why: grant.GrantRevoked}))
	}
	return authentication{h.Subject, h.AuthTime, h.ACR, strings.Fields(h.AMR)}, nil
}

// byRefreshToken returns the login of a refresh token that the client could refresh now.
// It does not rotate the token. A replayed token ends its grant, as in a refresh.
func (iss Exchanges) byRefreshToken(ctx context.Context, view *directory.View, c *store.Client, r IDJAGRequest) (authentication, error) {
	t, view, err := iss.open(ctx, view, r.SubjectToken, RefreshToken)
	if err != nil {
		return authentication{}, err
	}
	req, policy := iss.presents(view, c, t), iss.PolicyOf(c)
	req.JKT = r.JKT
	decide := func(g grant.Grant, now grant.Instant) grant.Decision {
		req.Target = iss.EveryAPI(view, c, g.APIs)
		req.Cutoff, req.SpentByOther = view.Cutoff(g.Realm, g.Subject, g.ClientID), view.Ring.SpentByOther(g, t.Key)
		d := g.Refresh(req, policy, now)
		if d.Refusal == grant.Allowed {
			d.Next = g
		}
		return d
	}
	g, err := iss.Store.Grant(ctx, t.GrantID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return authentication{}, &grant.Refused{Why: req.Unrecorded(policy, iss.now()), GrantID: t.GrantID}
	case err != nil:
		return authentication{}, store.Unavailable(err)
	}
	d := decide(g, iss.now())
	if d.Next != g {
		if d, _, err = iss.update(ctx, t.GrantID, evidence{generation: t.Generation, from: r.From}, decide); err != nil {
			return authentication{}, store.Unavailable(err)
		}
	}
	if d.Refusal == grant.Allowed && !c.MayUse(store.GrantRefreshToken) {
		d.Refusal = grant.ClientDisabled
	}
	if d.Refusal != grant.Allowed {
		return authentication{}, &grant.Refused{Why: d.Refusal, GrantID: t.GrantID}
	}
	login := openid.LoginOf(g.Facts)
	return authentication{g.Subject, g.AuthTime, login.Class(), login.Methods()}, nil
}
