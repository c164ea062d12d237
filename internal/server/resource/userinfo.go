package resource

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// userInfo answers with the claims about the user of an access token: the subject, the
// claims that the token's scope covers, and those that its authorization request has
// named (OpenID Connect Core sections 5.3 to 5.5).
func (e *Endpoints) userInfo(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	text, err := e.presented(r)
	if err != nil {
		return a, rec, err
	}
	t, rec, err := e.activeToken(ctx, r, text)
	if err != nil {
		return a, rec, err
	}
	if err = r.Presented(ctx, text, t.JKT, r.Method, r.OwnURI()); err != nil {
		return a, rec, err
	}
	if t.IsService() || t.Exchanged() {
		return a, rec, oauth.ErrInvalidToken // about no user, or for APIs: claims are for the client of the login
	}
	if t.Restricted && !t.ForClient && !t.IsFor(e.Issuer.ID) {
		return a, rec, oauth.ErrInvalidToken // it is for other APIs
	}
	if !t.Scope.Has(oauth.OpenID) {
		return a, rec, &server.MissingScope{Scope: oauth.OpenID}
	}
	about := claims.Claims{}
	if asked := claims.Of(t.Scope) | t.Named; asked != 0 && e.Claims != nil {
		all, err := e.Claims(ctx, t.Subject)
		if err != nil {
			return a, rec, err
		}
		about = all.Select(asked)
	}
	if about["sub"], err = json.Marshal(t.Subject); err != nil {
		return a, rec, err
	}
	if text, err := e.Issuer.Signer().UserInfo(ctx, t.ClientID, about); text != "" || err != nil {
		return server.Answer{Body: []byte(text), Header: contentType(mediaJWT)}, rec, err
	}
	body, err := json.Marshal(about)
	return server.Answer{Body: body}, rec, err
}

// presented returns the access token of the header or, with POST, of the form
// (RFC 6750 sections 2.1 and 2.2). Two tokens are refused (section 3.1).
func (e *Endpoints) presented(r *server.Request) (text string, err error) {
	p, err := r.Query(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	if p["access_token"] != "" {
		return "", oauth.ErrTokenInQuery
	}
	if r.Method == http.MethodPost && r.HasForm() {
		if err := r.Early(); err != nil {
			return "", err
		}
		if p, err = r.Form(false); err != nil {
			return "", err
		}
		switch text = p["access_token"]; {
		case text != "" && len(r.Header["Authorization"]) > 0:
			return "", oauth.ErrTwoTokens
		case text != "":
			return text, nil
		}
	}
	return r.Token()
}
