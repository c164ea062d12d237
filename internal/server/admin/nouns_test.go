package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// An object is a JSON response.
type object map[string]any

func (o object) list(name string) (list []object) {
	items, _ := o[name].([]any)
	for _, item := range items {
		list = append(list, item.(map[string]any))
	}
	return list
}

// call sends a request below /admin/v1, and requires a status.
func (a *adminAPI) call(t *testing.T, status int, method, path, body string, header ...string) (object, http.Header) {
	t.Helper()
	r := httptest.NewRequest(method, "/admin/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	location, given := w.Header()["Location"]
	if w.Code != status || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" || given && location[0] == "" {
		t.Fatalf("%s %s: %d %v %s, want %d", method, path, w.Code, w.Header(), w.Body, status)
	}
	checkDescribed(t, method, r.URL.EscapedPath(), status)
	var answer object
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v in %q", method, path, err, w.Body)
		}
	}
	return answer, w.Header()
}

// refused requires a problem of a type.
func (a *adminAPI) refused(t *testing.T, status int, kind, method, path, body string, header ...string) {
	t.Helper()
	if p, h := a.call(t, status, method, path, body, header...); p["type"] != "urn:mintage:problem:"+kind || h.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s: %v, want the type %s", method, path, p, kind)
	}
}

// use authenticates a client with a secret, as a token request does.
func (a *adminAPI) use(t *testing.T, auth *client.Authenticator, id, secret string) {
	t.Helper()
	if _, err := auth.Authenticate(t.Context(), oauth.Credentials{ClientID: id, Secret: oauth.Secret(secret), Method: oauth.AuthPost}, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
}

func (a *adminAPI) authenticator() *client.Authenticator {
	return &client.Authenticator{Realm: "/api", Store: a.faulty, Directory: a.iss.Directory, Now: a.iss.Now, Log: a.iss.Log, Slow: client.NewSlowPool()}
}

// A tool such as Terraform applies the same file repeatedly.
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
	events, _ := a.call(t, 200, "GET", "/events?client_id=invoices", "")
	for _, e := range events.list("events") {
		if e["name"] == "client_changed" || e["name"] == "client_created" && e["actor"] != "token:admin.token_file" {
			t.Errorf("%v", e)
		}
	}
}

func TestAnyClientIDCanBeAddressed(t *testing.T) {
	a := newAdminAPI(t)
	for _, id := range []string{"a/b", "...", "100%", "a?b#c", "https://shop.example/id", "a+b;c=d"} {
		path := "/clients/" + url.PathEscape(id)
		_, h := a.call(t, 201, "PUT", path, invoices)
		if want := "/admin/v1" + path; h.Get("Location") != want {
			t.Errorf("%s is at %s", id, h.Get("Location"))
		}
		if c, _ := a.call(t, 200, "GET", path, ""); c["id"] != id {
			t.Errorf("%s: %v", id, c)
		}
		a.call(t, 200, "GET", path+"/secrets", "")
		a.call(t, 204, "DELETE", path, "")
	}
	// Some programs on the way would normalize these paths (RFC 3986 section 5.2.4).
	for _, id := range []string{".", ".."} {
		a.call(t, 422, "PUT", "/clients/"+url.PathEscape(id), invoices)
		a.call(t, 422, "POST", "/clients", strings.Replace(invoices, "{", `{"id":"`+id+`",`, 1))
		a.call(t, 422, "POST", "/users", `{"username":"`+id+`"}`)
	}
	// Metrics use this label for all self-registered clients.
	a.call(t, 422, "PUT", "/clients/self_registered", invoices)
	a.call(t, 422, "POST", "/clients", strings.Replace(invoices, "{", `{"id":"self_registered",`, 1))
	// No id contains these bytes, so the store is not queried.
	for _, id := range []string{"%00", "%ff", "%0a"} {
		a.refused(t, 404, "not-found", "GET", "/clients/"+id, "")
	}
}

