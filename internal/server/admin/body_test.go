package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// JSON decoders disagree about duplicate members (RFC 8259 section 4), and this one
// matches names case-insensitively: a gateway could have checked the other member.
func TestABodyWithAMemberTwiceIsRefused(t *testing.T) {
	a := newAdminAPI(t)
	const code = `{"client_id":"billing","redirect_uri":"https://client.example/cb","subject":"alice"`
	for name, c := range map[string]struct{ method, path, body, field string }{
		"the same":              {"POST", "/admin/v1/codes", code + `,"subject":"mallory"}`, "subject"},
		"another case":          {"POST", "/admin/v1/codes", code + `,"SUBJECT":"mallory"}`, "SUBJECT"},
		"another case before":   {"POST", "/admin/v1/codes", `{"Subject":"mallory",` + code[1:] + `}`, "subject"},
		"a letter that folds":   {"POST", "/admin/v1/codes", code + `,"\u017fubject":"mallory"}`, "ſubject"},
		"an escape":             {"POST", "/admin/v1/codes", code + `,"\u0073ubject":"mallory"}`, "subject"},
		"an unknown one":        {"POST", "/admin/v1/codes", code + `,"x":1,"X":2}`, "X"},
		"below":                 {"POST", "/admin/v1/users", `{"username":"bob","claims":{"email":"bob@example.com","Email":"eve@example.com"}}`, "Email"},
		"in a list":             {"POST", "/admin/v1/apis", `{"id":"https://a.example","name":"A","scopes":[{"name":"a"},{"name":"b","NAME":"c"}]}`, "NAME"},
		"behind an object":      {"POST", "/admin/v1/users", `{"username":"bob","claims":{"email":"bob@example.com"},"username":"eve"}`, "username"},
		"of a client":           {"PUT", "/admin/v1/clients/shop", `{"name":"Shop","name":"Shop","redirect_uris":["https://shop.example/cb"],"scope":"read"}`, "name"},
		"of a client, by case":  {"POST", "/admin/v1/clients", `{"name":"Shop","Name":"Bank","redirect_uris":["https://shop.example/cb"],"scope":"read"}`, "Name"},
		"of a password":         {"POST", "/admin/v1/users/bob/password", `{"password":"correct horse battery","PASSWORD":"x"}`, "PASSWORD"},
		"of a change of a user": {"PATCH", "/admin/v1/users/bob", `{"name":"Bob","name":"Eve"}`, "name"},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+adminToken)
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if text := w.Body.String(); w.Code != http.StatusUnprocessableEntity || !strings.Contains(text, `"field":"`+c.field+`"`) || !strings.Contains(text, "occurs twice") {
			t.Errorf("%s: %d %s", name, w.Code, text)
		}
	}
	// Equal names in different objects, or as values, are no duplicates.
	w, _ := a.do(t, "POST", "", `{"name":"name","redirect_uris":["https://shop.example/name"],"scope":"name"}`)
	r := httptest.NewRequest("POST", "/admin/v1/apis", strings.NewReader(`{"id":"https://a.example","name":"name","scopes":[{"name":"x","texts":{"en":"name"}},{"name":"y","texts":{"en":"name"}}]}`))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	other := httptest.NewRecorder()
	a.handler.ServeHTTP(other, r)
	if w.Code != http.StatusCreated || other.Code != http.StatusCreated {
		t.Errorf("%d, %d %s", w.Code, other.Code, other.Body)
	}
}

// A parameter that is ignored could have been a condition, such as dry_run.
func TestAnUnknownParameterIsRefusedEverywhere(t *testing.T) {
	a := newAdminAPI(t)
	for _, rt := range a.api.Routes() {
		path := strings.TrimPrefix(strings.NewReplacer("{", "", "}", "").Replace(rt.Path), "/admin/v1") + "?none=1"
		if p, _ := a.call(t, 422, rt.Method, path, "{}"); p["field"] != "none" {
			t.Errorf("%s %s: %v", rt.Method, path, p)
		}
	}
	for _, name := range []string{"subject", "client_id", "grant_id", "api", "trust"} {
		if p, _ := a.call(t, 422, "GET", "/events?"+name+"=%00", ""); p["field"] != name {
			t.Errorf("NUL in %s: %v", name, p)
		}
		if p, _ := a.call(t, 422, "GET", "/events?"+name+"=", ""); p["field"] != name || p["detail"] != "is empty" {
			t.Errorf("empty %s: %v", name, p)
		}
	}
}

