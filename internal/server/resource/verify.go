package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// activeToken returns an active access token, with what it allows. It does not check whether
// the request may present the token: call Request.Presented.
func (e *Endpoints) activeToken(ctx context.Context, r *server.Request, text string) (t issuer.Token, rec server.Report, err error) {
	if err = r.Enter(r.Route.Class); err != nil {
		return t, rec, err
	}
	t, err = e.Issuer.Inspect(ctx, text)
	if refused, ok := errors.AsType[*grant.Refused](err); ok && refused.Why != grant.StoreBehind {
		rec.Inactive, rec.GrantID = err, refused.GrantID
		return t, rec, oauth.ErrInvalidToken
	}
	rec.GrantID = t.GrantID
	return t, rec, err
}

// verify answers a proxy that asks, before it passes a request on, whether the
// request's access token is valid (nginx auth_request, Traefik ForwardAuth, Caddy
// forward_auth, Envoy ext_authz). The scope and audience that the proxy requires
// are in the query or in headers that it sets itself.
func (e *Endpoints) verify(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	if err = r.Secure(); err != nil {
		return a, rec, err
	}
	d, err := demands(r)
	if err != nil {
		return a, rec, err
	}
	text, err := r.Token()
	if err != nil {
		return a, rec, err
	}
	t, rec, err := e.activeToken(ctx, r, text)
	if err != nil {
		return a, rec, err
	}
	if err = r.Presented(ctx, text, t.JKT, d.at.method, d.at.uri); err != nil {
		if errors.Is(err, oauth.ErrTokenProof) && r.HasProof() { // perhaps it is the proxy's mistake
			err = fmt.Errorf("%w; %s", err, d.at.describe())
		}
		return a, rec, err
	}
	switch {
	case d.audience != "" && !t.IsFor(d.audience):
		return a, rec, oauth.ErrInvalidToken // RFC 9068 section 4: a token for another audience is not valid here
	case !t.Scope.Covers(d.scope):
		return a, rec, &server.MissingScope{Scope: d.scope}
	case d.actor == actorRequired && len(t.Actors) == 0:
		return a, rec, oauth.ErrNoActor
	case d.actor == actorRefused && len(t.Actors) > 0:
		return a, rec, oauth.ErrActor
	case !issuer.Authenticated(e.Issuer, t, d.login.maxAge, strings.Fields(d.login.ACRValues)):
		return a, rec, &d.login.WeakLogin
	}
	a.Header = http.Header{
		"Content-Type":   nil,
		"X-Auth-Subject": {headerText(t.Subject)},
		"X-Auth-Client":  {headerText(t.ClientID)},
		"X-Auth-Scope":   {string(t.Scope)},
		"X-Auth-Expires": {strconv.FormatInt(int64(t.ExpiresAt)/1000, 10)},
	}
	if len(t.Actors) > 0 { // the present one decides (RFC 8693 section 4.1)
		a.Header["X-Auth-Actor"] = []string{actorText(t.Actors[0])}
	}
	return a, rec, nil
}

// actorText returns an actor as the text of a header. For an actor of another issuer, the
// issuer comes first, then a space, which no client's id contains.
func actorText(a grant.Actor) string {
	if a.Issuer == "" {
		return headerText(a.Subject)
	}
	return headerText(a.Issuer) + " " + headerText(a.Subject)
}

// A demand is what a proxy requires of a token.
type demand struct {
	scope    oauth.Scope
	audience string
	actor    string // actorRequired, actorRefused, or ""
	login    freshness
	at       target
}

// A freshness is how the user must have signed in (RFC 9470), and the error of a token
// whose user has not.
type freshness struct {
	maxAge time.Duration // 0: at any time
	server.WeakLogin
}

// freshnessOf reads acr and max_age. It refuses max_age=0, which no login could meet.
func freshnessOf(p oauth.Params) (f freshness, err error) {
	f.ACRValues, f.MaxAge = p["acr"], p["max_age"]
	if !server.IsVisible(f.ACRValues) || strings.ContainsAny(f.ACRValues, `"\`) {
		return f, oauth.ErrMalformedValue
	}
	if f.MaxAge != "" {
		seconds, err := strconv.ParseUint(f.MaxAge, 10, 31)
		if err != nil || seconds == 0 {
			return f, oauth.ErrMalformedValue
		}
		f.maxAge = time.Duration(seconds) * time.Second
	}
	return f, nil
}

const (
	actorRequired = "required"
	actorRefused  = "refused"
)

// requirements are the parameters that a proxy's query may have. Any other is an error: if
// it is misspelled, ignoring it would admit requests that it should keep out.
var requirements = []string{"scope", "aud", "dpop", "actor", "acr", "max_age", "resource_metadata"}

// demands reads what the proxy requires of a token, and sets r.Challenge. It refuses an
// unclear requirement, so that a proxy's mistake does not admit any request.
func demands(r *server.Request) (d demand, err error) {
	for name := range r.Header {
		if isAlias(name) {
			return demand{}, oauth.ErrHeaderName
		}
	}
	query := r.URL.RawQuery
	if r.PathValue("rest") != "" {
		// The query belongs to the client's path. If rest is empty, it may be the proxy's,
		// configured with a slash too many.
		query = ""
	}
	p, err := r.Query(query)
	if err != nil {
		return demand{}, err
	}
	asked, err := url.ParseQuery(query)
	if err != nil {
		return demand{}, oauth.ErrMalformedValue
	}
	for name := range asked {
		switch {
		case name == "realm":
		case !slices.Contains(requirements, name):
			return demand{}, fmt.Errorf("%w: the query has a name beside %s", oauth.ErrMalformedValue, strings.Join(requirements, ", ")) // a secret, perhaps
		case strings.TrimSpace(p[name]) == "": // a variable that the proxy has not set
			return demand{}, oauth.ErrMalformedValue
		}
	}
	if d.login, err = freshnessOf(p); err != nil {
		return demand{}, err
	}
	d.scope, err = oauth.ParseScope(p["scope"])
	metadata := p["resource_metadata"]
	if err != nil || !server.IsVisible(metadata) || strings.ContainsAny(metadata, `"\`) || metadata != "" && !isWebAddress(metadata) {
		return demand{}, oauth.ErrMalformedValue
	}
	if metadata != "" {
		r.Challenge = `, resource_metadata="` + metadata + `"` // RFC 9728 section 5.1
	}
	for _, h := range r.Header["X-Required-Scope"] {
		more, err := oauth.ParseScope(string(d.scope) + " " + h)
		if err != nil || strings.TrimSpace(h) == "" {
			return demand{}, oauth.ErrMalformedValue
		}
		d.scope = more
	}
	d.audience = p["aud"]
	for _, h := range r.Header["X-Required-Audience"] {
		switch {
		case h == "":
			return demand{}, oauth.ErrMalformedValue
		case d.audience != "" && d.audience != h:
			return demand{}, oauth.ErrRepeated
		}
		d.audience = h
	}
	actors := r.Header["X-Required-Actor"]
	if p["actor"] != "" {
		actors = append([]string{p["actor"]}, actors...)
	}
	for _, h := range actors {
		switch {
		case h != actorRequired && h != actorRefused:
			return demand{}, oauth.ErrMalformedValue
		case d.actor != "" && d.actor != h:
			return demand{}, oauth.ErrRepeated
		}
		d.actor = h
	}
	d.at, err = originalOf(r, p["dpop"])
	return d, err
}

