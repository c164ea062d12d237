package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
)

// A route is one endpoint: what it is called in the log, which methods it
// takes, and who answers.
type route struct {
	name    string
	path    string // after {base}/oauth2/ or one of its longer forms
	methods []string
	allow   string // methods, as the Allow header lists them
	handle  handlerFunc
	realm   string // named by the path, or the only one there is
	page    bool   // people see it: answers are HTML, also those about errors
	scripts bool   // scripts of the configured origins may read it
	public  bool   // scripts of every origin may read it, and nobody is kept from it
	// refusals is the level at which a refusal is logged: where strangers'
	// dead tokens are everyday, it is debug.
	refusals slog.Level
	meter    *metrics.Route // nil if nothing is counted
}

// routes is the table of the public endpoints. Each is at {base}/oauth2/,
// where the query may name the realm, and in two forms whose path names it: the
// issuer is path-based, because RFC 8414 forbids a query in it, and some client
// libraries mangle one in the endpoint. Only the token endpoint's first form
// insists on a realm.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, rt := range s.patterns() {
		mux.Handle(pattern, s.endpoint(rt))
	}
	mux.Handle("/", s.elsewhere())
	return mux
}

// elsewhere answers where no endpoint is: a program with an error, and a browser,
// which somebody is in front of, with a page.
func (s *Server) elsewhere() http.Handler {
	program := s.endpoint(route{name: "request", handle: notFound})
	if s.opt.Front == nil {
		return program
	}
	person := s.endpoint(route{name: "request", handle: s.lost, page: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wantsPage(r) {
			person.ServeHTTP(w, r)
		} else {
			program.ServeHTTP(w, r)
		}
	})
}

// lost shows the way to whoever has typed the address of the server alone.
func (s *Server) lost(_ context.Context, r *http.Request, _ *exchange) (answer, error) {
	switch strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, s.opt.BasePath), "/") {
	case "", "/account":
		return seeOther(s.at(connectionsPath)), nil
	}
	return answer{}, oauth.ErrNotFound
}

// wantsPage reports whether a request names HTML among what it accepts, as every
// browser does where it shows the answer, and no OAuth client.
func wantsPage(r *http.Request) bool {
	for accepted := range strings.SplitSeq(strings.Join(r.Header["Accept"], ","), ",") {
		media, _, _ := strings.Cut(accepted, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/html") {
			return true
		}
	}
	return false
}

// patterns is every path at which an endpoint is.
func (s *Server) patterns() map[string]route {
	all := map[string]route{}
	realm := strings.Trim(s.issuer.Realm, "/")
	forms := []string{"", realm + "/", "realms/root/realms/" + realm + "/"}
	for _, rt := range s.table() {
		rt.allow = strings.Join(rt.methods, ", ")
		for i, form := range forms {
			rt.realm = s.issuer.Realm
			if i == 0 && rt.path == tokenPath {
				rt.realm = ""
			}
			all[s.opt.BasePath+"/oauth2/"+form+rt.path] = rt
		}
		if rt.path == metadataPath {
			for _, location := range metadataLocations(s.issuer.ID) {
				all[location] = rt
			}
		}
	}
	for _, rt := range s.accountTable() {
		rt.allow, rt.realm = strings.Join(rt.methods, ", "), s.issuer.Realm
		all[s.opt.BasePath+rt.path] = rt
	}
	get := []string{http.MethodGet, http.MethodHead}
	all[s.opt.BasePath+openapiPath] = route{
		name: "description", path: openapiPath, methods: get, allow: "GET, HEAD", handle: s.openapi(), realm: s.issuer.Realm, public: true,
	}
	return all
}

// anyPaths is, by prefix, who answers whatever is below it.
func (s *Server) anyPaths() map[string]http.Handler {
	all := map[string]http.Handler{}
	for pattern, rt := range s.patterns() {
		if prefix, ok := strings.CutSuffix(pattern, "{rest...}"); ok {
			all[prefix] = s.endpoint(rt)
		}
	}
	return all
}

