package node

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
)

const consoleHost = "console.example:8445"

// byHandoff makes operators sign in at a handoff login page.
func byHandoff(c *config.Config) {
	c.Login.Mode, c.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
	c.Console = config.Console{Listen: "127.0.0.1:0", URL: "https://" + consoleHost, SecondFactor: config.SecondFactor{ACR: []string{"gold"}}, Operators: []string{"admin groups=a", "auditor@near groups=b"}}
}

// consoleVisit returns a browser that also reaches the console.
func (s *realms) consoleVisit() visit {
	v := s.visit()
	public := v.Transport
	v.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != consoleHost {
			return public.RoundTrip(r)
		}
		in := httptest.NewRequest(r.Method, r.URL.String(), r.Body)
		in.Header, in.TLS = r.Header.Clone(), &tls.ConnectionState{}
		w := httptest.NewRecorder()
		s.n.console.ServeHTTP(w, in)
		resp := w.Result()
		resp.Request = r
		return resp, nil
	})
	return v
}

// get requests a page, and returns its status and the address of a redirect.
func (v visit) get(address string) (status int, to string) {
	v.s.t.Helper()
	resp, err := v.Get(address)
	if err != nil {
		v.s.t.Fatal(err)
	}
	resp.Body.Close()
	if _, to, _ = strings.Cut(resp.Header.Get("Refresh"), "0; url="); to != "" {
		return resp.StatusCode, "https://" + consoleHost + to
	}
	return resp.StatusCode, resp.Header.Get("Location")
}

// challenge begins a sign-in to the console, and returns the challenge that the login page
// receives.
func (v visit) challenge() string {
	v.s.t.Helper()
	_, to := v.get("https://" + consoleHost + "/sign-in/elsewhere")
	_, to = v.get(to)
	_, to = v.get(to)
	u, err := url.Parse(to)
	if err != nil || u.Host != "login.example" {
		v.s.t.Fatalf("to sign in, the console leads to %q", to)
	}
	return u.Query().Get("challenge")
}

// An operator signs in to the console at a handoff login page, which receives "Console" as
// the client. The login begins no session on the server, and an existing session is not
// enough.
func TestOperatorsSignInByHandoff(t *testing.T) {
	s := newRealms(t, byHandoff)
	b := s.consoleVisit()
	challenge := b.challenge()
	asked := s.administer("GET", "/admin/v1/logins/"+challenge, "", http.StatusOK)
	if asked["client_name"] != "Console" || asked["client_id"] != nil || asked["fresh"] != true || len(asked["acr_values"].([]any)) != 1 {
		t.Errorf("the login page receives %v", asked)
	}
	const accepted = `{"subject":"bob","acr":"gold","claims":{"groups":["a"]}}`
	// A token for one realm may not accept a login of an operator of the deployment.
	portal := httptest.NewRequest("POST", "/admin/v1/logins/"+challenge+"/accept", strings.NewReader(accepted))
	portal.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.n.admin.ServeHTTP(w, portal.WithContext(serveradmin.WithActor(t.Context(), admin.Actor{Via: admin.ViaToken, Name: "portal", Role: admin.RoleAdmin, Realm: "/api"})))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "urn:mintage:problem:realm") {
		t.Errorf("a token of one realm: %d %s", w.Code, w.Body)
	}
	answer := s.administer("POST", "/admin/v1/logins/"+challenge+"/accept", accepted, http.StatusOK)
	back := answer["continue_url"].(string)
	if status, to := s.consoleVisit().get(back); status < 400 || to != "" {
		t.Errorf("another browser: %d to %q", status, to)
	}
	status, to := b.get(back)
	if status != http.StatusSeeOther || !strings.HasPrefix(to, "https://"+consoleHost+"/signed-in?ticket=") {
		t.Fatalf("after the login: %d to %q", status, to)
	}
	if status, _ := b.get(back); status != http.StatusConflict {
		t.Errorf("the login again: %d", status)
	}
	s.administer("GET", "/admin/v1/logins/"+challenge, "", http.StatusConflict)
	_, to = b.get(to)
	if status, to := b.get(to); status != http.StatusSeeOther || to != "/sign-in?in" {
		t.Fatalf("the console: %d to %q", status, to)
	}
	if status, to := b.get("https://" + consoleHost + "/sign-in?in"); status != http.StatusSeeOther || to != "/" {
		t.Fatalf("the console, with the cookie: %d to %q", status, to)
	}
	if status, _ := b.get("https://" + consoleHost + "/operators"); status != http.StatusOK {
		t.Errorf("the page of operators: %d", status)
	}
	// The account pages have no session.
	for _, c := range b.Jar.Cookies(&url.URL{Scheme: "https", Host: defaultHost, Path: "/"}) {
		if strings.Contains(c.Name, "session") {
			t.Errorf("the login has given the cookie %s", c.Name)
		}
	}

	// A user with a session of the account pages must still sign in for the console.
	user := s.consoleVisit()
	_, to = user.get("https://" + defaultHost + "/account/connections")
	_, to = user.get(to)
	u, _ := url.Parse(to)
	answer = s.administer("POST", "/admin/v1/logins/"+u.Query().Get("challenge")+"/accept", accepted, http.StatusOK)
	user.open(answer["continue_url"].(string), nil)
	if status, _ := user.get("https://" + defaultHost + "/account/connections"); status != http.StatusOK {
		t.Fatalf("the account pages: %d", status)
	}
	challenge = user.challenge()

	// The console refuses a rejected login, and a login that began under another
	// configuration.
	answer = s.administer("POST", "/admin/v1/logins/"+challenge+"/reject", `{}`, http.StatusOK)
	if status, to := user.get(answer["continue_url"].(string)); status != http.StatusForbidden || to != "" {
		t.Errorf("rejected: %d to %q", status, to)
	}
	challenge = user.challenge()
	answer = s.administer("POST", "/admin/v1/logins/"+challenge+"/accept", accepted, http.StatusOK)
	cfg := s.n.cfg
	cfg.Console.SecondFactor, cfg.Console.Operators = config.SecondFactor{}, nil
	list, err := s.n.answer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.n.use(cfg, list)
	if status, to := user.get(answer["continue_url"].(string)); status < 400 || to != "" {
		t.Errorf("after the reload without handoff: %d to %q", status, to)
	}
	for _, address := range []string{"https://" + defaultHost + "/account/console?code_challenge=" + strings.Repeat("A", 43), "https://" + consoleHost + "/sign-in/elsewhere"} {
		if status, _ := user.get(address); status != http.StatusNotFound {
			t.Errorf("%s: %d", address, status)
		}
	}
	if status, to := b.get("https://" + consoleHost + "/operators"); status != http.StatusSeeOther || to != "/sign-in" {
		t.Errorf("a session from before the reload: %d to %q", status, to)
	}
}

