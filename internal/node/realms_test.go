package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/fetch"
)

// realms is a node with the default realm, a realm at the same host, and one at another
// host.
type realms struct {
	t   *testing.T
	n   *node // the node that serves the requests
	log *logLines
}

const defaultHost, otherHost = "auth.example", "other.example"

func newRealms(t *testing.T, change ...func(*config.Config)) *realms {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.PublicURL, cfg.TrustedProxies = t.TempDir(), "https://"+defaultHost, nil
	cfg.TLS = config.TLS{Cert: "cert.pem", Key: "key.pem"}
	for _, f := range change {
		f(&cfg)
	}
	near, far := cfg, cfg
	near.Realm, near.BasePath = "/near", "/near"
	far.Realm, far.PublicURL = "/far", "https://"+otherHost
	cfg.Realms = []config.Config{near, far}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	lines := new(logLines)
	cfg.NewStore = true
	return &realms{t, openForTest(t, cfg, lines, true), lines}
}

// openForTest starts a node, without its listeners and its background work.
func openForTest(t *testing.T, cfg config.Config, lines *logLines, dev bool) *node {
	t.Helper()
	n := &node{dev: dev, version: "test", log: slog.New(slog.NewJSONHandler(lines, nil)), level: new(slog.LevelVar)}
	closing, err := n.open(t.Context(), cfg, nil)
	if closing != nil {
		t.Cleanup(func() { closing() })
	}
	if err == nil {
		err = n.equip(cfg)
	}
	n.documents = fetch.NewCache(publish, func(address string, body []byte) (client.Document, error) { return client.ReadDocument(address, body) }, time.Now)
	var list []*handlers
	if err == nil {
		list, err = n.answer(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.use(cfg, list)
	return n
}

// publish serves the metadata document of every self-registered client.
func publish(_ context.Context, address string) (fetch.Answer, error) {
	body, err := json.Marshal(map[string]any{"client_id": address, "client_name": "Agent", "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none"})
	return fetch.Answer{Body: body, Fresh: time.Hour}, err
}

// send sends a form, or a GET without one, to an address of the public listener.
func (s *realms) send(address string, form url.Values, bearer string) (int, map[string]any, http.Header) {
	s.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r := httptest.NewRequest(method, address, strings.NewReader(body))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	return s.answer(r)
}

// answer sends a request to the public listener.
func (s *realms) answer(r *http.Request) (int, map[string]any, http.Header) {
	s.t.Helper()
	r.TLS, r.RequestURI = &tls.ConnectionState{}, r.URL.RequestURI()
	w := httptest.NewRecorder()
	s.poll()
	s.n.public.ServeHTTP(w, r)
	var answer map[string]any
	json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer, w.Header()
}

// poll polls the directory, like the node does each second. After five seconds without a
// poll, the node responds 503.
func (s *realms) poll() {
	s.t.Helper()
	if err := s.n.directory.Poll(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// administer calls the admin API and returns the answer.
func (s *realms) administer(method, path, body string, want int) map[string]any {
	s.t.Helper()
	status, answer := s.call(method, path, body)
	if status != want {
		s.t.Fatalf("%s %s: %d %v, want %d", method, path, status, answer, want)
	}
	return answer
}

// call calls the admin API.
func (s *realms) call(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.poll()
	s.n.admin.ServeHTTP(w, r)
	var answer map[string]any
	json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer
}

// ofRealms has the addresses of each realm: of its admin API and of its endpoints.
var ofRealms = map[string]struct{ admin, endpoints string }{
	"api":  {"/admin/v1", "https://" + defaultHost + "/oauth2/api"},
	"near": {"/admin/v1/realms/near", "https://" + defaultHost + "/near/oauth2/near"},
	"far":  {"/admin/v1/realms/far", "https://" + otherHost + "/oauth2/far"},
}

// An inhabitant has the credentials and tokens of one realm. Each realm has a client with
// the same id.
type inhabitant struct {
	realm, secret   string
	access, refresh string
	idToken         string
	service, jwt    string // tokens of a client for itself
}

const sharedID, callback = "shop", "https://shop.example/cb"

func (s *realms) register(realm string) inhabitant {
	s.t.Helper()
	c := s.administer("POST", ofRealms[realm].admin+"/clients", `{"id":"`+sharedID+`","name":"Shop of `+realm+`","redirect_uris":["`+callback+`"],"scope":"read openid","introspect":true,
		"grant_types":["authorization_code","refresh_token","client_credentials"],"require_pkce":false,"post_logout_redirect_uris":["https://shop.example/bye"]}`, http.StatusCreated)
	secret, _ := c["client_secret"].(string)
	if secret == "" {
		s.t.Fatalf("the client of %s has no secret: %v", realm, c)
	}
	i := inhabitant{realm: realm, secret: secret}
	status, answer, _ := s.redeem(realm, i, s.code(realm))
	if status != http.StatusOK {
		s.t.Fatalf("a code of %s in its own realm: %d %v", realm, status, answer)
	}
	i.access, i.refresh = answer["access_token"].(string), answer["refresh_token"].(string)
	i.idToken, _ = answer["id_token"].(string)
	_, answer, _ = s.send(ofRealms[realm].endpoints+"/access_token", url.Values{"grant_type": {"client_credentials"}, "client_id": {sharedID}, "client_secret": {secret}, "scope": {"read"}}, "")
	i.service, _ = answer["access_token"].(string)
	s.administer("PUT", ofRealms[realm].admin+"/clients/jwt", `{"name":"JWT","redirect_uris":["`+callback+`"],"scope":"read","access_token_format":"jwt","audience":["https://api.example"],
		"grant_types":["client_credentials"]}`, http.StatusCreated)
	jwt := s.administer("POST", ofRealms[realm].admin+"/clients/jwt/secrets", "", http.StatusCreated)
	_, answer, _ = s.send(ofRealms[realm].endpoints+"/access_token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"jwt"}, "client_secret": {jwt["client_secret"].(string)}}, "")
	i.jwt, _ = answer["access_token"].(string)
	if i.idToken == "" || i.service == "" || i.jwt == "" {
		s.t.Fatalf("%s: no id_token, no service token or no JWT: %+v, %v", realm, i, answer)
	}
	return i
}

func (s *realms) code(realm string) string {
	s.t.Helper()
	answer := s.administer("POST", ofRealms[realm].admin+"/codes", `{"client_id":"`+sharedID+`","subject":"alice","redirect_uri":"`+callback+`"}`, http.StatusCreated)
	return answer["code"].(string)
}

// redeem sends a code to the token endpoint of a realm, with the credentials of i.
func (s *realms) redeem(at string, i inhabitant, code string) (int, map[string]any, http.Header) {
	s.t.Helper()
	return s.send(ofRealms[at].endpoints+"/access_token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "client_id": {sharedID}, "client_secret": {i.secret},
	}, "")
}

// Nothing from one realm has an effect at an endpoint of another realm, although both have
// a client with the same id.
func TestTC28_AZ71_OP20_NothingCrossesRealms(t *testing.T) {
	s := newRealms(t)
	all := map[string]inhabitant{}
	for name := range ofRealms {
		all[name] = s.register(name)
	}
	for from, theirs := range all {
		for at, own := range all {
			if from == at {
				continue
			}
			to := ofRealms[at].endpoints
			post := func(path string, form url.Values) (int, map[string]any) {
				form.Set("client_id", sharedID)
				status, answer, _ := s.send(to+path, form, "")
				return status, answer
			}
			// The other realm has another secret for this client id.
			if status, answer := post("/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {theirs.refresh}, "client_secret": {theirs.secret}}); status != 400 || answer["error"] != "invalid_client" {
				t.Errorf("the secret of %s at %s: %d %v", from, at, status, answer)
			}
			// The other realm's code and tokens are invalid for this realm's client.
			code := s.code(from)
			if status, answer, _ := s.redeem(at, own, code); status != 400 || answer["error"] != "invalid_grant" {
				t.Errorf("a code of %s at %s: %d %v", from, at, status, answer)
			}
			if status, answer, _ := s.redeem(from, theirs, code); status != 200 {
				t.Errorf("a code of %s in its own realm, after it was tried at %s: %d %v", from, at, status, answer)
			}
			if status, answer := post("/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {theirs.refresh}, "client_secret": {own.secret}}); status != 400 || answer["error"] != "invalid_grant" {
				t.Errorf("a refresh token of %s at %s: %d %v", from, at, status, answer)
			}
			for _, token := range []string{theirs.access, theirs.refresh, theirs.service, theirs.jwt, theirs.idToken} {
				if status, answer := post("/introspect", url.Values{"token": {token}, "client_secret": {own.secret}}); status != 200 || answer["active"] != false || len(answer) != 1 {
					t.Errorf("a token of %s inspected at %s: %d %v", from, at, status, answer)
				}
				if status, _ := post("/revoke", url.Values{"token": {token}, "client_secret": {own.secret}}); status != 200 {
					t.Errorf("a token of %s revoked at %s: %d", from, at, status)
				}
			}
			for _, path := range []string{"/tokeninfo", "/userinfo", "/verify"} {
				for _, token := range []string{theirs.access, theirs.service, theirs.jwt} {
					if status, answer, _ := s.send(to+path, nil, token); status != 401 {
						t.Errorf("an access token of %s at %s%s: %d %v", from, at, path, status, answer)
					}
				}
			}
			// The client of the other realm's id_token has no redirect URI in this realm.
			hint := url.Values{"id_token_hint": {theirs.idToken}, "post_logout_redirect_uri": {"https://shop.example/bye"}, "state": {"s"}}
			if _, _, h := s.send(to+"/connect/endSession?"+hint.Encode(), nil, ""); strings.HasPrefix(h.Get("Location"), "https://shop.example") {
				t.Errorf("an id_token of %s leads from the logout of %s to %s", from, at, h.Get("Location"))
			}
			// The other realm's grants, by id, and its users do not exist in this realm.
			grants := s.administer("GET", ofRealms[from].admin+"/grants?subject=alice", "", 200)["grants"].([]any)
			id := grants[0].(map[string]any)["id"].(string)
			s.administer("GET", ofRealms[at].admin+"/grants/"+id, "", 404)
			s.administer("DELETE", ofRealms[at].admin+"/grants/"+id, "", 404)
		}
	}
	// None of the attempts has ended a token of the other realm.
	for name, i := range all {
		for _, token := range []string{i.access, i.service, i.jwt} {
			if status, answer, _ := s.send(ofRealms[name].endpoints+"/introspect", url.Values{"token": {token}, "client_id": {sharedID}, "client_secret": {i.secret}}, ""); status != 200 || answer["active"] != true {
				t.Errorf("a token of %s in its own realm: %d %v", name, status, answer)
			}
		}
	}
	// A cutoff of one realm ends no token of the others, and only its own realm lists it.
	for from := range all {
		tokens := map[string]string{}
		for name, i := range all {
			code := s.administer("POST", ofRealms[name].admin+"/codes", `{"client_id":"`+sharedID+`","subject":"cut off in `+from+`","redirect_uri":"`+callback+`"}`, http.StatusCreated)
			_, answer, _ := s.redeem(name, i, code["code"].(string))
			tokens[name], _ = answer["access_token"].(string)
		}
		s.administer("POST", ofRealms[from].admin+"/cutoffs", `{"subject":"cut off in `+from+`"}`, 201)
		for name, i := range all {
			_, answer, _ := s.send(ofRealms[name].endpoints+"/introspect", url.Values{"token": {tokens[name]}, "client_id": {sharedID}, "client_secret": {i.secret}}, "")
			if answer["active"] != (name != from) {
				t.Errorf("after a cutoff of %s, the access token of %s: %v", from, name, answer)
			}
		}
	}
	for name := range all {
		if of, cutoffs := s.revocations(name); of != ofRealms[name].endpoints || cutoffs != 1 {
			t.Errorf("%s lists %d cutoffs of %s, want its own", name, cutoffs, of)
		}
	}
	if list := s.administer("GET", "/admin/v1/realms", "", 200)["realms"].([]any); len(list) != 3 {
		t.Errorf("realms: %v", list)
	}
	s.administer("GET", "/admin/v1/realms/unknown/clients", "", 404)
}

// revocations returns the issuer and the number of cutoffs of a realm's list.
func (s *realms) revocations(realm string) (issuer string, cutoffs int) {
	s.t.Helper()
	resp, err := s.visit().Get(ofRealms[realm].endpoints + "/revocations")
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var list struct {
		Issuer  string           `json:"iss"`
		Cutoffs map[string]int64 `json:"cutoffs"`
	}
	signed, err := jose.ParseSignedCompact(string(text), []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err == nil {
		err = json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &list)
	}
	if err != nil {
		s.t.Fatalf("%s: %v: %d %s", realm, err, resp.StatusCode, text)
	}
	return list.Issuer, len(list.Cutoffs)
}

// The host, the path or the parameter realm selects the realm of a request, as in OpenAM.
func TestARequestChoosesItsRealm(t *testing.T) {
	s := newRealms(t)
	all := map[string]inhabitant{}
	for name := range ofRealms {
		all[name] = s.register(name)
	}
	const main, other = "https://" + defaultHost, "https://" + otherHost
	for _, c := range []struct {
		address string
		realms  []string // whose client it authenticates
	}{
		{main + "/oauth2/introspect", []string{"api"}},
		{main + "/oauth2/introspect?realm=api", []string{"api"}},
		{main + "/oauth2/introspect?realm=%2Fnear", []string{"near"}},
		{main + "/oauth2/introspect?realm=near", []string{"near"}},
		{main + "/oauth2/near/introspect", []string{"near"}},
		{main + "/oauth2/realms/root/realms/near/introspect", []string{"near"}},
		{main + ":443/near/oauth2/introspect", []string{"near"}},
		{main + "/near/oauth2/near/introspect", []string{"near"}},
		{other + "/oauth2/introspect", []string{"far"}},
		// A dot at the end makes a host name absolute (RFC 3986 section 3.2.2).
		{other + "./oauth2/introspect", []string{"far"}},
		{other + ".:443/oauth2/far/introspect", []string{"far"}},
		{main + "./near/oauth2/introspect", []string{"near"}},
		{other + "/oauth2/far/introspect?realm=far", []string{"far"}},
		// A realm at another host, an unknown realm, and two different ones select no
		// realm.
		{main + "/oauth2/introspect?realm=far", nil},
		{main + "/oauth2/introspect?realm=unknown", nil},
		{main + "/oauth2/introspect?realm=near&realm=api", nil},
		{main + "/oauth2/near/introspect?realm=api", nil},
		{main + "/near/oauth2/introspect?realm=api", nil},
		{main + "/oauth2/far/introspect", nil},
		{other + "/oauth2/near/introspect", nil},
		{other + "/near/oauth2/introspect", nil},
	} {
		for name, i := range all {
			status, answer, _ := s.send(c.address, url.Values{"token": {"x"}, "client_id": {sharedID}, "client_secret": {i.secret}}, "")
			if want := slices.Contains(c.realms, name); (status == 200) != want {
				t.Errorf("%s authenticates the client of %s: %t (%d %v)", c.address, name, !want, status, answer)
			}
		}
	}
	for issuer, locations := range map[string][]string{
		main + "/oauth2/api": {main + "/.well-known/oauth-authorization-server/oauth2/api", main + "/.well-known/openid-configuration", main + "/oauth2/.well-known/openid-configuration"},
		main + "/near/oauth2/near": {
			main + "/.well-known/oauth-authorization-server/near/oauth2/near", main + "/near/oauth2/near/.well-known/openid-configuration",
			main + "/near/oauth2/.well-known/openid-configuration", main + "/oauth2/.well-known/openid-configuration?realm=/near",
		},
		"https://other.example/oauth2/far": {other + "/.well-known/oauth-authorization-server/oauth2/far", other + "/.well-known/openid-configuration"},
	} {
		for _, location := range locations {
			if _, answer, _ := s.send(location, nil, ""); answer["issuer"] != issuer {
				t.Errorf("metadata at %s: issuer %v, want %s", location, answer["issuer"], issuer)
			}
		}
	}
	// Cookies of two realms at one host have different names.
	names := map[string]string{}
	for _, name := range []string{"api", "near"} {
		_, _, h := s.send(ofRealms[name].endpoints+"/authorize?"+url.Values{"response_type": {"code"}, "client_id": {sharedID}, "redirect_uri": {callback}, "scope": {"read"}, "state": {"s"}}.Encode(), nil, "")
		cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), "=")
		if names[cookie] != "" || cookie == "" {
			t.Errorf("the cookie of %s is %q, and that of %q too", name, cookie, names[cookie])
		}
		names[cookie] = name
	}
}

// A client cannot select the realm that verifies its token: behind verify, the path and
// query are those of the client's request, which a proxy forwards.
func TestOP20_AClientCannotSelectTheVerifyingRealm(t *testing.T) {
	s := newRealms(t)
	own, theirs := s.register("api"), s.register("near")
	const verify = "https://" + defaultHost + "/oauth2/verify"
	for _, c := range []struct {
		address string
		of      inhabitant
		status  int
	}{
		{verify + "/-/reports", own, 200},
		{verify + "/-/reports?realm=/near", own, 200},
		{verify + "/-/reports", theirs, 401},
		{verify + "/-/reports?realm=/near", theirs, 401},
		{verify + "?realm=/near", theirs, 200}, // the parameter of the proxy itself
		{verify + "/?realm=/near", theirs, 200},
		{"https://" + defaultHost + "/oauth2/near/verify/-/reports?realm=/api", theirs, 200},
		{"https://" + defaultHost + "/oauth2/near/verify/-/.well-known/reports", theirs, 200},
		{verify + "/-/.well-known/reports", theirs, 401},
	} {
		if status, answer, _ := s.send(c.address, nil, c.of.access); status != c.status {
			t.Errorf("a token of %s at %s: %d %v, want %d", c.of.realm, c.address, status, answer, c.status)
		}
	}
}

// No realm may be named like the first part of a path of the server.
func TestRealmsAreNotNamedLikePaths(t *testing.T) {
	s := newRealms(t)
	for _, rt := range s.n.realms[0].current.server.Routes() {
		for _, path := range rt.Paths {
			first, _, deeper := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			if deeper && !strings.HasPrefix(first, ".") && !slices.Contains(config.ReservedRealms, first) {
				t.Errorf("%s: a realm may be called %s", path, first)
			}
		}
	}
}

// A visit is a browser with cookies, which follows no redirect.
type visit struct {
	*http.Client
	s *realms
}

func (s *realms) visit() visit {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return visit{&http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			in := httptest.NewRequest(r.Method, r.URL.String(), r.Body)
			in.Header, in.TLS = r.Header.Clone(), &tls.ConnectionState{}
			in.Header.Set("Sec-Fetch-Site", "same-origin")
			w := httptest.NewRecorder()
			s.poll()
			s.n.public.ServeHTTP(w, in)
			resp := w.Result()
			resp.Request = r
			return resp, nil
		}),
	}, s}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var hiddenID = regexp.MustCompile(`name="id" value="([^"]*)"`)