const (
	tokenPath         = "access_token"
	introspectionPath = "introspect"
	// verifyBelow is for proxies that append the path of the request that
	// they ask about (Envoy).
	verifyBelow = "verify/{rest...}"
)

// table lists the endpoints by their shortest path.
func (s *Server) table() []route {
	post := []string{http.MethodPost}
	get := []string{http.MethodGet, http.MethodHead}
	table := []route{
		{name: "token request", path: tokenPath, methods: post, handle: s.token, scripts: true},
		{name: "introspection", path: introspectionPath, methods: post, handle: s.introspect},
		{name: "revocation", path: "revoke", methods: post, handle: s.revoke, scripts: true},
		{name: "revocation", path: "token/revoke", methods: post, handle: s.revoke, scripts: true},
		{name: "token info", path: "tokeninfo", methods: get, handle: s.tokenInfo, refusals: slog.LevelDebug},
		{name: "verification", path: "verify", handle: s.verify, refusals: slog.LevelDebug},
		{name: "verification", path: verifyBelow, handle: s.verify, refusals: slog.LevelDebug},
		{name: "keys", path: "jwks", methods: get, handle: s.published(s.keySet), public: true},
		{name: "keys", path: "connect/jwk_uri", methods: get, handle: s.published(s.keySet), public: true},
		{name: "keys", path: "jwks/{file}", methods: get, handle: s.published(s.keyFile), public: true},
		{name: "metadata", path: metadataPath, methods: get, handle: s.published(s.metadata), public: true},
		{name: "metadata", path: serverMetadataPath, methods: get, handle: s.published(s.metadata), public: true},
		{name: "list of revocations", path: "revocations", methods: get, handle: s.published(s.revocations), public: true},
	}
	if s.opt.Front == nil {
		return table
	}
	table = append(table,
		route{name: "authorization", path: "authorize", methods: form, handle: s.authorize, page: true},
		route{name: "interaction", path: "interaction", methods: form, handle: s.interaction, page: true},
	)
	if s.opt.Front.Upstream != nil {
		table = append(table, route{name: "upstream login", path: "callback", methods: form[:1], handle: s.callback, page: true})
	}
	return table
}

// form is what a page and its form need. HEAD is not among them: a code is
// never made for whoever does not read it.
var form = []string{http.MethodGet, http.MethodPost}

// accountTable lists what a user has apart from any client, by the path after
// the base. There is one form of it: these addresses are for people.
func (s *Server) accountTable() []route {
	if s.opt.Front == nil {
		return nil
	}
	return []route{
		{name: "connections", path: connectionsPath, methods: form, handle: s.connections, page: true},
		{name: "logout", path: logoutPath, methods: form, handle: s.logout, page: true},
		{name: "asset", path: "/account/assets/{file}", methods: []string{http.MethodGet, http.MethodHead}, handle: s.published(s.asset), page: true},
	}
}

// admit checks what needs no look at the body: method, transport, length,
// throttle.
func (s *Server) admit(r *http.Request, x *exchange) error {
	if x.methods != nil && !slices.Contains(x.methods, r.Method) {
		if slices.Contains(x.methods, http.MethodGet) {
			return oauth.ErrNotGet
		}
		return oauth.ErrMethod
	}
	s.noticeProxy(r)
	if !s.secure(r) {
		return oauth.ErrHTTPS
	}
	if r.ContentLength > oauth.MaxForm {
		return oauth.ErrTooLarge
	}
	if !x.public && s.throttle.AddressBlocked(x.counted) {
		return oauth.ErrTooManyRequests
	}
	return nil
}

// query reads the parameters of a request that has no form. It may leave the
// realm out, and must not name another.
func (s *Server) query(raw string) (oauth.Params, error) {
	p, _, err := oauth.ParseParams(raw, "", false)
	if err != nil {
		return nil, err
	}
	if realm := p["realm"]; realm != "" && !s.isRealm(realm) {
		return nil, oauth.ErrRealm
	}
	return p, nil
}

// isRealm reports whether a parameter names the realm: "/api", "%2Fapi" and
// "api" do.
func (s *Server) isRealm(name string) bool {
	return "/"+strings.TrimPrefix(name, "/") == s.issuer.Realm
}
