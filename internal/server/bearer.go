package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
)

// maxBearer is the longest access token that is looked at, in characters.
const maxBearer = 8192

// bearer finds the access token of a request (RFC 6750 section 2.1) and what it
// is worth. Errors have their challenge set.
func (s *Server) bearer(ctx context.Context, r *http.Request, x *exchange) (text string, t issuer.Token, err error) {
	defer func() {
		var told *oauth.Error
		if errors.As(err, &told) {
			x.challenge = s.challenge(told, "")
		}
	}()
	h := r.Header["Authorization"]
	if len(h) == 0 || len(h) == 1 && !isBearer(h[0]) {
		return "", t, oauth.ErrNoBearer
	}
	_, text, _ = strings.Cut(h[0], " ")
	text = strings.TrimLeft(text, " ") // RFC 6750 section 2.1: one or more
	if len(h) > 1 || text == "" || len(text) > maxBearer || strings.ContainsAny(text, " ,") {
		return "", t, oauth.ErrBearer
	}
	return s.alive(ctx, r, x, text)
}

// alive is bearer for a token that was found elsewhere.
func (s *Server) alive(ctx context.Context, r *http.Request, x *exchange, text string) (string, issuer.Token, error) {
	if err := s.enter(r, x, overload.Check); err != nil {
		return "", issuer.Token{}, err
	}
	t, err := s.issuer.Inspect(ctx, text)
	var refused *grant.Refused
	if errors.As(err, &refused) && refused.Why != grant.StoreBehind {
		x.inactive, x.grantID = err, refused.GrantID
		return "", t, oauth.ErrInvalidToken
	}
	x.grantID = t.GrantID
	return text, t, err
}

// verify answers a proxy that asks, before it passes a request on, whether the
// request's access token is good (nginx auth_request, Traefik ForwardAuth, Caddy
// forward_auth, Envoy ext_authz). The scope and audience that the proxy demands
// are in the query or in headers that it sets itself.
func (s *Server) verify(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	s.noticeProxy(r)
	if !s.secure(r) {
		return answer{}, oauth.ErrHTTPS
	}
	scope, audience, err := s.demands(r, x)
	if err != nil {
		return answer{}, err
	}
	_, t, err := s.bearer(ctx, r, x)
	if err != nil {
		return answer{}, err
	}
	if audience != "" && !slices.Contains(t.Audience, audience) {
		// RFC 9068 section 4: a token for somebody else is not valid here.
		x.challenge = s.challenge(oauth.ErrInvalidToken, "")
		return answer{}, oauth.ErrInvalidToken
	}
	if !t.Scope.Covers(scope) {
		x.challenge = s.challenge(oauth.ErrInsufficientScope, scope)
		return answer{}, oauth.ErrInsufficientScope
	}
	return answer{header: http.Header{
		"Content-Type":   nil,
		"X-Auth-Subject": {headerText(t.Subject)},
		"X-Auth-Client":  {headerText(t.ClientID)},
		"X-Auth-Scope":   {string(t.Scope)},
		"X-Auth-Expires": {strconv.FormatInt(int64(t.ExpiresAt)/1000, 10)},
	}}, nil
}

// demands reads what a token must be good for. A proxy's mistake here must not
// open the door, so whatever is unclear is refused.
func (s *Server) demands(r *http.Request, x *exchange) (scope oauth.Scope, audience string, err error) {
	for name := range r.Header {
		if isAlias(name) {
			return "", "", oauth.ErrHeaderName
		}
	}
	query := r.URL.RawQuery
	if x.path == verifyBelow && r.PathValue("rest") != "" {
		// It came with the path, and is the client's own. With nothing but a
		// slash, it may be a proxy's whose address has one too many.
		query = ""
	}
	p, err := s.query(query)
	if err != nil {
		return "", "", err
	}
	if asked, err := url.ParseQuery(query); err != nil || asked.Has("scope") && p["scope"] == "" || asked.Has("aud") && p["aud"] == "" {
		return "", "", oauth.ErrMalformedValue // a variable that the proxy has not set
	}
	wanted, err := oauth.ParseScope(p["scope"])
	if err != nil {
		return "", "", oauth.ErrMalformedValue
	}
	for _, h := range r.Header["X-Required-Scope"] {
		more, err := oauth.ParseScope(string(wanted) + " " + h)
		if err != nil || strings.TrimSpace(h) == "" {
			return "", "", oauth.ErrMalformedValue
		}
		wanted = more
	}
	audience = p["aud"]
	for _, h := range r.Header["X-Required-Audience"] {
		switch {
		case h == "":
			return "", "", oauth.ErrMalformedValue
		case audience != "" && audience != h:
			return "", "", oauth.ErrRepeated
		}
		audience = h
	}
	return wanted, audience, nil
}

// isAlias reports whether name is a header of verification in another spelling.
// A program that gets headers as CGI variables (RFC 3875 section 4.1.18) reads
// X-Auth_Subject and X.Auth.Subject as X-Auth-Subject: if a proxy sends us such a
// header of its client, the program behind the proxy would get it too.
func isAlias(name string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	if strings.Trim(name, plain) == "" {
		return false
	}
	name = strings.Map(func(c rune) rune {
		if strings.ContainsRune(plain, c) {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	return strings.HasPrefix(name, "x-auth-") || strings.HasPrefix(name, "x-required-")
}

// headerText makes any text fit for a header: what is not visible ASCII, and
// the percent sign, is percent-encoded.
func headerText(s string) string {
	const digits = "0123456789ABCDEF"
	if isVisible(s) && !strings.ContainsAny(s, " %") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c > 0x20 && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// tokenInfo is what resource servers of OpenAM-style deployments ask: the
// bearer of an access token is told what it is worth.
func (s *Server) tokenInfo(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	if err := s.admit(r, x); err != nil {
		return answer{}, err
	}
	p, err := s.query(r.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	inQuery := p["access_token"]
	var text string
	var t issuer.Token
	switch {
	case inQuery != "" && (!s.opt.TokenInfoQuery || len(r.Header["Authorization"]) > 0):
		return answer{}, oauth.ErrTokenInQuery
	case inQuery != "":
		if text, t, err = s.alive(ctx, r, x, inQuery); errors.Is(err, oauth.ErrInvalidToken) {
			x.challenge = s.challenge(oauth.ErrInvalidToken, "")
		}
	default:
		text, t, err = s.bearer(ctx, r, x)
	}
	if err != nil {
		return answer{}, err
	}
	grantType := "refresh_token"
	if t.First {
		grantType = "authorization_code"
	}
	body, err := json.Marshal(struct {
		AccessToken string   `json:"access_token"`
		GrantType   string   `json:"grant_type"`
		Scope       []string `json:"scope"`
		Realm       string   `json:"realm"`
		TokenType   string   `json:"token_type"`
		ExpiresIn   int64    `json:"expires_in"`
		ClientID    string   `json:"client_id"`
		// OpenAM 10 to 16 names no subject, PingAM in these two members. A
		// program that takes this for OpenID Connect's userinfo reads sub, and
		// without it lets everybody in under one empty name.
		Subject     string `json:"sub"`
		SubjectName string `json:"subname"`
	}{text, grantType, t.Scope.Tokens(), s.issuer.Realm, "Bearer", s.issuer.ExpiresIn(t), t.ClientID, t.Subject, t.Subject})
	return answer{body: body}, err
}