func TestSecretsOfAClient(t *testing.T) {
	a := newAdminAPI(t)
	a.call(t, 201, "PUT", "/clients/invoices", invoices)
	added, _ := a.call(t, 201, "POST", "/clients/invoices/secrets", `{"expires_in":"90d"}`)
	text, _ := added["client_secret"].(string)
	id, _ := added["secret_id"].(string)
	if len(text) < 40 || added["client_id"] != "invoices" {
		t.Fatalf("%v", added)
	}
	secrets := func() map[any]object {
		all := map[any]object{}
		answer, _ := a.call(t, 200, "GET", "/clients/invoices/secrets", "")
		for _, s := range answer.list("secrets") {
			all[s["id"]] = s
			if s["client_secret"] != nil {
				t.Errorf("a secret is shown: %v", s)
			}
		}
		return all
	}
	if all := secrets(); len(all) != 2 || all[id]["revocation"] != "safe" || all[id]["expires_at"] == nil {
		t.Fatalf("%v", all)
	}
	// The use is only in the server's memory.
	a.use(t, a.authenticator(), "invoices", text)
	if all := secrets(); all[id]["revocation"] == "safe" || all[id]["last_used_at"] == nil {
		t.Errorf("used just now: %v", all[id])
	}
	path := "/clients/invoices/secrets/" + id
	a.refused(t, 409, "in-use", "DELETE", path, "")
	a.call(t, 422, "DELETE", path+"?force=yes", "")
	a.call(t, 422, "DELETE", path+"?forced=true", "")
	a.call(t, 204, "DELETE", path+"?force=true", "")
	a.refused(t, 404, "not-found", "DELETE", path+"?force=true", "")
	a.call(t, 422, "POST", "/clients/invoices/secrets", `{"expires_in":"-1h"}`)
	a.refused(t, 404, "not-found", "POST", "/clients/nobody/secrets", "")
	for range client.MaxSecrets - 1 {
		if _, h := a.call(t, 201, "POST", "/clients/invoices/secrets", ""); h.Get("ETag") != "" {
			t.Error("a secret has an ETag")
		}
	}
	a.refused(t, 409, "full", "POST", "/clients/invoices/secrets", "")
}

func TestAClientIsDisabledAndEnabled(t *testing.T) {
	a := newAdminAPI(t)
	_, h := a.call(t, 200, "GET", "/clients/billing", "")
	c, next := a.call(t, 200, "POST", "/clients/billing/disable", "", "If-Match", h.Get("ETag"))
	if c["state"] != "disabled" || next.Get("ETag") == h.Get("ETag") {
		t.Errorf("%v %v", c, next)
	}
	a.refused(t, 412, "changed", "POST", "/clients/billing/enable", "", "If-Match", h.Get("ETag"))
	if c, _ := a.call(t, 200, "POST", "/clients/billing/enable", "{}"); c["state"] != "enabled" {
		t.Errorf("%v", c)
	}
	a.call(t, 400, "POST", "/clients/billing/disable", `{"for":"1h"}`)
}

