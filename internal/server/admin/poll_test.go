package admin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A command tells the server of its change, and the change is in force.
func TestAdminAPITakesAChangeAtOnce(t *testing.T) {
	a := newAdminAPI(t)
	cut := store.Cutoff{Realm: "/api", Subject: "alice", At: grant.At(a.now)}
	if err := a.faulty.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{cut}}); err != nil {
		t.Fatal(err)
	}
	inForce := func() bool {
		view, err := a.iss.Directory.View()
		if err != nil {
			t.Fatal(err)
		}
		return view.Cutoff("/api", "alice", "billing") == cut.At
	}
	if inForce() {
		t.Fatal("in force before anybody has looked")
	}
	post := func(method, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/admin/v1/directory/poll", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		return w
	}
	for name, c := range map[string]struct {
		method, token string
		status        int
	}{"a stranger": {"POST", "", 401}, "another method": {"GET", adminToken, 405}} {
		if w := post(c.method, c.token); w.Code != c.status || inForce() {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	a.faulty.Inject(storetest.Changes, 1, storetest.Lost)
	if w := post("POST", adminToken); w.Code != http.StatusServiceUnavailable || inForce() {
		t.Errorf("a store that fails: status %d", w.Code)
	}
	if w := post("POST", adminToken); w.Code != http.StatusOK || !inForce() {
		t.Errorf("status %d, in force: %t", w.Code, inForce())
	}
}
