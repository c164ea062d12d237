//go:build e2e

package resource

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// PHP and WSGI pass headers to a program as CGI variables (RFC 3875 section 4.1.18): in
// upper case, with "_" for "-". PHP also replaces ".". X-Auth-Subject, X-Auth_Subject and
// X.AUTH.SUBJECT then become the same variable.
const (
	phpProgram = `<?php header("Content-Type: application/json"); echo json_encode($_SERVER);
`
	wsgiProgram = `import json, sys
from wsgiref.simple_server import make_server
def program(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({k: v for k, v in environ.items() if isinstance(v, str)}).encode()]
make_server("127.0.0.1", int(sys.argv[1]), program).serve_forever()
`
)

// startCGI starts a program that returns its variables.
func startCGI(t *testing.T, language string) *api {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("php", "-n", "-S", address, write(t, filepath.Join(dir, "program.php"), phpProgram))
	if language == "WSGI" {
		cmd = exec.Command("python3", write(t, filepath.Join(dir, "program.py"), wsgiProgram), port)
	}
	binary.Serve(t, cmd, address)
	return &api{address: address}
}

// spellings lists names that become the same variable as name: with other characters in
// place of the hyphens, in upper and lower case.
func spellings(name string) (list []string) {
	words := strings.Split(name, "-")
	for i, first := range "-_." {
		for j, second := range "-_." {
			if i == 0 && j == 0 {
				continue
			}
			s := words[0] + string(first) + words[1] + string(second) + words[2]
			switch (i + j) % 3 {
			case 1:
				s = strings.ToUpper(s)
			case 2:
				s = strings.ToLower(s)
			}
			list = append(list, s)
		}
	}
	return list
}

const forged = "forged" // the value of each header that the client forges

// TestNoSpellingOfAVerifiedHeaderPassesAProxy sends each proxy the headers that it sets
// or requires, in every other spelling. The program behind it must read the proxy's
// values, or not receive the request.
func TestNoSpellingOfAVerifiedHeaderPassesAProxy(t *testing.T) {
	t.Parallel()
	w := open(t)
	token := w.pair(t, w.jwt, "read").AccessToken
	for _, language := range []string{"PHP", "WSGI"} {
		behind := startCGI(t, language)
		for _, f := range []*front{
			startNginx(t, w, w.host(), behind), startCaddy(t, w, w.host(), behind), startHAProxy(t, w, allSlots, behind), w.playTraefik(t, behind), w.playEnvoy(t, behind),
		} {
			t.Run(f.name+" and "+language, func(t *testing.T) {
				plain := f.ask(t, "GET", "/", "", bearer(token)...)
				if f.checkVariables(t, "no forged header", plain, w.jwt); plain.status != http.StatusOK {
					t.Fatalf("status %d", plain.status)
				}
				for _, name := range []string{"X-Auth-Subject", "X-Auth-Client", "X-Auth-Scope", "X-Auth-Expires", "X-Auth-Actor", "X-Required-Scope", "X-Required-Audience"} {
					for _, s := range append(spellings(name), name) {
						f.checkVariables(t, s, f.ask(t, "GET", "/", "", append(bearer(token), s, forged)...), w.jwt)
					}
				}
				o := f.ask(t, "GET", "/", "", "X-Auth_Subject", forged)
				if o.status != http.StatusUnauthorized && o.status != http.StatusBadRequest || strings.Contains(o.body, "REQUEST_METHOD") {
					t.Errorf("without a token: status %d", o.status)
				}
			})
		}
	}
}