// isWebAddress reports whether a text is an http or https address.
func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// A target is the method and the address of the request that a proxy asks about.
// The origin is that of the API, from the proxy's parameter dpop, or "".
type target struct{ method, uri, origin string }

// describe returns, for the log, which origin the proxy has sent.
func (t target) describe() string {
	switch {
	case t.origin == "":
		return "the proxy names no dpop=ORIGIN, without which no proof is valid"
	case !isWebAddress(t.origin):
		return "the proxy's dpop is no address such as https://api.example.com"
	}
	return "the proxy says that clients reach the API at dpop=" + server.Printable(t.origin)
}

// originalOf returns the method and the address that a proxy reports of the request that
// it asks about. The origin comes from the proxy's configuration; method and path from
// headers that it sets: those of Traefik and Caddy, or those that the how-to pages of other
// proxies name; without them, it returns an error. Without an origin, the target is empty,
// and no proof is valid for it.
func originalOf(r *server.Request, origin string) (target, error) {
	if origin == "" {
		return target{}, nil
	}
	one := func(names ...string) (value string, err error) {
		for _, name := range names {
			for _, v := range r.Header[name] {
				if v == "" || value != "" && v != value {
					return "", oauth.ErrMalformedValue
				}
				value = v
			}
		}
		return value, nil
	}
	method, err := one("X-Forwarded-Method", "X-Original-Method")
	if err != nil {
		return target{}, err
	}
	path, err := one("X-Forwarded-Uri", "X-Original-Uri")
	switch {
	case err != nil:
		return target{}, err
	case method == "" || !strings.HasPrefix(path, "/"):
		return target{}, fmt.Errorf("%w: with dpop, the proxy must set X-Forwarded-Method and X-Forwarded-Uri, or X-Original-Method and X-Original-Uri", oauth.ErrMalformedValue)
	}
	return target{method, strings.TrimSuffix(origin, "/") + path, origin}, nil
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

// headerText returns a text in a form that a header can contain: it percent-encodes
// all characters but visible ASCII, and the percent sign.
func headerText(s string) string {
	const digits = "0123456789ABCDEF"
	if server.IsVisible(s) && !strings.ContainsAny(s, " %") {
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

// tokenInfo answers resource servers of OpenAM-style deployments: what the access
// token in their request allows.
func (e *Endpoints) tokenInfo(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	p, err := r.Query(r.URL.RawQuery)
	if err != nil {
		return a, rec, err
	}
	text := p["access_token"]
	var t issuer.Token
	switch {
	case text != "" && (!e.TokenInfoQuery || len(r.Header["Authorization"]) > 0):
		return a, rec, oauth.ErrTokenInQuery
	case text != "":
	default:
		text, err = r.Token()
	}
	if err == nil {
		t, rec, err = e.activeToken(ctx, r, text)
	}
	if err == nil && t.JKT.Bound() { // callers of this endpoint cannot verify proofs
		err = oauth.ErrInvalidToken
	}
	if err != nil {
		return a, rec, err
	}
	body, err := json.Marshal(struct {
		AccessToken string   `json:"access_token"`
		GrantType   string   `json:"grant_type"`
		Scope       []string `json:"scope"`
		Realm       string   `json:"realm"`
		TokenType   string   `json:"token_type"`
		ExpiresIn   int64    `json:"expires_in"`
		ClientID    string   `json:"client_id"`
		// PingAM names the subject in these two members; OpenAM 10 to 16 does not.
		// A program that mistakes the answer for OpenID Connect's userinfo reads
		// sub: without it, the program would log in all users under one empty name.
		Subject     string `json:"sub"`
		SubjectName string `json:"subname"`
	}{text, t.GrantType(), t.Scope.Tokens(), e.Server.Realm, "Bearer", e.Issuer.ExpiresIn(t), t.ClientID, t.Subject, t.Subject})
	return server.Answer{Body: body}, rec, err
}
