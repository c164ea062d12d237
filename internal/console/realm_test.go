package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// staff adds a second realm, and returns its use cases.
func (r *fixture) staff() admin.Admin {
	own := r.cases
	own.Store, own.Whole, own.Realm = &store.RealmStore{Store: r.store, Name: "/staff"}, r.store, "/staff"
	api := serveradmin.NewLocal(own)
	api.Realm = adminapi.Realm{Name: "staff", Issuer: "https://auth.example/staff/oauth2/staff", Login: "upstream"}
	api.Explain, api.Watch, api.Audit, api.AuditDirectory, api.ConsoleURL = r.api.Explain, r.api.Watch, r.audit, r.auditDirectory, origin
	api.Checkup, api.Settings, api.Traffic = r.api.Checkup, r.api.Settings, r.api.Traffic
	r.console.API = serveradmin.Realms([]*serveradmin.API{r.api, api})
	return own
}

// fill creates one thing of each kind in a realm, and returns a function that puts their
// names into the paths of the console.
func fill(r *fixture, u admin.Admin, name string) (store.Client, func(console.Route) string) {
	r.t.Helper()
	c, _, err := u.Clients().Create(r.t.Context(), client.Registration{ID: name, Settings: store.Settings{Name: name, RedirectURIs: []string{"https://" + name + ".example/cb"}, Scope: "read", Auth: store.AuthEither}}, store.ClientEnabled)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, _, err := u.Users().Create(r.t.Context(), account.Registration{Username: "erin"}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := u.APIs().Create(r.t.Context(), adminapi.API{ID: "https://orders.example", Name: "Orders of " + name, Scopes: []adminapi.APIScope{{Name: "a"}}}); err != nil {
		r.t.Fatal(err)
	}
	g := storetest.Everyday(uint64(name[0]))
	g.Realm = u.Realm
	if err := u.Store.CreateGrant(r.t.Context(), g); err != nil {
		r.t.Fatal(err)
	}
	sessions, err := operator.Sessions(r.t.Context(), r.store, grant.At(r.now))
	if err != nil {
		r.t.Fatal(err)
	}
	names := strings.NewReplacer("{$}", "", "{user}", "erin", "{api}", "https:%2F%2Forders.example", "{client}", name, "{secret}", c.Secrets[0].ID, "{grant}", g.ID.String(), "{session}", sessions[0].ID())
	return c, func(rt console.Route) string {
		path := names.Replace(rt.Path)
		if rt.Method == http.MethodGet && strings.HasSuffix(path, "s/end") || path == "/grants" {
			path += "?" + url.Values{"subject": {g.Subject}, "session": {"none"}}.Encode()
		}
		return path
	}
}

var (
	// forNobody are pages that contain no data: empty forms.
	forNobody = []string{"/new/client", "/new/user", "/new/api", "/new/restore", "/explain", "/audit/follow"}
	// ofDeployment matches the pages of the deployment, which belong to no realm.
	ofDeployment = regexp.MustCompile(`^/(keys|settings|operators|restores|new/restore|checkup)`)
)

// An operator of one realm is refused every page and every change of another realm, and of
// the deployment.
func TestAnOperatorOfOneRealmStaysInIt(t *testing.T) {
	r := open(t)
	r.watch = func() adminapi.Watch { return adminapi.Watch{Finished: true} }
	staff := r.staff()
	r.operator("alice", operator.Admin)
	dora := r.operator("dora", operator.Admin, "/staff")
	theirs, path := fill(r, r.cases, "theirs")
	own, ownPath := fill(r, staff, "desk")
	before, err := r.store.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	refused := func(rt console.Route, path string, c store.Client) {
		t.Helper()
		tried++
		form := forms(operator.NewForm(), c)[rt.Path]
		if rt.Path == "/explain" {
			form = url.Values{"text": {"theirs"}}
		}
		if w := dora.do(rt.Method, path, form, nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "This is not of your realm") {
			t.Errorf("%s %s: %d\n%s", rt.Method, path, w.Code, w.Body)
		}
	}
	for _, rt := range r.console.Routes() {
		if rt.Public || rt.Method == http.MethodGet && slices.Contains(forNobody, rt.Path) {
			continue
		}
		refused(rt, "/realms/api"+path(rt), theirs)
		if ofDeployment.MatchString(rt.Path) {
			refused(rt, ownPath(rt), own)
			refused(rt, "/realms/staff"+ownPath(rt), own)
		}
	}
	if after, err := r.store.Changes(t.Context(), 0); err != nil || after.Version != before.Version {
		t.Errorf("something was written: version %d, was %d, %v", after.Version, before.Version, err)
	}
	if tried < 65 {
		t.Errorf("only %d pages were tried: the test does not find the routes", tried)
	}
	for _, rt := range r.console.Routes() {
		if rt.Public || rt.Method != http.MethodGet || ofDeployment.MatchString(rt.Path) || rt.Path == "/audit/follow" || rt.Path == "/sessions/end" {
			continue
		}
		w := dora.get(ownPath(rt))
		body := w.Body.String()
		if w.Code != http.StatusOK || strings.Contains(body, "theirs") || strings.Contains(body, `href="/keys"`) {
			t.Errorf("%s of the own realm: %d\n%s", rt.Path, w.Code, body)
		}
	}
	if body := dora.get("/clients/desk").Body.String(); !strings.Contains(body, "mintage client show --realm staff desk") {
		t.Errorf("the command names no realm:\n%s", body)
	}
	if w := dora.post("/clients/desk/state", url.Values{"state": {"disabled"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/clients/desk?done=disabled" {
		t.Errorf("a change of the own realm: %d %s", w.Code, w.Header().Get("Location"))
	}
	emil := r.operator("emil", operator.Auditor, "/staff")
	if w := emil.post("/clients/desk/state", url.Values{"state": {"enabled"}}); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Your role does not allow this") {
		t.Errorf("an auditor of the realm changes it: %d", w.Code)
	}
}

// An operator of the deployment may open each realm. The pages of a realm link only to
// pages of that realm.
func TestThePagesOfARealm(t *testing.T) {
	r := open(t)
	r.watch = func() adminapi.Watch { return adminapi.Watch{Finished: true} }
	staff := r.staff()
	alice := r.operator("alice", operator.Admin)
	fill(r, r.cases, "theirs")
	_, path := fill(r, staff, "desk")
	if body := alice.get("/realms").Body.String(); !strings.Contains(body, `<a href="/realms/staff/">staff</a>`) || !strings.Contains(body, `<a href="/realms/api/">api</a>`) {
		t.Errorf("the realms:\n%s", body)
	}
	links := regexp.MustCompile(` (?:href|action)="(/[^"]*)"`)
	followed := 0
	for _, rt := range r.console.Routes() {
		if rt.Public || rt.Method != http.MethodGet || rt.Path == "/audit/follow" || rt.Path == "/sessions/end" {
			continue
		}
		w := alice.get("/realms/staff" + path(rt))
		body := w.Body.String()
		if w.Code != http.StatusOK || strings.Contains(body, "theirs") {
			t.Errorf("%s: %d\n%s", rt.Path, w.Code, body)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			followed++
			if to := m[1]; !strings.HasPrefix(to, "/realms/staff/") && to != "/realms" && !strings.HasPrefix(to, "/assets/") && to != "/audit?event=key_added" && rt.Path != "/realms" {
				t.Errorf("%s leads to %s", rt.Path, to)
			}
		}
	}
	if followed < 300 {
		t.Errorf("only %d links: the test does not find them", followed)
	}
	w := alice.post("/realms/staff/clients/desk/state", url.Values{"state": {"disabled"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/realms/staff/clients/desk?done=disabled" {
		t.Errorf("a change: %d %s", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"/realms/none/clients", "/realms/staff/realms/api/clients", "/realms/%3Cb%3E/clients", "/realms/staff/nothing", "/realms//clients"} {
		if w := alice.get(path); w.Code == http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
