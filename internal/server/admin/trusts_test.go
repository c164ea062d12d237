package admin_test

import (
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/store/storetest"
)

// A trust is created, read, changed and removed like other resources.
func TestTrusts(t *testing.T) {
	a := newAdminAPI(t)
	a.call(t, 201, "PUT", "/apis/"+url.PathEscape("https://orders.example"), `{"name":"Orders","scopes":[{"name":"orders:read"}]}`)
	trust := func(issuer, client, more string) string {
		return `{"issuer":"` + issuer + `","kind":"workload","client_id":"` + client + `","subjects":["build"],"apis":["https://orders.example orders:read"]` + more + `}`
	}
	for _, id := range []string{"build", "deploy"} {
		a.call(t, 201, "PUT", "/clients/"+id, `{"name":"Build","grant_types":["client_credentials"],"apis":["https://orders.example orders:read"]}`)
	}
	made, h := a.call(t, 201, "POST", "/trusts", trust("https://ci.example", "build", ""))
	id, etag := made["id"].(string), h.Get("ETag")
	if h.Get("Location") != "/admin/v1/trusts/"+url.PathEscape(id) || etag == "" {
		t.Errorf("%v %v", made, h)
	}
	p, _ := a.call(t, 409, "POST", "/trusts", trust("https://ci.example", "build", ""))
	if p["type"] != "urn:mintage:problem:taken" || p["title"] != "the trust is taken" {
		t.Errorf("%v", p)
	}
	a.call(t, 201, "POST", "/trusts", trust("https://ci.example", "deploy", ""))
	first, _ := a.call(t, 200, "GET", "/trusts?limit=1", "")
	next, _ := first["next"].(string)
	second, _ := a.call(t, 200, "GET", "/trusts?limit=1&after="+url.QueryEscape(next), "")
	if one, two := first.list("trusts"), second.list("trusts"); len(one) != 1 || len(two) != 1 || one[0]["id"] == two[0]["id"] || second["next"] != nil {
		t.Errorf("%v and %v", first, second)
	}
	path := "/trusts/" + url.PathEscape(id)
	if dry, _ := a.call(t, 200, "PUT", path+"?dry_run=true", trust("https://ci.example", "build", `,"disabled":true`)); dry["disabled"] != true {
		t.Errorf("%v", dry)
	}
	if shown, h := a.call(t, 200, "GET", path, ""); shown["disabled"] != false || h.Get("ETag") != etag {
		t.Errorf("after a dry run: %v %v", shown, h)
	}
	changed, h := a.call(t, 200, "PUT", path, trust("https://ci.example", "build", `,"disabled":true`), "If-Match", etag)
	if changed["disabled"] != true || h.Get("ETag") == etag {
		t.Errorf("%v %v", changed, h)
	}
	a.refused(t, 412, "changed", "PUT", path, trust("https://ci.example", "build", ""), "If-Match", etag)
	a.refused(t, 412, "changed", "DELETE", path, "", "If-Match", etag)
	a.call(t, 204, "DELETE", path, "", "If-Match", h.Get("ETag"))
	for _, method := range []string{"GET", "DELETE"} {
		a.refused(t, 404, "not-found", method, path, "")
	}
	events, _ := a.call(t, 200, "GET", "/events?trust="+url.QueryEscape(id), "")
	if len(events.list("events")) != 3 {
		t.Errorf("%v", events)
	}
	a.refused(t, 409, "no-server", "POST", "/assertions", `{"assertion":"x"}`)
	a.api.Assertions = a.authenticator()
	if judged, _ := a.call(t, 200, "POST", "/assertions", `{"assertion":"x"}`); judged["accepted"] != false || len(judged.list("findings")) == 0 || judged["scope"] != nil {
		t.Errorf("no assertion: %v", judged)
	}
}

// Two simultaneous changes are a conflict, and no failed precondition of the caller.
func TestAChangeThatAnotherOvertook(t *testing.T) {
	a := newAdminAPI(t)
	_, h := a.call(t, 201, "POST", "/users", `{"username":"alice"}`)
	for status, header := range map[int][]string{409: nil, 412: {"If-Match", h.Get("ETag")}} {
		a.faulty.Inject(storetest.CommitDocument, 99, storetest.Conflicts)
		a.refused(t, status, "changed", "POST", "/users/alice/disable", "", header...)
		a.faulty.Heal()
	}
}