func TestUsers(t *testing.T) {
	a := newAdminAPI(t)
	made, h := a.call(t, 201, "POST", "/users", `{"username":"Alice","name":"Alice Cooper"}`)
	if len(made["password"].(string)) != 16 || h.Get("Location") != "/admin/v1/users/alice" {
		t.Fatalf("%v %v", made, h)
	}
	if made, _ := a.call(t, 201, "POST", "/users", `{"username":"bob","subject":"u-2","password":"correct horse"}`); made["password"] != nil {
		t.Errorf("a password that was given is returned: %v", made)
	}
	a.refused(t, 409, "taken", "POST", "/users", `{"username":"bob"}`)
	for field, body := range map[string]string{"subject": `{"username":"carol","subject":"u-2"}`, "password": `{"username":"carol","password":"short"}`, "username": `{}`} {
		if p, _ := a.call(t, 422, "POST", "/users", body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	a.call(t, 400, "POST", "/users", `{"username":"carol","roles":[]}`)
	for _, query := range []string{"limit=1&limit=2", "limit=x", "limit=0", "limit=1001", "match=%zz"} {
		a.call(t, 422, "GET", "/users?"+query, "")
	}
	a.call(t, 200, "GET", "/users?limit=1000", "")
	first, _ := a.call(t, 200, "GET", "/users?limit=1", "")
	second, _ := a.call(t, 200, "GET", "/users?limit=1&after="+first["next"].(string), "")
	if len(second.list("users")) != 1 || second.list("users")[0]["username"] != "bob" || second["next"] != nil {
		t.Errorf("%v and %v", first, second)
	}

	patched, h := a.call(t, 200, "PATCH", "/users/alice", `{"claims":{"email":"alice@example.com"}}`)
	claims, _ := patched["claims"].(map[string]any)
	if claims["email"] != "alice@example.com" || patched["name"] != "Alice Cooper" {
		t.Errorf("%v", patched)
	}
	old := h.Get("ETag")
	if patched, _ = a.call(t, 200, "PATCH", "/users/alice", `{"name":null,"claims":{"email":null}}`, "If-Match", old); patched["name"] != "" || patched["claims"] != nil {
		t.Errorf("%v", patched)
	}
	a.refused(t, 412, "changed", "PATCH", "/users/alice", `{"name":"A"}`, "If-Match", old)
	for field, body := range map[string]string{"claims": `{"claims":{"shoe_size":7}}`, "name": `{"name":7}`} {
		if p, _ := a.call(t, 422, "PATCH", "/users/alice", body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}

	_, h = a.call(t, 200, "GET", "/users/alice", "")
	etag := h.Get("ETag")
	changed, h := a.call(t, 200, "POST", "/users/alice/password", `{"end_grants":true}`, "If-Match", etag)
	if len(changed["password"].(string)) != 16 || h.Get("ETag") == etag {
		t.Errorf("%v", changed)
	}
	cutoffs, _ := a.call(t, 200, "GET", "/cutoffs?subject=alice", "")
	if len(cutoffs.list("cutoffs")) != 1 {
		t.Errorf("%v", cutoffs)
	}
	for _, verb := range []string{"disable", "enable", "password", "totp"} {
		a.refused(t, 412, "changed", "POST", "/users/alice/"+verb, "", "If-Match", etag)
		a.refused(t, 404, "not-found", "POST", "/users/nobody/"+verb, "")
	}
	factor, h := a.call(t, 200, "POST", "/users/alice/totp", "", "If-Match", h.Get("ETag"))
	if uri, _ := factor["uri"].(string); len(factor["secret"].(string)) != 32 || !strings.HasPrefix(uri, "otpauth://totp/auth.example.com:alice?") {
		t.Errorf("%v", factor)
	}
	a.api.Realm.Name = "staff"
	factor, h = a.call(t, 200, "POST", "/users/alice/totp", "")
	if uri, _ := factor["uri"].(string); !strings.HasPrefix(uri, "otpauth://totp/auth.example.com%20staff:alice?") || !strings.Contains(uri, "&issuer=auth.example.com%20staff&") {
		t.Errorf("in another realm: %v", factor)
	}
	shown, seen := a.call(t, 200, "GET", "/users/alice", "")
	if shown["second_factor"] != true || seen.Get("ETag") != h.Get("ETag") {
		t.Errorf("%v %v", shown, seen)
	}
	a.call(t, 204, "DELETE", "/users/alice/totp", "")
	a.call(t, 204, "DELETE", "/users/alice/totp", "")
	a.call(t, 200, "POST", "/users/alice/disable", "")
	if disabled, _ := a.call(t, 200, "GET", "/users?state=disabled", ""); len(disabled.list("users")) != 1 {
		t.Errorf("%v", disabled)
	}
	a.call(t, 200, "POST", "/users/alice/enable", "")
	events, _ := a.call(t, 200, "GET", "/events?subject=alice", "")
	var names []string
	for _, e := range events.list("events") {
		names = append(names, e["name"].(string))
	}
	slices.Sort(names) // they have the same instant
	if got := strings.Join(names, " "); got != "password_changed totp_removed totp_set totp_set user_changed user_changed user_created user_disabled user_enabled" {
		t.Errorf("events: %s", got)
	}
}

func TestKeysAreListedRotatedAndWithdrawn(t *testing.T) {
	a := newAdminAPI(t)
	active := func() (all map[string]string) {
		all = map[string]string{}
		answer, _ := a.call(t, 200, "GET", "/keys", "")
		for _, k := range answer.list("keys") {
			if k["phase"] == "active" {
				all[k["purpose"].(string)] = k["id"].(string)
			}
		}
		return all
	}
	before := active()
	added, _ := a.call(t, 200, "POST", "/keys/rotate", `{"purposes":["mac"],"in":"24h"}`)
	if list := added.list("added"); len(list) != 1 || list[0]["purpose"] != "mac" {
		t.Fatalf("%v", added)
	}
	for field, body := range map[string]string{"purposes": `{"purposes":["pepper"]}`, "in": `{"in":"0s"}`} {
		if p, _ := a.call(t, 422, "POST", "/keys/rotate", body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	a.makeGrant(t, 1, "alice")
	for _, body := range []string{`{}`, `{"all":true,"purposes":["mac"]}`} {
		if p, _ := a.call(t, 422, "POST", "/keys/withdraw", body); p["field"] != "all" {
			t.Errorf("%s: %v", body, p)
		}
	}
	for _, dry := range []bool{true, false} {
		body, _ := json.Marshal(map[string]any{"keys": []string{before["mac"]}, "dry_run": dry})
		done, _ := a.call(t, 200, "POST", "/keys/withdraw", string(body))
		if list := done.list("withdrawn"); len(list) != 1 || list[0]["id"] != before["mac"] || done["grants"] != 1.0 || len(done.list("added")) > 0 == dry {
			t.Errorf("dry run %t: %v", dry, done)
		}
		if done["code_lifetime"] != "1m" || done["access_token_lifetime"] != "1h" || done["jwks_max_age"] == nil {
			t.Errorf("the lifetimes are not the longest of all realms: %v", done)
		}
		if now := active(); now["mac"] == before["mac"] != dry {
			t.Errorf("dry run %t: the key in use is %s", dry, now["mac"])
		}
	}
	if p, _ := a.call(t, 422, "POST", "/keys/withdraw", `{"keys":["`+before["mac"]+`"]}`); p["field"] != "keys" {
		t.Errorf("once more: %v", p)
	}
}

// A completed revocation is not reported as a failure because counting its effects
// failed.
func TestARevocationThatCannotBeCountedIsNoFailure(t *testing.T) {
	a := newAdminAPI(t)
	a.makeGrant(t, 1, "alice")
	for path, status := range map[string]int{"/sessions/end": 200, "/cutoffs": 201} {
		a.faulty.Inject(storetest.Grants, 1, storetest.Lost)
		if ended, _ := a.call(t, status, "POST", path, `{"subject":"alice"}`); ended["cutoff"] == nil && ended["at"] == nil || ended["grants"] != nil {
			t.Errorf("%s: %v", path, ended)
		}
		if !strings.Contains(a.log.String(), "cannot count the grants that a change ends") {
			t.Errorf("%s: logged %s", path, a.log.String())
		}
		if ended, _ := a.call(t, status, "POST", path, `{"subject":"alice"}`); ended["grants"] != 1.0 {
			t.Errorf("%s, again: %v", path, ended)
		}
	}
	a.log.Reset()
	for _, dry := range []bool{true, false} { // a dry run only counts
		a.faulty.Inject(storetest.Grants, 1, storetest.Lost)
		status, _ := a.as(t, adminToken, "POST", "/keys/withdraw", fmt.Sprintf(`{"purposes":["mac"],"dry_run":%t}`, dry))
		if dry != (status >= 500) || !strings.Contains(a.log.String(), "cannot count the grants that a change ends") {
			t.Errorf("a withdrawal, dry %t: %d, %s", dry, status, a.log.String())
		}
	}
}

// makeGrant stores an active grant of a subject.
func (a *adminAPI) makeGrant(t *testing.T, n byte, subject string) string {
	t.Helper()
	view, err := a.iss.Directory.View()
	if err != nil {
		t.Fatal(err)
	}
	now := grant.At(a.now)
	g := grant.Grant{
		ID: grant.ID{n}, Version: 1, Realm: "/api", ClientID: "billing", Subject: subject, Scope: "read", AuthorizedAt: now,
		State: grant.Active, Generation: 1, RotatedAt: now, ExpiresAt: now.Add(time.Hour), DeleteAfter: now.Add(time.Hour), KeyID: view.Ring.Current("mac", now),
	}
	if err := a.faulty.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return g.ID.String()
}

func TestGrantsAndCutoffs(t *testing.T) {
	a := newAdminAPI(t)
	one, two := a.makeGrant(t, 1, "alice"), a.makeGrant(t, 2, "bob")
	page, _ := a.call(t, 200, "GET", "/grants?client_id=billing&limit=1", "")
	next, _ := a.call(t, 200, "GET", "/grants?client_id=billing&limit=1&after="+page["next"].(string), "")
	if page.list("grants")[0]["id"] != one || next.list("grants")[0]["id"] != two || next["next"] != nil {
		t.Errorf("%v and %v", page, next)
	}
	if of, _ := a.call(t, 200, "GET", "/grants?subject=bob", ""); len(of.list("grants")) != 1 {
		t.Errorf("%v", of)
	}
	a.call(t, 422, "GET", "/grants?subject=%ff", "")
	a.call(t, 422, "GET", "/grants?client=billing", "")
	a.call(t, 422, "GET", "/grants?after=x", "")

	a.call(t, 204, "DELETE", "/grants/"+one, "")
	a.call(t, 204, "DELETE", "/grants/"+one, "")
	if g, _ := a.call(t, 200, "GET", "/grants/"+one, ""); g["state"] != "revoked" || len(g["key"].(string)) != 8 {
		t.Errorf("%v", g)
	}
	if events, _ := a.call(t, 200, "GET", "/events?grant_id="+one, ""); len(events.list("events")) == 0 {
		t.Error("no event")
	}
	for _, id := range []string{"x", strings.Repeat("0", 32)} {
		a.refused(t, 404, "not-found", "GET", "/grants/"+id, "")
		a.refused(t, 404, "not-found", "DELETE", "/grants/"+id, "")
	}

	// A cutoff without a subject would affect everybody.
	if p, _ := a.call(t, 422, "POST", "/cutoffs", `{}`); p["field"] != "subject" {
		t.Errorf("%v", p)
	}
	a.refused(t, 404, "not-found", "POST", "/cutoffs", `{"client_id":"nobody"}`)
	// An invalid subject would not fit into an event.
	for _, path := range []string{"/cutoffs", "/sessions/end"} {
		if p, _ := a.call(t, 422, "POST", path, `{"subject":"`+strings.Repeat("x", 5000)+`"}`); p["field"] != "subject" {
			t.Errorf("%s: %v", path, p)
		}
	}
	cut, _ := a.call(t, 201, "POST", "/cutoffs", `{"subject":"bob"}`)
	if cut["grants"] != 1.0 || cut["subject"] != "bob" || cut["at"] == nil {
		t.Errorf("%v", cut)
	}
	if g, _ := a.call(t, 200, "GET", "/grants/"+two, ""); g["state"] != "cut off" {
		t.Errorf("%v", g)
	}
	a.call(t, 201, "POST", "/cutoffs", `{"subject":"bob","client_id":"billing"}`)
	page, _ = a.call(t, 200, "GET", "/cutoffs?limit=1", "")
	next, _ = a.call(t, 200, "GET", "/cutoffs?limit=1&after="+page["next"].(string), "")
	if page.list("cutoffs")[0]["client_id"] != nil || next.list("cutoffs")[0]["client_id"] != "billing" || next["next"] != nil {
		t.Errorf("%v and %v", page, next)
	}
	a.call(t, 422, "GET", "/cutoffs?after=x", "")
	a.call(t, 422, "GET", "/events", "")
	a.call(t, 422, "GET", "/events?subject=bob&client_id=billing", "")
}

func TestRestoresAreDeclaredAndListed(t *testing.T) {
	a := newAdminAPI(t)
	a.makeGrant(t, 1, "alice")
	for _, body := range []string{`{}`, `{"backup_time":"` + a.now.Add(time.Hour).Format(time.RFC3339) + `"}`} {
		if p, _ := a.call(t, 422, "POST", "/restores", body); p["field"] != "backup_time" {
			t.Errorf("%s: %v", body, p)
		}
	}
	made, _ := a.call(t, 201, "POST", "/restores", `{"backup_time":"`+a.now.Add(-time.Hour).Format(time.RFC3339)+`"}`)
	if made["in_force"] != true || made["clock_is_behind"] != nil {
		t.Errorf("%v", made)
	}
	listed, _ := a.call(t, 200, "GET", "/restores", "")
	a.now = a.now.Add(-time.Hour)
	if late, _ := a.call(t, 201, "POST", "/restores", `{"backup_time":"`+a.now.Add(-time.Hour).Format(time.RFC3339)+`"}`); late["clock_is_behind"] != true {
		t.Errorf("by a clock that is behind: %v", late)
	}
	if list := listed.list("restores"); len(list) != 1 || list[0]["at"] != made["at"] || list[0]["in_force"] != true {
		t.Errorf("%v", listed)
	}
	view, err := a.iss.Directory.View()
	if err != nil || view.Restore().At == 0 {
		t.Errorf("the directory was not polled: %v", err)
	}
}

// For an incident, one call ends a session with its grants and no others; or all
// sessions.
func TestSessionsOfASubjectAreListedAndEnded(t *testing.T) {
	a := newAdminAPI(t)
	one, two, three := a.makeGrant(t, 1, "alice"), a.makeGrant(t, 2, "alice"), a.makeGrant(t, 3, "alice")
	session := func(n byte, ids ...string) string {
		reference := [16]byte{n}
		for _, text := range ids {
			id, _ := grant.ParseID(text)
			// A row's facts never change, so the grant is stored again.
			g, err := a.faulty.Grant(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			g.ID[0], g.Session = g.ID[0]+0x80, reference
			if err := a.faulty.CreateGrant(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		body := fmt.Sprintf(`{"subject":"alice","reference":"%x","began":%d}`, reference, grant.At(a.now))
		err := a.faulty.Commit(t.Context(), store.Change{Documents: []store.Document{{
			Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, "/api", string(n)), Version: 1, ExpiresAt: grant.At(a.now.Add(time.Hour)),
			Owner: store.OwnerOf("/api", "alice"), Body: []byte(body),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return grant.SessionName(reference)
	}
	phone, laptop := session(1, one, two), session(2, three)
	state := func(name string) (string, []string) {
		t.Helper()
		all, _ := a.call(t, 200, "GET", "/sessions?subject=alice", "")
		for _, s := range all.list("sessions") {
			if s["session"] == name {
				var states []string
				for _, g := range s.list("grants") {
					if g["session"] != name {
						t.Errorf("%v is not of session %s", g, name)
					}
					states = append(states, g["state"].(string))
				}
				return s["state"].(string), states
			}
		}
		return "", nil
	}
	if s, grants := state(phone); s != "active" || !slices.Equal(grants, []string{"active", "active"}) {
		t.Fatalf("%s %v", s, grants)
	}
	for range 2 { // it can be repeated
		ended, _ := a.call(t, 200, "POST", "/sessions/end", `{"subject":"alice","session":"`+phone+`"}`)
		if s, grants := state(phone); s != "ended" || !slices.Equal(grants, []string{"revoked", "revoked"}) || ended["session"] != phone || ended["grants"] == nil {
			t.Errorf("%v: %s %v", ended, s, grants)
		}
	}
	if s, grants := state(laptop); s != "active" || !slices.Equal(grants, []string{"active"}) {
		t.Errorf("the other session: %s %v", s, grants)
	}
	if g, _ := a.call(t, 200, "GET", "/grants/"+one, ""); g["state"] != "active" || g["session"] != nil {
		t.Errorf("a grant of no session: %v", g)
	}
	events, _ := a.call(t, 200, "GET", "/events?subject=alice", "")
	if list := events.list("events"); len(list) != 2 || list[0]["name"] != "session_ended" {
		t.Errorf("%v", events)
	}
	ended, _ := a.call(t, 200, "POST", "/sessions/end", `{"subject":"alice"}`)
	if s, grants := state(laptop); s != "ended" || !slices.Equal(grants, []string{"cut off"}) || ended["cutoff"] == nil || ended["grants"] != 6.0 {
		t.Errorf("%v: %s %v", ended, s, grants)
	}
	a.refused(t, 404, "not-found", "POST", "/sessions/end", `{"subject":"alice","session":"x"}`)
	a.refused(t, 404, "not-found", "POST", "/sessions/end", `{"subject":"bob","session":"`+phone+`"}`)
	for _, path := range []string{"/sessions", "/sessions?subject=%ff", "/sessions?subject="} {
		a.call(t, 422, "GET", path, "")
	}
	for _, body := range []string{`{}`, `{"session":"` + phone + `"}`} {
		if p, _ := a.call(t, 422, "POST", "/sessions/end", body); p["field"] != "subject" {
			t.Errorf("%s: %v", body, p)
		}
	}
}
