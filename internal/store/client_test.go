package store_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit/plaintest"
)

// Stores contain clients in this form. If a member changed its name or its meaning, every
// registered client would lose it.
func TestTheStoredFormOfAClientStays(t *testing.T) {
	for text, want := range map[string]store.Client{
		`{"id":"billing","realm":"/api","name":"Billing","state":"enabled","auth_method":"either","require_pkce":true,"grant_types":["authorization_code"],` +
			`"redirect_uris":["https://billing.example/cb"],"scope":"read write","secrets":[],"created_at":1,"updated_at":2,"version":3}`: {
			ID: "billing", Realm: "/api", State: store.ClientEnabled, Secrets: []store.Secret{}, CreatedAt: 1, UpdatedAt: 2, Version: 3,
			Settings: store.Settings{Name: "Billing", Auth: store.AuthEither, GrantTypes: []string{"authorization_code"}, RedirectURIs: []string{"https://billing.example/cb"}, Scope: "read write"},
		},
		`{"id":"all","realm":"/api","name":"All","state":"disabled","auth_method":"federated","native":true,"require_pkce":false,"first_party":true,` +
			`"grant_types":["client_credentials"],"redirect_uris":[],"scope":"","no_rotation":true,"retry_window_ms":0,"reuse_grace_ms":60000,` +
			`"id_token_signing_alg":"ES256","id_token_lifetime_ms":90000,"no_refresh_id_token":true,"longest_id_token_ms":120000,"userinfo_signed_response_alg":"EdDSA",` +
			`"post_logout_redirect_uris":["https://a.example/"],"logout_ends_grants":true,"backchannel_logout_uri":"https://a.example/out","backchannel_logout_session_required":true,` +
			`"access_token_format":"jwt","signing_alg":"RS256","jwt_type":"JWT","audience":["a"],"apis":["https://api.example read"],"audience_parameter":true,` +
			`"introspect":true,"introspect_audience":["b"],"registered_by":"document","assertion":{"alg":"RS256","jwks":{"keys":[]},"token_endpoint_audience":true,` +
			`"issuer":"https://i.example","subject":"s","audience":"a","claims":["x=y"],"max_lifetime_ms":60000},` +
			`"secrets":[{"id":"s","slow":"x","created_at":1,"expires_at":2}],"created_at":1,"updated_at":2,"version":3}`: {
			ID: "all", Realm: "/api", State: store.ClientDisabled, LongestIDToken: 120_000, RegisteredBy: store.ByDocument,
			Secrets: []store.Secret{{ID: "s", Slow: "x", CreatedAt: 1, ExpiresAt: 2}}, CreatedAt: 1, UpdatedAt: 2, Version: 3,
			Settings: store.Settings{
				Name: "All", Auth: store.AuthFederated, Native: true, NoPKCE: true, FirstParty: true, GrantTypes: []string{"client_credentials"}, RedirectURIs: []string{}, Scope: oauth.Scope(""),
				NoRotation: true, RetryWindow: store.InMilliseconds(0), ReuseGrace: store.InMilliseconds(time.Minute),
				IDTokenAlg: "ES256", IDTokenLifetime: store.InMilliseconds(90 * time.Second), NoRefreshIDToken: true, UserInfoAlg: "EdDSA",
				PostLogoutRedirectURIs: []string{"https://a.example/"}, LogoutEndsGrants: true, LogoutURI: "https://a.example/out", LogoutSession: true,
				TokenFormat: store.TokenJWT, SigningAlg: "RS256", JWTType: "JWT", Audience: []string{"a"}, APIs: []string{"https://api.example read"}, AudienceParameter: true,
				Introspect: true, IntrospectAudience: []string{"b"},
				Assertion: store.AssertionRule{Alg: "RS256", Keys: json.RawMessage(`{"keys":[]}`), TokenEndpoint: true, Issuer: "https://i.example", Subject: "s", Audience: "a",
					Claims: []string{"x=y"}, Lifetime: store.InMilliseconds(time.Minute)},
			},
		},
	} {
		got, err := store.Entry{Kind: store.EntryClient, ID: want.ID, Body: []byte(text)}.Client()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as %+v, %v", text, got, err)
		}
		var before, after map[string]any // the order of members does not matter
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want.Entry().Body, &after); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s\nis written as %s", text, want.Entry().Body)
		}
	}
}

// Requests read the clients of the directory while a clone is changed.
func TestTheCloneOfAClientSharesNoList(t *testing.T) {
	c := plaintest.Filled(t, reflect.TypeFor[store.Client]()).Interface().(store.Client)
	lists := 0
	var compare func(name string, a, b reflect.Value)
	compare = func(name string, a, b reflect.Value) {
		switch a.Kind() {
		case reflect.Struct:
			for i := range a.NumField() {
				compare(name+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
			}
		case reflect.Slice:
			if lists++; a.Pointer() == b.Pointer() {
				t.Errorf("%s is shared: clone it in Clone", name)
			}
		}
	}
	compare("Client", reflect.ValueOf(c), reflect.ValueOf(c.Clone()))
	if lists < 10 {
		t.Errorf("%d lists are compared", lists)
	}
}

// Nothing in the directory that has a realm is among the changes of another realm.
func TestChangesOfARealm(t *testing.T) {
	var all store.Changes
	lists := map[string]bool{}
	for i := range reflect.TypeFor[store.Changes]().NumField() {
		field, list := reflect.TypeFor[store.Changes]().Field(i), reflect.ValueOf(&all).Elem().Field(i)
		if field.Type.Kind() != reflect.Slice || field.Type.Elem().Kind() != reflect.Struct {
			continue
		}
		if _, ok := field.Type.Elem().FieldByName("Realm"); !ok {
			continue
		}
		for _, realm := range []string{"/api", "/staff"} {
			item := reflect.New(field.Type.Elem()).Elem()
			item.FieldByName("Realm").SetString(realm)
			list.Set(reflect.Append(list, item))
		}
		lists[field.Name] = true
	}
	own := reflect.ValueOf(all.OfRealm("/staff"))
	for name := range lists {
		if list := own.FieldByName(name); list.Len() != 1 || list.Index(0).FieldByName("Realm").String() != "/staff" {
			t.Errorf("%s of the realm /staff: %v", name, list)
		}
	}
	if len(lists) < 4 {
		t.Errorf("%v are compared", lists)
	}
}
