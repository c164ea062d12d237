package directory

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
)

func TestAPIsOfAView(t *testing.T) {
	minutes := func(n int) *store.Milliseconds { ms := store.Milliseconds(n * 60000); return &ms }
	api := store.API{ID: "https://api.example/Orders", Realm: "/api", Number: 1, Scopes: []store.APIScope{{Name: "read", Number: 1}, {Name: "write", Number: 2}},
		AccessLifetime: minutes(10), LongestLifetime: *minutes(30)}
	v := noView()
	if _, ok := v.API("/api", api.ID); ok || v.HasAPIs("/api") || v.LongestAccess(time.Minute) != time.Minute || v.ShortestAccess("/api", time.Hour) != time.Hour {
		t.Error("a view without APIs has one")
	}
	v.apis = v.apis.with([]store.API{api})
	for _, id := range []string{api.ID, "HTTPS://API.EXAMPLE/Orders/"} {
		if found, ok := v.API("/api", id); !ok || found.ID != api.ID {
			t.Errorf("%s is not found", id)
		}
	}
	for _, id := range []string{"https://api.example/orders", "https://api.example/Orders//", "https://api.example"} {
		if _, ok := v.API("/api", id); ok {
			t.Errorf("%s is found", id)
		}
	}
	if _, ok := v.API("/other", api.ID); ok {
		t.Error("an API of another realm is found")
	}
	if v.LongestAccess(time.Minute) != 30*time.Minute || v.ShortestAccess("/api", time.Hour) != 10*time.Minute {
		t.Errorf("lifetimes %s, %s", v.LongestAccess(time.Minute), v.ShortestAccess("/api", time.Hour))
	}
	for text, want := range map[string]string{api.ID: "read write", api.ID + " write": "write", "https://gone.example": ""} {
		if scope := v.ScopeOf("/api", []string{text}); string(scope) != want {
			t.Errorf("%s allows %q, want %q", text, scope, want)
		}
	}
	before := v.apis
	api.Deleted = true
	v.apis = v.apis.with([]store.API{api})
	if _, ok := v.APIByNumber("/api", 1); ok || v.LongestAccess(0) != 30*time.Minute || before.byNumber.get(apiNumber{"/api", 1}) == nil {
		t.Error("a deleted API is there, or is forgotten, or an older view has changed")
	}
}
