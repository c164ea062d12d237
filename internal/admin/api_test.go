package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Tokens name APIs and scopes by number. A reused number would make old tokens valid for
// a later registration.
func TestNumbersOfAPIsAndScopesNeverComeBack(t *testing.T) {
	a, _ := newAdmin(t)
	create := func(id string, number uint16) store.API {
		t.Helper()
		api, err := a.APIs().Create(t.Context(), adminapi.API{ID: id, Name: "A", Scopes: []adminapi.APIScope{{Name: oauth.CanonicalTarget(id)[8:9]}}})
		if err != nil || api.Number != number {
			t.Errorf("%s has the number %d, %v; want %d", id, api.Number, err, number)
		}
		return api
	}
	remove := func(id string) {
		t.Helper()
		if _, err := a.APIs().Delete(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	create("https://a.example", 1)
	create("https://b.example", 2)
	remove("https://b.example")
	create("https://c.example", 3)
	remove("https://c.example")
	remove("https://a.example")
	again := create("https://a.example", 4)
	if s, _ := again.FindScope("a"); s.Number != 2 {
		t.Errorf("the scope of an API that was registered again has the number %d", s.Number)
	}
	create("https://b.example", 5)
	put := func(scopes ...string) (next store.API) {
		t.Helper()
		v := adminapi.API{Name: "A"}
		for _, name := range scopes {
			v.Scopes = append(v.Scopes, adminapi.APIScope{Name: name})
		}
		next, _, err := a.APIs().Apply(t.Context(), "https://b.example", "", v)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	first, _ := put("b", "x").FindScope("x")
	put("b")
	second, _ := put("b", "x").FindScope("x")
	if first.Number == 0 || second.Number <= first.Number {
		t.Errorf("a scope that was removed had the number %d, and has %d", first.Number, second.Number)
	}
}

// The access token of a repeated response must still be valid: an API's tokens live a
// minute longer than the longest retry window, of the server or of a client.
func TestTokensOfAnAPIOutliveEveryRetryWindow(t *testing.T) {
	t.Parallel()
	a, _ := newAdmin(t)
	a.Policy.RetryWindow = 90 * time.Second
	lives := func(when, life string, want bool) {
		t.Helper()
		_, err := a.APIs().Create(t.Context(), adminapi.API{ID: "https://api.example/" + when + life, Name: "API", AccessTokenLifetime: &life})
		var invalid *oauth.Invalid
		if want != (err == nil) || err != nil && (!errors.As(err, &invalid) || invalid.Field != "access_token_lifetime") {
			t.Errorf("%s, %s: %v", when, life, err)
		}
	}
	lives("server", "2m29s", false)
	lives("server", "2m30s", true)
	r := billing()
	r.RetryWindow = store.InMilliseconds(3 * time.Minute)
	if _, _, err := a.Clients().Create(t.Context(), r, store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	lives("client", "3m59s", false)
	lives("client", "4m", true)
	if _, err := a.Clients().Delete(t.Context(), r.ID, ""); err != nil {
		t.Fatal(err)
	}
	lives("deleted", "2m30s", true)
}
