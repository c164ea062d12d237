package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
)

// An object is the body of an answer.
type object map[string]any

func (o object) list(name string) (list []object) {
	items, _ := o[name].([]any)
	for _, item := range items {
		list = append(list, item.(map[string]any))
	}
	return list
}

// call sends a request below /admin/v1, and expects a status.
func (a *adminAPI) call(t *testing.T, status int, method, path, body string, header ...string) (object, http.Header) {
	t.Helper()
	r := httptest.NewRequest(method, "/admin/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != status || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %s: %d %v %s, want %d", method, path, w.Code, w.Header(), w.Body, status)
	}
	var answer object
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v in %q", method, path, err, w.Body)
		}
	}
	return answer, w.Header()
}

// refused expects a problem of a type.
func (a *adminAPI) refused(t *testing.T, status int, kind, method, path, body string, header ...string) {
	t.Helper()
	if p, h := a.call(t, status, method, path, body, header...); p["type"] != "urn:mintage:problem:"+kind || h.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s: %v, want the type %s", method, path, p, kind)
	}
}

// use authenticates a client with a secret, as a request for tokens does.
func (a *adminAPI) use(t *testing.T, auth *client.Authenticator, id, secret string) {
	t.Helper()
	if _, err := auth.Authenticate(t.Context(), oauth.Credentials{ClientID: id, Secret: oauth.Secret(secret), Method: oauth.AuthPost}, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
}

func (a *adminAPI) authenticator() *client.Authenticator {
	return &client.Authenticator{Realm: "/api", Store: a.faulty, Directory: a.iss.Directory, Now: a.iss.Now, Log: a.iss.Log, Slow: client.NewSlowPool()}
}

// A tool such as Terraform applies what its file says again and again.
func TestTheSameClientAppliedTwiceOverHTTPIsWrittenOnce(t *testing.T) {
	a := newAdminAPI(t)
	_, h := a.call(t, 201, "PUT", "/clients/invoices", invoices)
	etag := h.Get("ETag")
	apply := func(when string) {
		t.Helper()
		before, err := a.faulty.Changes(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, h := a.call(t, 200, "PUT", "/clients/invoices", invoices, "If-Match", etag)
		after, _ := a.faulty.Changes(t.Context(), 0)
		if h.Get("ETag") != etag || after.Version != before.Version {
			t.Errorf("%s: ETag %s, version %d after %d", when, h.Get("ETag"), after.Version, before.Version)
		}
	}
	apply("at once")
	written, _ := a.faulty.Client(t.Context(), "invoices")
	a.use(t, a.authenticator(), "invoices", "an imported secret")
	used, err := a.faulty.Client(t.Context(), "invoices")
	if err != nil || used.Version == written.Version || used.Secrets[0].Slow != "" {
		t.Fatalf("the use of the secret wrote nothing: %+v, %v", used, err)
	}
	apply("after the use of the secret")
}

func TestAnyClientIDCanBeAddressed(t *testing.T) {
	a := newAdminAPI(t)
	for _, id := range []string{"a/b", "..", "100%", "a?b#c", "https://shop.example/id", "a+b;c=d"} {
		path := "/clients/" + url.PathEscape(id)
		_, h := a.call(t, 201, "PUT", path, invoices)
		if want := "/admin/v1" + path; h.Get("Location") != want {
			t.Errorf("%s is at %s", id, h.Get("Location"))
		}
		if c, _ := a.call(t, 200, "GET", path, ""); c["id"] != id {
			t.Errorf("%s: %v", id, c)
		}
		a.call(t, 204, "DELETE", path, "")
	}
	// No id has these bytes, and no store is asked for them.
	for _, id := range []string{"%00", "%ff", "%0a"} {
		a.refused(t, 404, "not-found", "GET", "/clients/"+id, "")
	}
}