// checkVariables checks the variables of a request that reached the program.
func (f *front) checkVariables(t *testing.T, sent string, o outcome, c client) {
	t.Helper()
	if o.status != http.StatusOK {
		if o.status != http.StatusBadRequest || strings.Contains(o.body, "REQUEST_METHOD") {
			t.Errorf("%s: status %d %s", sent, o.status, o.body)
		}
		return
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(o.body), &got); err != nil {
		t.Fatalf("%s: %v of %s", sent, err, o.body)
	}
	for name, want := range map[string]string{"HTTP_X_AUTH_SUBJECT": "alice", "HTTP_X_AUTH_CLIENT": c.ID, "HTTP_X_AUTH_SCOPE": "read"} {
		if got[name] != want {
			t.Errorf("%s: the program reads %s as %q", sent, name, got[name])
		}
	}
	for name, value := range got {
		if strings.Contains(fmt.Sprint(value), forged) || strings.HasPrefix(name, "HTTP_X_REQUIRED") && value != "" {
			t.Errorf("%s: the program reads %s as %q", sent, name, value)
		}
	}
}

// A script is the documented behaviour of a proxy.
type script struct {
	// change modifies the client's request first, and reports whether it has already
	// responded.
	change func(http.ResponseWriter, *http.Request) bool
	// ask returns the request to Mintage; with an empty method none is sent.
	ask func(*http.Request) (method, address string, header http.Header)
	// refuse changes the header of a refusal.
	refuse func(status int, header http.Header)
	// passedOn are headers to copy from Mintage's response, hidden those to remove.
	passedOn, hidden []string
}

// play starts a proxy that behaves as the script says.
func (w *world) play(t *testing.T, name string, behind *api, p script) *front {
	t.Helper()
	next := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind.address})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if p.change(rw, r) {
			return
		}
		if method, address, header := p.ask(r); method != "" {
			resp, body := w.replay(t, method, address, "", header)
			if resp.StatusCode != http.StatusOK {
				rw.Header()["Www-Authenticate"] = resp.Header["Www-Authenticate"]
				p.refuse(resp.StatusCode, rw.Header())
				rw.WriteHeader(resp.StatusCode)
				rw.Write([]byte(body))
				return
			}
			for _, name := range p.passedOn {
				r.Header[http.CanonicalHeaderKey(name)] = resp.Header.Values(name)
			}
		}
		for _, name := range p.hidden {
			r.Header.Del(name)
		}
		next.ServeHTTP(rw, r)
	}))
	s.TLS = w.ca.config(t, "api.example.com")
	s.StartTLS()
	t.Cleanup(s.Close)
	return newFront(w, name, s.Listener.Addr().String(), behind)
}

// unusual matches names with a character that many programs treat like "-".
var unusual = regexp.MustCompile(`[^A-Za-z0-9-]`)

// playTraefik behaves as Traefik documents the options on its page: the entry point's
// aliasHeadersStrategy, customRequestHeaders with an empty value, and ForwardAuth.
func (w *world) playTraefik(t *testing.T, behind *api) *front {
	t.Helper()
	static, page := readTraefik(t)
	reading := page.HTTP.Routers["reading"]
	if strategy := static.EntryPoints[reading.EntryPoints[0]].HTTP.Alias; len(reading.EntryPoints) != 1 || strategy != "delete" {
		t.Errorf("the page's routers are reached by the entry points %q, whose aliasHeadersStrategy is %q", reading.EntryPoints, strategy)
	}
	if !slices.Equal(reading.Middlewares, []string{"drop", "may-read", "hide"}) {
		t.Fatalf("the page's middlewares are %q", reading.Middlewares)
	}
	open := page.HTTP.Routers["metadata"]
	_, path, _ := strings.Cut(open.Rule, " && Path(`")
	path, isPath := strings.CutSuffix(path, "`)")
	isOpen := isPath && !slices.ContainsFunc(open.Middlewares, func(name string) bool { return page.HTTP.Middlewares[name].ForwardAuth != nil })
	for name, router := range page.HTTP.Routers {
		if name != "metadata" && router.Priority >= open.Priority {
			t.Errorf("the page's router %s has priority over that of the metadata", name)
		}
	}
	auth := page.HTTP.Middlewares["may-read"].ForwardAuth
	var hidden []string
	for name := range page.HTTP.Middlewares["hide"].Headers.Request {
		hidden = append(hidden, name)
	}
	return w.play(t, "Traefik, replayed", behind, script{change: func(_ http.ResponseWriter, r *http.Request) bool {
		for name := range r.Header {
			if unusual.MatchString(name) && static.EntryPoints[reading.EntryPoints[0]].HTTP.Alias == "delete" {
				delete(r.Header, name)
			}
		}
		for name := range page.HTTP.Middlewares["drop"].Headers.Request {
			r.Header.Del(name)
		}
		return false
	}, ask: func(r *http.Request) (string, string, http.Header) {
		if isOpen && r.URL.Path == path {
			return "", "", nil
		}
		return "GET", auth.Address, only(r.Header, func(name string) bool { return slices.Contains(auth.AuthRequestHeaders, name) })
	}, refuse: func(int, http.Header) {}, passedOn: auth.AuthResponseHeaders, hidden: hidden})
}

