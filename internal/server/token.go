package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// tokenAnswer is a success, with its members in the order that clients of
// OpenAM-style deployments know. Nothing in it needs escaping: scopes exclude
// the quote and the backslash (RFC 6749 appendix A.4), and tokens are made of
// URL-safe characters.
func tokenAnswer(t issuer.Tokens) []byte {
	b := make([]byte, 0, 128+len(t.Scope)+len(t.RefreshToken)+len(t.AccessToken))
	b = append(append(b, `{"scope":"`...), t.Scope...)
	b = strconv.AppendInt(append(b, `","expires_in":`...), t.ExpiresIn, 10)
	b = append(append(b, `,"token_type":"Bearer","refresh_token":"`...), t.RefreshToken...)
	b = append(append(b, `","access_token":"`...), t.AccessToken...)
	return append(b, `"}`...)
}

// token is the token endpoint. Its phases have a fixed order, cheap before
// expensive and public before secret, and none before the last consumes
// anything: transport, form, parameters, grant type, client, permission, grant.
func (s *Server) token(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	// 1. Transport.
	if err := s.admit(r, x); err != nil {
		return answer{}, err
	}
	if err := s.throttle.RequestOfAddress(x.counted); err != nil {
		return answer{}, err
	}
	if err := s.queue.Early(); err != nil {
		return answer{}, err
	}

	// 2. Form and parameters.
	p, err := s.params(r, x, s.opt.QueryParameters)
	if err != nil {
		return answer{}, err
	}

	// 3. Grant type, and what it requires.
	x.grantType = p["grant_type"]
	switch {
	case x.grantType == "":
		return answer{}, oauth.ErrNoGrantType
	case x.grantType == store.GrantAuthorizationCode && p["code"] == "":
		return answer{}, oauth.ErrNoCode
	case x.grantType == store.GrantAuthorizationCode && p["redirect_uri"] == "":
		return answer{}, oauth.ErrNoRedirect
	case x.grantType == store.GrantAuthorizationCode && p["code_verifier"] != "" && !oauth.IsVerifier(p["code_verifier"]):
		return answer{}, oauth.ErrVerifier // a mistake in the client's program, which invalid_grant would hide
	case x.grantType == store.GrantAuthorizationCode:
	case x.grantType == store.GrantRefreshToken && p["refresh_token"] == "":
		return answer{}, oauth.ErrNoRefresh
	case x.grantType == store.GrantRefreshToken:
	default:
		return answer{}, oauth.ErrGrantType
	}

	// 4. Client, and from here on a place among those that are worked on.
	turn := overload.Refresh
	if x.grantType == store.GrantAuthorizationCode {
		turn = overload.Code
	}
	if err := s.enter(r, x, turn); err != nil {
		return answer{}, err
	}
	c, err := s.client(ctx, r, x, p)
	if err != nil {
		return answer{}, err
	}
	if err := s.ofClient(x, c.ID, c.Public()); err != nil {
		return answer{}, err
	}
	if !c.MayUse(x.grantType) {
		return answer{}, oauth.ErrClientGrantType
	}

	// 5. Grant.
	from := grant.Origin{Address: x.address, RequestID: x.id}
	if x.grantType == store.GrantAuthorizationCode {
		x.tokens, err = s.issuer.Exchange(ctx, c, issuer.CodeRequest{
			Code: p["code"], RedirectURI: p["redirect_uri"], Verifier: p["code_verifier"], From: from,
		})
	} else {
		x.tokens, err = s.issuer.Refresh(ctx, c, issuer.RefreshRequest{
			RefreshToken: p["refresh_token"], Scope: p["scope"], From: from,
		})
	}
	if err != nil {
		return answer{}, err
	}
	return answer{body: tokenAnswer(x.tokens)}, nil
}

// params reads the request's parameters and settles its realm.
func (s *Server) params(r *http.Request, x *exchange, queryAllowed bool) (oauth.Params, error) {
	body, err := formBody(r)
	if err != nil {
		return nil, err
	}
	p, realm, err := oauth.ParseParams(body, r.URL.RawQuery, queryAllowed)
	if state := p["state"]; isVisible(state) && (oauth.Params{"state": state}).CheckLengths() == nil {
		x.state = state
	}
	if err != nil {
		return nil, err
	}
	if x.realm == "" || realm != "" {
		if !s.isRealm(realm) {
			return nil, oauth.ErrRealm
		}
	}
	return p, p.CheckLengths()
}

// client authenticates the request's client. Failures count against the
// client from this address, so that a stranger cannot lock the owner out, and
// against the address, unless all addresses are one.
func (s *Server) client(ctx context.Context, r *http.Request, x *exchange, p oauth.Params) (*store.Client, error) {
	cred, err := oauth.ParseCredentials(r.Header["Authorization"], p)
	x.header, x.clientID = cred.Header, cred.ClientID
	if err == nil {
		if s.throttle.ClientBlocked(x.counted, cred.ClientID) {
			return nil, oauth.ErrTooManyRequests
		}
		var c *store.Client
		if c, err = s.issuer.Authenticate(ctx, cred, x.counted); err == nil {
			return c, nil
		}
	}
	if errors.Is(err, issuer.ErrClient) || errors.Is(err, oauth.ErrClient) {
		s.throttle.Failed(x.counted, cred.ClientID)
	}
	return nil, err
}

func isForm(contentType []string) bool {
	const form = "application/x-www-form-urlencoded"
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == form {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType[0])
	charset, given := params["charset"]
	return err == nil && media == form && (!given || strings.EqualFold(charset, "utf-8"))
}

// formBody is the body of a form, not yet decoded.
func formBody(r *http.Request) (string, error) {
	if !isForm(r.Header["Content-Type"]) {
		return "", oauth.ErrContentType
	}
	if len(r.Header["Content-Encoding"]) > 0 {
		return "", oauth.ErrContentEncoding
	}
	return readBody(r)
}

// readBody reads at most oauth.MaxForm bytes, which the caller has compared
// with a length that is declared.
func readBody(r *http.Request) (string, error) {
	defer reading(r)()
	var b []byte
	var err error
	if r.ContentLength >= 0 {
		b = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(io.LimitReader(r.Body, oauth.MaxForm+1))
	}
	var stalled net.Error
	switch {
	case len(b) > oauth.MaxForm:
		return "", oauth.ErrTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &stalled) && stalled.Timeout():
		return "", oauth.ErrIncompleteBody
	case err != nil:
		return "", oauth.ErrMalformedBody
	}
	return string(b), nil
}

// isVisible reports whether s holds only what a state may (RFC 6749 appendix
// A.5).
func isVisible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
