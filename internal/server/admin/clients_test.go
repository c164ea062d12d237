package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// do sends a request about clients.
func (a *adminAPI) do(t *testing.T, method, path, body string, header ...string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, "/admin/v1/clients"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	var answer map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v in %q", method, path, err, w.Body)
		}
	}
	return w, answer
}

const invoices = `{"name":"Invoices","redirect_uris":["https://invoices.example/cb"],"scope":"read","client_secret":"an imported secret"}`

func TestAClientIsAppliedReadAndDeleted(t *testing.T) {
	a := newAdminAPI(t)
	w, made := a.do(t, http.MethodPut, "/invoices", invoices)
	etag := w.Header().Get("ETag")
	if w.Code != http.StatusCreated || made["client_id"] != "invoices" || made["client_secret"] != nil || len(etag) < 10 || w.Header().Get("Location") != "/admin/v1/clients/invoices" {
		t.Fatalf("%d %v %v", w.Code, w.Header(), made)
	}
	// The node knows the client at once.
	view, err := a.iss.Directory.View()
	if err != nil {
		t.Fatal(err)
	}
	if _, known := view.Client("/api", "invoices"); !known {
		t.Error("the directory was not polled")
	}
	w, again := a.do(t, http.MethodPut, "/invoices", invoices, "If-Match", etag)
	if w.Code != http.StatusOK || w.Header().Get("ETag") != etag || again["updated_at"] != made["client"].(map[string]any)["updated_at"] {
		t.Errorf("the same again: %d %v", w.Code, again)
	}
	w, shown := a.do(t, http.MethodGet, "/invoices", "")
	if w.Code != http.StatusOK || w.Header().Get("ETag") != etag || shown["name"] != "Invoices" || strings.Contains(w.Body.String(), "imported secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w, _ := a.do(t, http.MethodPut, "/invoices", strings.Replace(invoices, "Invoices", "Bills", 1), "If-Match", etag); w.Code != http.StatusOK || w.Header().Get("ETag") == etag {
		t.Errorf("changed: %d %v", w.Code, w.Header())
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		if w, p := a.do(t, method, "/invoices", invoices, "If-Match", etag); w.Code != http.StatusPreconditionFailed || p["title"] != "the client has changed" {
			t.Errorf("%s with an old ETag: %d %v", method, w.Code, p)
		}
	}
	for _, empty := range []string{"", `""`, " "} { // from a script whose variable is unset
		if w, p := a.do(t, http.MethodDelete, "/invoices", "", "If-Match", empty); w.Code != http.StatusUnprocessableEntity || p["field"] != "If-Match" {
			t.Errorf("If-Match %q: %d %v", empty, w.Code, p)
		}
	}
	for path, body := range map[string]string{"/clients": `{"name":"Other"}`, "/clients/invoices/secrets": "", "/cutoffs": `{"subject":"alice"}`, "/keys/rotate": ""} {
		if p, _ := a.call(t, http.StatusUnprocessableEntity, http.MethodPost, path, body, "If-Match", etag); p["field"] != "If-Match" {
			t.Errorf("If-Match, at a change of something without an ETag: %s: %v", path, p)
		}
	}
	if w, _ := a.do(t, http.MethodDelete, "/invoices", "", "If-Match", "*"); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Errorf("deleted: %d %s", w.Code, w.Body)
	}
	if w, _ := a.do(t, http.MethodGet, "/invoices", ""); w.Code != http.StatusNotFound {
		t.Errorf("a deleted client: %d", w.Code)
	}
	if w, _ := a.do(t, http.MethodPut, "/invoices", invoices); w.Code != http.StatusConflict {
		t.Errorf("its id again: %d", w.Code)
	}
}

// A script whose variable is unset sends such a path. Without an id, each PUT would register
// another client.
func TestAPutWithoutAnIDRegistersNothing(t *testing.T) {
	a := newAdminAPI(t)
	if p, _ := a.call(t, http.StatusUnprocessableEntity, http.MethodPut, "/clients/", invoices); p["field"] != "id" {
		t.Errorf("%v", p)
	}
	list, _ := a.call(t, http.StatusOK, http.MethodGet, "/clients?match=Invoices", "")
	if n := len(list.list("clients")); n != 0 {
		t.Errorf("%d clients were registered", n)
	}
}

