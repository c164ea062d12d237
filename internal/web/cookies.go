package web

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
)

// Names of cookies. The prefix binds a cookie to this host, to https and to every path
// (RFC 6265bis section 4.1.3.2). The cookies are SameSite=Lax, because users arrive from
// their client's site.
const (
	browserCookie = "__Host-mintage_browser"
	sessionCookie = "__Host-mintage_session"
	knownCookie   = "__Host-mintage_known"
	// everywhereCookie is set for a minute after a logout that ended all sessions: the next
	// page says so, also if the browser visits the OpenID Connect provider first.
	everywhereCookie = "__Host-mintage_everywhere"
)

// ofRealm returns the name of a cookie in the realm. Several realms may have one host.
func (s *endpoints) ofRealm(name string) string {
	if s.Realm == oauth.DefaultRealm {
		return name
	}
	return name + "_" + strings.TrimPrefix(s.Realm, "/")
}

// visitor returns the visitor that the request's cookies identify. Of two cookies with
// one name, neither counts.
func (s *endpoints) visitor(r *http.Request) login.Visitor {
	return login.Visitor{Browser: cookie(r, s.ofRealm(browserCookie)), Session: cookie(r, s.ofRealm(sessionCookie))}
}

func cookie(r *http.Request, name string) string {
	list := r.CookiesNamed(name)
	if len(list) != 1 {
		return ""
	}
	return list[0].Value
}

// stamp renews the session cookie, which holds the time of the session's last use, if that
// time is too old.
func (s *endpoints) stamp(x *exchange, session *login.Session) {
	if fresh := s.Authorizer.Refresh(session); fresh != "" {
		x.setCookie(s.ofRealm(sessionCookie), fresh, 0)
	}
}

// known returns the value of the cookie that marks a browser as known, or nil.
func (s *endpoints) known(r *http.Request) []byte {
	b, err := base64.RawURLEncoding.DecodeString(cookie(r, s.ofRealm(knownCookie)))
	if err != nil || len(b) == 0 || len(b) > 128 {
		return nil
	}
	return b
}

// setCookie adds a cookie to the answer. An empty value removes it. Age is in
// seconds; zero is for as long as the browser runs.
func (x *exchange) setCookie(name, value string, age int) {
	c := http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: age}
	if value == "" {
		c.MaxAge = -1
	}
	x.cookies = append(x.cookies, c.String())
}