// Input that a decoder would replace or ignore is refused, and the response says why.
func TestABodyThatCannotBeReadIsNamed(t *testing.T) {
	a := newAdminAPI(t)
	a.call(t, 201, "POST", "/users", `{"username":"bob","name":"Bob","claims":{"nickname":"b"}}`)
	for _, c := range []struct {
		status             int
		method, path, body string
		detail             string
	}{
		{400, "POST", "/users", "{\"username\":\"eve\",\"name\":\"J\xfcrgen\"}", "the body is not UTF-8 text (RFC 8259 section 8.1)"},
		{400, "PATCH", "/users/bob", "{\"name\":\"J\xfcrgen\"}", "the body is not UTF-8 text (RFC 8259 section 8.1)"},
		{400, "POST", "/users", "", "the body is missing: send a JSON object"},
		{400, "POST", "/users", `{"name":"` + strings.Repeat("x", 17<<10) + `"}`, "the body has more than 16384 bytes"},
		{400, "POST", "/restores", `{"backup_time":"yesterday"}`, "backup_time is not a time in RFC 3339, such as 2026-11-21T09:30:00Z"},
		{400, "POST", "/restores", `{"backup_time":7}`, "backup_time is not a time in RFC 3339, such as 2026-11-21T09:30:00Z"},
		{400, "POST", "/restores", `{"backup_time":"2026-11-21T09:30:00Z","x":1}`, `unknown field "x"`},
		{400, "POST", "/apis", `{"created_at":"yesterday"}`, "created_at is not a time in RFC 3339, such as 2026-11-21T09:30:00Z"},
		{400, "POST", "/users", `{"username":7}`, "username has a number where a string must be"},
		{400, "POST", "/users", `["bob"]`, "the body has an array where an object must be"},
		{400, "POST", "/users", `{"username":"eve","claims":true}`, "claims has true or false where an object must be"},
		{400, "POST", "/users", `{"username":"eve","roles":[]}`, `unknown field "roles"`},
		{400, "POST", "/users/bob/password", `{"end_grants":"yes"}`, "end_grants has a string where true or false must be"},
		{400, "POST", "/codes", `{"resource":[7.5]}`, "resource has a number where a string must be"},
		{400, "POST", "/apis", `{"scopes":[{"name":"a"},{"name":{}}]}`, "scopes.name has an object where a string must be"},
		{400, "POST", "/clients", `"shop"`, "the body has a string where an object must be"},
		{422, "POST", "/clients", `{"redirect_uris":"https://shop.example/cb"}`, "has a string where an array must be"},
		{422, "PUT", "/clients/shop", `{"profile":1}`, "has a number where a string must be"},
		{422, "PUT", "/clients/shop", `{"created_at":"yesterday"}`, "is not a time in RFC 3339, such as 2026-11-21T09:30:00Z"},
		{422, "PUT", "/clients/shop", `{"name":"Shop","scope":"read","grant_types":["client_credentials"],"auth_method":"private_key_jwt","jwks":"x"}`, "not a key set: an object with a list of keys (RFC 7517 section 5)"},
		{422, "PATCH", "/users/bob", `{"name":"Eve","claims":null}`, "is null: name each claim that is to be removed, and set it to null"},
	} {
		if p, _ := a.call(t, c.status, c.method, c.path, c.body); p["detail"] != c.detail || (c.status == 422) != (p["field"] != nil) {
			t.Errorf("%s %s: %v, want %q", c.method, c.path, p, c.detail)
		}
	}
	if u, _ := a.call(t, 200, "GET", "/users/bob", ""); u["name"] != "Bob" || u["claims"] == nil {
		t.Errorf("%v", u)
	}
}

// A script with an unset variable must not revoke more than intended, and must not create
// a token for the whole deployment.
func TestAnEmptyMemberDoesNotMeanAll(t *testing.T) {
	a := newAdminAPI(t)
	id := a.makeGrant(t, 1, "alice")
	for path, c := range map[string]struct{ body, field string }{
		"/cutoffs":      {`{"subject":"alice","client_id":%s}`, "client_id"},
		"/cutoffs?":     {`{"Subject":%s,"client_id":"billing"}`, "Subject"},
		"/sessions/end": {`{"subject":"alice","session":%s}`, "session"},
		"/admin-tokens": {`{"name":"desk","role":"admin","realm":%s}`, "realm"},
		"/operators":    {`{"name":"desk","role":"admin","realm":%s}`, "realm"},
	} {
		for _, empty := range []string{`""`, "null"} {
			if p, _ := a.call(t, 422, "POST", path, fmt.Sprintf(c.body, empty)); p["field"] != c.field {
				t.Errorf("%s: %v", path, p)
			}
		}
	}
	if g, _ := a.call(t, 200, "GET", "/grants/"+id, ""); g["state"] != "active" {
		t.Errorf("%v", g)
	}
	// Elsewhere, an empty member counts as omitted.
	a.call(t, 201, "POST", "/users", `{"username":"bob","subject":""}`)
	a.call(t, 201, "POST", "/admin-tokens", `{"name":"watch","role":"auditor","expires_in":""}`)
}

// An auditor with a slow connection must not block changes and searches.
func TestASlowBodyHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminAPI(t)
		var slow []*io.PipeWriter
		for range 8 {
			body, end := io.Pipe()
			slow = append(slow, end)
			r := httptest.NewRequest("POST", "/admin/v1/explain", body)
			r.Header.Set("Authorization", "Bearer "+adminToken)
			go a.handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		synctest.Wait()
		done := make(chan int, 1)
		go func() {
			w, _ := a.do(t, "POST", "", `{"name":"Shop","redirect_uris":["https://shop.example/cb"],"scope":"read"}`)
			done <- w.Code
		}()
		synctest.Wait()
		select {
		case code := <-done:
			if code != http.StatusCreated {
				t.Errorf("status %d", code)
			}
		default:
			t.Error("a change waits for senders of bodies")
		}
		for _, end := range slow {
			end.Close()
		}
		synctest.Wait()
	})
}

// An unknown member's name may be a secret in the wrong place: the response names it, the
// log does not.
func TestANameThatIsUnknownIsNotLogged(t *testing.T) {
	a := newAdminAPI(t)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/clients?" + adminToken, ""},
		{"POST", "/clients", `{"` + adminToken + `":1}`},
		{"POST", "/users", `{"` + adminToken + `":1,"` + adminToken + `":2}`},
	} {
		a.log.Reset()
		if p, _ := a.call(t, 422, c.method, c.path, c.body); p["field"] != adminToken {
			t.Errorf("%s %s: the answer names %v", c.method, c.path, p["field"])
		}
		if log := a.log.String(); !strings.Contains(log, "admin request refused") || strings.Contains(log, adminToken) {
			t.Errorf("%s %s: logged %s", c.method, c.path, log)
		}
	}
}