// A dry run reports errors, and returns the result that the change would have.
func TestADryRunChangesNothing(t *testing.T) {
	a := newAdminAPI(t)
	const client, api, apis = "/clients/invoices", "/apis/https%3A%2F%2Forders.example", `{"name":"Orders","scopes":[]}`
	made, _ := a.call(t, 201, "PUT", client+"?dry_run=true", strings.Replace(invoices, `,"client_secret":"an imported secret"`, "", 1))
	if made["client_secret"] != nil || made["client_id"] != "invoices" {
		t.Errorf("the answer to a registration: %v", made)
	}
	a.call(t, 201, "PUT", api+"?dry_run=true", apis)
	a.refused(t, 404, "not-found", "GET", client, "")
	a.refused(t, 404, "not-found", "GET", api, "")
	_, h := a.call(t, 201, "PUT", client, invoices)
	a.call(t, 201, "PUT", api, apis)
	other := strings.Replace(invoices, "Invoices", "Bills", 1)
	if next, _ := a.call(t, 200, "PUT", client+"?dry_run=true", other, "If-Match", h.Get("ETag")); next["name"] != "Bills" {
		t.Errorf("the answer to a change: %v", next)
	}
	a.call(t, 422, "PUT", client+"?dry_run=true", strings.Replace(invoices, "https", "http", 1))
	a.call(t, 422, "PUT", client+"?dry_run=perhaps", invoices)
	a.call(t, 422, "PUT", client+"?dry_run=", other) // from a script whose variable is unset
	a.call(t, 422, "GET", "/clients?deleted=perhaps", "")
	a.refused(t, 404, "not-found", "GET", "/clients/nobody/secrets", "")
	a.call(t, 422, "DELETE", client+"?dry_run=true", "") // DELETE has no dry run
	if shown, now := a.call(t, 200, "GET", client, ""); shown["name"] != "Invoices" || now.Get("ETag") != h.Get("ETag") {
		t.Errorf("afterwards: %v", shown)
	}
	events, _ := a.call(t, 200, "GET", "/events?client_id=invoices", "")
	if n := len(events.list("events")); n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestClientsAreListedInPages(t *testing.T) {
	a := newAdminAPI(t)
	for _, id := range []string{"a", "b"} {
		if w, made := a.do(t, http.MethodPost, "", `{"id":"`+id+`","name":"Shop `+id+`","redirect_uris":["https://shop.example/cb"],"scope":"read"}`); w.Code != http.StatusCreated || len(made["client_secret"].(string)) < 40 {
			t.Fatalf("%d %v", w.Code, made)
		}
	}
	var seen []string
	for next := ""; ; {
		w, page := a.do(t, http.MethodGet, "?limit=1&match=shop&after="+next, "")
		if w.Code != http.StatusOK || len(page["clients"].([]any)) != 1 {
			t.Fatalf("%d %v", w.Code, page)
		}
		seen = append(seen, page["clients"].([]any)[0].(map[string]any)["id"].(string))
		if next, _ = page["next"].(string); next == "" {
			break
		}
	}
	if strings.Join(seen, " ") != "a b" {
		t.Errorf("clients %v", seen)
	}
}

// TestClientsThatRegisteredThemselvesAreListedApart also requires that the list of
// operators' clients, which programs read, is unchanged.
func TestClientsThatRegisteredThemselvesAreListedApart(t *testing.T) {
	a := newAdminAPI(t)
	list := func(query string) (ids []string) {
		t.Helper()
		page, _ := a.call(t, 200, "GET", "/clients"+query, "")
		for _, c := range page.list("clients") {
			ids = append(ids, c["id"].(string))
		}
		return ids
	}
	before := list("")
	const id = "https://agent.example/client.json"
	now := grant.At(time.Now())
	c := store.Client{ID: id, Realm: "/api", State: store.ClientEnabled, Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes,
		RedirectURIs: []string{"http://127.0.0.1/cb"}}, RegisteredBy: store.ByDocument, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now}
	if err := a.iss.Store.Commit(t.Context(), store.Change{Documents: []store.Document{c.Record(now, now.Add(24*time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	if got := list("?self_registered=true"); !slices.Equal(got, []string{id}) {
		t.Errorf("those that registered themselves: %q", got)
	}
	path := "/clients/" + url.PathEscape(id)
	if shown, _ := a.call(t, 200, "POST", path+"/disable", ""); shown["state"] != "disabled" || shown["self_registered"] == nil {
		t.Errorf("disabled: %v", shown)
	}
	if got := list("?self_registered=true&state=disabled"); !slices.Equal(got, []string{id}) {
		t.Errorf("disabled ones: %q", got)
	}
	for _, query := range []string{"", "?self_registered=false"} {
		if got := list(query); !slices.Equal(got, before) {
			t.Errorf("%q: %q, before %q", query, got, before)
		}
	}
	a.call(t, 422, "GET", "/clients?self_registered=perhaps", "")
	a.call(t, 204, "DELETE", path, "")
	a.refused(t, 404, "deleted", "GET", path, "")
	if got := list("?self_registered=true"); got != nil {
		t.Errorf("after the deletion: %q", got)
	}
	if got := list("?self_registered=true&deleted=true"); !slices.Equal(got, []string{id}) {
		t.Errorf("with those that are deleted: %q", got)
	}
	a.call(t, 204, "DELETE", "/clients/"+before[0], "")
	if got := list("?deleted=true"); !slices.Equal(got, before) {
		t.Errorf("operators' clients with those that are deleted: %q", got)
	}
}

func TestWhatIsWrongWithAClientIsAProblem(t *testing.T) {
	a := newAdminAPI(t)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		field              string
	}{
		"no object":        {http.MethodPut, "/x", `[]`, 400, ""},
		"two values":       {http.MethodPut, "/x", `{"name":"x"} {}`, 400, ""},
		"unknown member":   {http.MethodPut, "/x", `{"colour":"red"}`, 422, "colour"},
		"a wrong address":  {http.MethodPut, "/x", strings.Replace(invoices, "https", "http", 1), 422, "redirect_uris"},
		"a short secret":   {http.MethodPut, "/x", strings.Replace(invoices, "an imported secret", "short", 1), 422, "client_secret"},
		"another id":       {http.MethodPut, "/x", `{"id":"y"}`, 422, "id"},
		"a taken id":       {http.MethodPost, "", strings.Replace(invoices, "{", `{"id":"billing",`, 1), 409, ""},
		"no such client":   {http.MethodGet, "/x", "", 404, ""},
		"a large page":     {http.MethodGet, "?limit=100000", "", 422, "limit"},
		"an unknown state": {http.MethodGet, "?state=lost", "", 422, "state"},
		"another method":   {http.MethodPatch, "/x", "", 405, ""},
	} {
		w, p := a.do(t, c.method, c.path, c.body)
		field, _ := p["field"].(string)
		if w.Code != c.status || field != c.field || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v", name, w.Code, p)
		}
		if c.status == 405 && w.Header().Get("Allow") != "GET, PUT, DELETE" {
			t.Errorf("Allow: %s", w.Header().Get("Allow"))
		}
	}
}