// open requests a page, or sends a form to it, and follows redirects while they stay on
// the server. It returns the address of the last redirect, and the id of the interaction
// on the page.
func (v visit) open(address string, form url.Values) (status int, location, id string) {
	v.s.t.Helper()
	for range 10 {
		var resp *http.Response
		var err error
		if form != nil {
			resp, err = v.PostForm(address, form)
		} else {
			resp, err = v.Get(address)
		}
		if err != nil {
			v.s.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			v.s.t.Fatal(err)
		}
		to, err := resp.Location()
		if err != nil || to.Host == "shop.example" {
			if m := hiddenID.FindSubmatch(body); m != nil {
				id = string(m[1])
			}
			if to != nil {
				location = to.String()
			}
			return resp.StatusCode, location, id
		}
		address, form = to.String(), nil
	}
	v.s.t.Fatal("a loop of redirects")
	return 0, "", ""
}

// take gives the browser the cookies of another browser, renamed for another realm: all of
// them, or only the cookie that identifies the browser.
func (v visit) take(theirs visit, from, at string, all bool) {
	there, _ := url.Parse(ofRealms[from].endpoints)
	here, _ := url.Parse(ofRealms[at].endpoints)
	suffix := func(realm string) string { return map[bool]string{true: "", false: "_" + realm}[realm == "api"] }
	var list []*http.Cookie
	for _, c := range theirs.Jar.Cookies(there) {
		if !all && !strings.Contains(c.Name, "browser") {
			continue
		}
		list = append(list, &http.Cookie{Name: strings.TrimSuffix(c.Name, suffix(from)) + suffix(at), Value: c.Value, Path: "/", Secure: true})
	}
	if all && len(list) < 2 || len(list) == 0 {
		v.s.t.Fatalf("the browser of %s has the cookies %v", from, list)
	}
	v.Jar.SetCookies(here, list)
}