// playEnvoy behaves as Envoy documents the options on its page:
// headers_with_underscores_action, early_header_mutation_extensions, ext_authz with
// allowed_headers, request_headers_to_remove, direct_response, and local_reply_config,
// which applies after ext_authz has set the headers of its refusal.
func (w *world) playEnvoy(t *testing.T, behind *api) *front {
	t.Helper()
	page, host := readEnvoy(t)
	config := page.Filters[0].Config
	var allowed []*regexp.Regexp // RE2, matched against the whole name
	for _, p := range config.Allowed.Patterns {
		allowed = append(allowed, regexp.MustCompile("^(?:"+p.Safe.Regex+")$"))
	}
	var passedOn []string
	for _, p := range config.HTTPService.Response.Upstream.Patterns {
		passedOn = append(passedOn, p.Exact)
	}
	return w.play(t, "Envoy, replayed", behind, script{change: func(rw http.ResponseWriter, r *http.Request) bool {
		for name := range r.Header {
			if strings.Contains(name, "_") && page.Options.Underscores == "REJECT_REQUEST" {
				rw.WriteHeader(http.StatusBadRequest)
				return true
			}
		}
		for _, e := range page.Early {
			for _, m := range e.Config.Mutations {
				r.Header.Del(m.Remove)
			}
		}
		for _, route := range host.Hosts[0].Routes {
			if route.Match.Path != r.URL.Path || route.Direct == nil || !route.Filters["envoy.filters.http.ext_authz"].Disabled {
				continue
			}
			addHeaders(rw.Header(), route.Add)
			rw.WriteHeader(route.Direct.Status)
			rw.Write([]byte(route.Direct.Body.Inline))
			return true
		}
		return false
	}, ask: func(r *http.Request) (string, string, http.Header) {
		header := only(r.Header, func(name string) bool {
			return name == "Authorization" || slices.ContainsFunc(allowed, func(p *regexp.Regexp) bool { return p.MatchString(strings.ToLower(name)) })
		})
		for _, h := range config.HTTPService.Request.Add {
			header.Set(h.Key, h.Value)
		}
		return r.Method, config.HTTPService.PathPrefix + r.URL.RequestURI(), header
	}, refuse: func(status int, header http.Header) {
		for _, m := range page.LocalReply.Mappers {
			if c := m.Filter.StatusCode.Comparison; c.Op == "EQ" && c.Value.Default == status {
				addHeaders(header, m.Add)
				return // Envoy applies the first mapper that matches
			}
		}
	}, passedOn: passedOn, hidden: host.Hosts[0].Remove})
}

// addHeaders adds headers as Envoy does by default, without append_action.
func addHeaders(h http.Header, list []envoyHeader) {
	for _, add := range list {
		h.Add(add.Header.Key, add.Header.Value)
	}
}

func only(h http.Header, keep func(name string) bool) http.Header {
	kept := http.Header{}
	for name, values := range h {
		if keep(name) {
			kept[name] = values
		}
	}
	return kept
}