// Tickets and challenges of the console are accepted nowhere else, and the console accepts
// no others.
func TestTicketsOfTheConsoleAreForTheConsoleOnly(t *testing.T) {
	s := newRealms(t, byHandoff)
	shop := s.register("api")
	b := s.consoleVisit()
	answer := s.administer("POST", "/admin/v1/logins/"+b.challenge()+"/accept", `{"subject":"bob","acr":"gold","claims":{"groups":["a"]}}`, http.StatusOK)
	_, to := b.get(answer["continue_url"].(string))
	u, err := url.Parse(to)
	ticket := u.Query().Get("ticket")
	if err != nil || ticket == "" {
		t.Fatalf("to %q", to)
	}
	endpoints := ofRealms["api"].endpoints
	if status, answer, _ := s.redeem("api", shop, ticket); status != 400 || answer["error"] != "invalid_grant" {
		t.Errorf("a ticket as a code: %d %v", status, answer)
	}
	if _, answer, _ := s.send(endpoints+"/introspect", url.Values{"token": {ticket}, "client_id": {sharedID}, "client_secret": {shop.secret}}, ""); answer["active"] != false {
		t.Errorf("a ticket as a token: %v", answer)
	}
	if status, _, _ := s.send(endpoints+"/userinfo", nil, ticket); status != http.StatusUnauthorized {
		t.Errorf("a ticket as an access token: %d", status)
	}
	_, code := b.get("https://" + consoleHost + "/signed-in?ticket=" + url.QueryEscape(s.code("api")))
	if status, _ := b.get(code); status != http.StatusGone {
		t.Errorf("the code of a client at the console: %d", status)
	}
	// The console is not a client: no endpoint accepts one of its names.
	for _, id := range []string{"console", "Console", "mintage-console"} {
		for _, path := range []string{"/access_token", "/par", "/device_authorization", "/introspect"} {
			if status, answer, _ := s.send(endpoints+path, url.Values{"grant_type": {"authorization_code"}, "code": {ticket}, "client_id": {id}, "token": {ticket}, "redirect_uri": {"https://" + consoleHost + "/signed-in"}}, ""); answer["error"] != "invalid_client" {
				t.Errorf("%s as %q: %d %v", path, id, status, answer)
			}
		}
	}
	// Other realms have no sign-in for operators, and a challenge is required.
	for address, want := range map[string]int{
		"https://" + defaultHost + "/near/account/console?code_challenge=" + strings.Repeat("A", 43): http.StatusNotFound,
		"https://" + otherHost + "/account/console?code_challenge=" + strings.Repeat("A", 43):        http.StatusNotFound,
		"https://" + defaultHost + "/account/console":                                                http.StatusBadRequest,
		"https://" + defaultHost + "/account/console?code_challenge=" + strings.Repeat("A", 42):      http.StatusBadRequest,
	} {
		if status, to := s.visit().get(address); status != want {
			t.Errorf("%s: %d to %q, want %d", address, status, to, want)
		}
	}
	// The ticket is still valid for its browser.
	_, to = b.get(to)
	if status, _ := b.get(to); status != http.StatusSeeOther {
		t.Errorf("the ticket at the console: %d", status)
	}
}