// A session, an interaction, a consent and a logout of one realm are not valid in another,
// whatever name and host their cookies get.
func TestOP20_NoLoginCrossesRealms(t *testing.T) {
	s := newRealms(t)
	ask := func(realm, more string) string {
		return ofRealms[realm].endpoints + "/authorize?" + url.Values{"response_type": {"code"}, "client_id": {sharedID}, "redirect_uri": {callback}, "scope": {"read"}, "state": {"s"}}.Encode() + more
	}
	interactions := func(realm string) string {
		return strings.TrimSuffix(ofRealms[realm].endpoints, "/"+realm) + "/interaction"
	}
	consented := map[string]bool{} // in which realms alice has consented
	// signIn signs alice in, who consents where she has not, and returns her browser.
	signIn := func(name string) visit {
		b := s.visit()
		_, _, id := b.open(ask(name, ""), nil)
		_, location, id := b.open(interactions(name), url.Values{"id": {id}, "step": {"login"}, "username": {"alice"}, "password": {"correct horse battery of " + name}})
		if (id == "") != consented[name] {
			t.Fatalf("%s: a page of consent: %t", name, consented[name])
		}
		if !consented[name] {
			consented[name] = true
			_, location, _ = b.open(interactions(name), url.Values{"id": {id}, "step": {"consent"}, "decision": {"allow"}, "remember": {"yes"}})
		}
		if !strings.Contains(location, "code=") {
			t.Fatalf("%s: the login leads to %q", name, location)
		}
		if _, location, _ := b.open(ask(name, "&prompt=none"), nil); !strings.Contains(location, "code=") {
			t.Fatalf("%s: the session is of no use in its own realm: %q", name, location)
		}
		return b
	}
	signedIn, pending := map[string]visit{}, map[string]visit{}
	ids := map[string]string{}
	for name := range ofRealms {
		s.register(name)
		s.administer("POST", ofRealms[name].admin+"/users", `{"username":"alice","password":"correct horse battery of `+name+`"}`, http.StatusCreated)
		signedIn[name] = signIn(name)
		pending[name] = s.visit()
		_, _, ids[name] = pending[name].open(ask(name, ""), nil)
	}
	for from := range ofRealms {
		for at := range ofRealms {
			if from == at {
				continue
			}
			// A user's password in one realm is wrong in another.
			b := s.visit()
			_, _, id := b.open(ask(at, ""), nil)
			if _, location, _ := b.open(interactions(at), url.Values{"id": {id}, "step": {"login"}, "username": {"alice"}, "password": {"correct horse battery of " + from}}); location != "" {
				t.Errorf("the password of %s at %s leads to %s", from, at, location)
			}
			if _, location, _ := b.open(ask(at, "&prompt=none"), nil); !strings.Contains(location, "error=login_required") {
				t.Errorf("the password of %s signs in at %s: %s", from, at, location)
			}
			// The session of the other realm, with the consent that is remembered there.
			b = s.visit()
			b.take(signedIn[from], from, at, true)
			if _, location, _ := b.open(ask(at, "&prompt=none"), nil); !strings.Contains(location, "error=login_required") {
				t.Errorf("the session of %s at %s: %s", from, at, location)
			}
			// A logout in this realm, with that session.
			b.open(ofRealms[at].endpoints+"/connect/endSession", nil)
			b.open(strings.TrimSuffix(ofRealms[at].endpoints, "/oauth2/"+at)+"/account/logout", url.Values{})
			// The interaction of the other realm, by its id and the cookie of its browser.
			b = s.visit()
			b.open(ask(from, ""), nil)
			b.take(signedIn[from], from, at, true)
			if status, location, _ := b.open(interactions(at), url.Values{"id": {ids[from]}, "step": {"login"}, "username": {"alice"}, "password": {"correct horse battery of " + at}}); status < 400 || location != "" {
				t.Errorf("the interaction of %s at %s: status %d, %s", from, at, status, location)
			}
		}
	}
	for name := range ofRealms {
		if _, location, _ := signedIn[name].open(ask(name, "&prompt=none"), nil); !strings.Contains(location, "code=") {
			t.Errorf("the session of %s has ended: %s", name, location)
		}
		// Sessions of a subject are listed and ended by realm.
		if n := len(s.administer("GET", ofRealms[name].admin+"/sessions?subject=alice", "", 200)["sessions"].([]any)); n != 1 {
			t.Errorf("alice has %d sessions in %s", n, name)
		}
	}
	for from := range ofRealms {
		for name := range ofRealms {
			signedIn[name] = signIn(name)
		}
		s.administer("POST", ofRealms[from].admin+"/sessions/end", `{"subject":"alice"}`, 200)
		consented[from] = false // it ends what alice has consented to, too
		for name := range ofRealms {
			want := "code="
			if name == from {
				want = "error=login_required"
			}
			if _, location, _ := signedIn[name].open(ask(name, "&prompt=none"), nil); !strings.Contains(location, want) {
				t.Errorf("after the sessions of %s have ended, %s: %s", from, name, location)
			}
		}
	}
}
