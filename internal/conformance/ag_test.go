package conformance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	theirIssuer  = "https://idp.example"
	theirCluster = "https://cluster.example"
)

// A trusted is a deployment that trusts an issuer of ID-JAGs and a workload platform.
type trusted struct {
	*deployment
	key        *ecdsa.PrivateKey
	agent, job oauthClient
	jti        int
}

func startTrusted(t *testing.T, with ...func(*options)) *trusted {
	t.Helper()
	d := &trusted{deployment: start(t, with...)}
	d.withAPIs()
	var err error
	if d.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	apis := []string{ordersAPI, invoicesAPI}
	d.agent = d.client(client.Registration{Settings: store.Settings{Name: "Agent", Scope: "a", GrantTypes: []string{}, APIs: apis}})
	d.job = d.client(client.Registration{Settings: store.Settings{Name: "Job", Scope: "a", GrantTypes: []string{}, APIs: apis}})
	d.trust(store.Trust{Issuer: theirIssuer, Kind: store.TrustIDJAG, ClientID: d.agent.ID, APIs: apis, SubjectFrom: store.SubjectSub})
	d.trust(store.Trust{Issuer: theirCluster, Kind: store.TrustWorkload, ClientID: d.job.ID, APIs: []string{ordersAPI}, Subjects: []string{"ns:shop:*"}})
	return d
}

// trust stores a trust whose key set is the issuer's key.
func (d *trusted) trust(is store.Trust) {
	d.t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: d.key.Public(), KeyID: "k"}}})
	if err != nil {
		d.t.Fatal(err)
	}
	view, err := d.directory.View()
	if err != nil {
		d.t.Fatal(err)
	}
	is.Keys, is.Realm, is.ID, is.Version, is.UpdatedAt = set, realm, store.TrustID(is.Issuer, is.Kind, is.ClientID), 1, grant.At(d.now())
	if row := view.TrustRow(realm, is.ID); row != nil {
		is.Version = row.Version + 1
	}
	if err := d.sqlite.Commit(context.Background(), store.Change{Entries: []store.Entry{is.Entry()}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
}

// signs returns a signed assertion; a nil claim is omitted.
func (d *trusted) signs(typ string, claims, change map[string]any) string {
	d.t.Helper()
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	opt := &jose.SignerOptions{}
	if typ != "" {
		opt.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: d.key, KeyID: "k"}}, opt)
	if err != nil {
		d.t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		d.t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		d.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		d.t.Fatal(err)
	}
	return text
}

func (d *trusted) idjag(change map[string]any) string {
	d.jti++
	now := d.now().Unix()
	return d.signs(oauth.JWTIDJAG, map[string]any{
		"iss": theirIssuer, "sub": "u-1", "aud": issuerID, "client_id": d.agent.ID, "jti": fmt.Sprint(d.jti), "iat": now, "exp": now + 120, "resource": ordersAPI, "scope": "orders",
	}, change)
}

func (d *trusted) workload(change map[string]any) string {
	now := d.now().Unix()
	return d.signs("JWT", map[string]any{"iss": theirCluster, "sub": "ns:shop:a", "aud": issuerID, "iat": now, "exp": now + 600}, change)
}

func asserted(text string, pairs ...string) url.Values {
	return with(url.Values{"grant_type": {oauth.GrantJWTBearer}, "assertion": {text}}, pairs...)
}

func TestAG01_AG03_AG05_AnAssertionOfAUser(t *testing.T) {
	d := startTrusted(t)
	text := d.idjag(nil)
	a := d.post(d.agent.identify(asserted(text)))
	token := a.accessToken(t)
	if want := `{"scope":"orders","expires_in":300,"token_type":"Bearer","access_token":"` + token + `"}`; a.body != want {
		t.Errorf("the answer is %s, want %s", a.body, want)
	}
	if in := d.introspect(d.agent, token); !strings.Contains(in.body, `"sub":"`+theirIssuer+`|u-1"`) || !strings.Contains(in.body, `"client_id":"`+d.agent.ID+`"`) {
		t.Errorf("introspection answers %s", in.body)
	}
	again := d.post(d.agent.identify(asserted(text)))
	if again.status != http.StatusOK {
		t.Errorf("the same assertion again: %v", again)
	}
	want(t, d.post(d.agent.identify(asserted(d.idjag(map[string]any{"jti": fmt.Sprint(d.jti), "sub": "u-2"})))), http.StatusBadRequest, "invalid_grant")
	want(t, d.post(d.agent.identify(asserted(""))), http.StatusBadRequest, "invalid_request")
	for name, change := range map[string]map[string]any{
		"for another client": {"client_id": d.job.ID}, "for the token endpoint": {"aud": issuerID + "/access_token"}, "too long": {"exp": d.now().Unix() + 301},
		"of another tenant": {"tenant": "t"}, "with details": {"authorization_details": []any{}}, "of another issuer": {"iss": theirCluster}, "bound to a key": {"cnf": map[string]any{"jkt": strings.Repeat("A", 42) + "E"}},
	} {
		if a := d.post(d.agent.identify(asserted(d.idjag(change)))); a.status != http.StatusBadRequest || !strings.Contains(a.body, `"invalid_grant"`) {
			t.Errorf("%s: %v", name, a)
		}
	}
	p := testkit.NewProver(t)
	if a := d.proven(d.agent.identify(asserted(d.idjag(nil))), p); a.status != http.StatusOK || a.TokenType != "DPoP" {
		t.Errorf("with a proof: %v, %s", a, a.TokenType)
	}
	// A cutoff of the user refuses assertions that were issued before it. The auth_time
	// of the token is that of the assertion.
	before, user := d.idjag(map[string]any{"sub": "u-3"}), theirIssuer+"|u-3"
	d.step(time.Second)
	d.cutOff(store.Cutoff{Subject: user})
	d.step(time.Second)
	want(t, d.post(d.agent.identify(asserted(before))), http.StatusBadRequest, "invalid_grant")
	after := d.post(d.agent.identify(asserted(d.idjag(map[string]any{"sub": "u-3", "auth_time": d.now().Unix() - 60}))))
	if in := d.introspect(d.agent, after.accessToken(t)); !strings.Contains(in.body, fmt.Sprintf(`"auth_time":%d`, d.now().Unix()-60)) {
		t.Errorf("introspection answers %s", in.body)
	}
	// Without a scope, the assertion gives all scopes of its resource.
	for uri, scope := range map[string]string{ordersAPI: "orders", invoicesAPI: "invoices"} {
		if a := d.post(d.agent.identify(asserted(d.idjag(map[string]any{"resource": uri, "scope": nil})))); a.Scope != scope {
			t.Errorf("for %s: %v, scope %s", uri, a, a.Scope)
		}
	}
	want(t, d.post(d.agent.identify(asserted(d.idjag(map[string]any{"scope": "none"})))), http.StatusBadRequest, "invalid_scope")
	want(t, d.post(d.agent.identify(asserted(text, "scope", "orders invoices"))), http.StatusBadRequest, "invalid_scope")
	want(t, d.post(d.agent.identify(asserted(text, "resource", invoicesAPI))), http.StatusBadRequest, "invalid_target")
	if claims := d.verified(d.post(d.agent.identify(asserted(d.idjag(map[string]any{"resource": nil, "scope": nil, "act": map[string]any{"sub": "x"}}), "resource", invoicesAPI))).accessToken(t)).claims; claims["aud"] != invoicesAPI || claims["act"].(map[string]any)["iss"] != theirIssuer {
		t.Errorf("claims %v", claims)
	}
}

func TestAG04_ClientsAuthenticateWithAssertionsOfUsers(t *testing.T) {
	d := startTrusted(t)
	want(t, d.post(asserted(d.idjag(nil))), http.StatusBadRequest, "invalid_client")
	want(t, d.post(asserted(d.idjag(nil), "client_id", d.agent.ID)), http.StatusBadRequest, "invalid_client")
	want(t, d.post(asserted(d.idjag(nil), "client_id", d.agent.ID, "client_secret", "wrong")), http.StatusBadRequest, "invalid_client")
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, APIs: []string{ordersAPI}}})
	d.trust(store.Trust{Issuer: theirIssuer, Kind: store.TrustIDJAG, ClientID: public.ID, APIs: []string{ordersAPI}})
	want(t, d.post(asserted(d.idjag(map[string]any{"client_id": public.ID}), "client_id", public.ID)), http.StatusBadRequest, "invalid_client")
	// An empty secret proves nothing either.
	r := newRequest(asserted(d.idjag(map[string]any{"client_id": public.ID})))
	r.basic(public.ID, "")
	want(t, d.send(r), http.StatusBadRequest, "unauthorized_client")
	d.trust(store.Trust{Issuer: theirCluster, Kind: store.TrustWorkload, ClientID: public.ID, APIs: []string{ordersAPI}, Subjects: []string{"ns:public:a"}})
	r = newRequest(asserted(d.workload(map[string]any{"sub": "ns:public:a"})))
	r.basic(public.ID, "")
	if a := d.send(r); a.status != http.StatusOK {
		t.Errorf("a workload of a public client: %v", a)
	}
}

func TestAG09_WorkloadsNeedNoClient(t *testing.T) {
	d := startTrusted(t)
	text := d.workload(nil)
	for range 2 {
		token := d.post(asserted(text)).accessToken(t)
		if v := d.verify(token); v.status != http.StatusOK || v.header["X-Auth-Subject"][0] != d.job.ID || v.header["X-Auth-Client"][0] != d.job.ID || v.header["X-Auth-Scope"][0] != "orders" {
			t.Errorf("verification answers %v", v)
		}
	}
	if a := d.post(asserted(text, "client_id", d.job.ID)); a.status != http.StatusOK {
		t.Errorf("with the client's id: %v", a)
	}
	want(t, d.post(asserted(text, "client_id", d.agent.ID)), http.StatusBadRequest, "invalid_grant")
	want(t, d.post(asserted(d.workload(map[string]any{"nonce": "n"}))), http.StatusBadRequest, "invalid_grant")
	want(t, d.post(asserted(d.workload(map[string]any{"sub": "ns:other:a"}))), http.StatusBadRequest, "invalid_grant")
	// A second trust fits as well, so the client is ambiguous.
	other := d.client(client.Registration{Settings: store.Settings{Name: "Other", GrantTypes: []string{}, APIs: []string{ordersAPI}}})
	d.trust(store.Trust{Issuer: theirCluster, Kind: store.TrustWorkload, ClientID: other.ID, APIs: []string{ordersAPI}, Subjects: []string{"ns:shop:a"}})
	want(t, d.post(asserted(text)), http.StatusBadRequest, "invalid_grant")
}

func TestAG10_KeysThatCannotBeFetched(t *testing.T) {
	d := startTrusted(t)
	d.trust(store.Trust{Issuer: theirIssuer, Kind: store.TrustIDJAG, ClientID: d.agent.ID, APIs: []string{ordersAPI}})
	view, err := d.directory.View()
	if err != nil {
		t.Fatal(err)
	}
	is := *view.TrustRow(realm, store.TrustID(theirIssuer, store.TrustIDJAG, d.agent.ID))
	is.Keys, is.KeysURI = nil, theirIssuer+"/keys"
	is.Version++
	if err := d.sqlite.Commit(context.Background(), store.Change{Entries: []store.Entry{is.Entry()}}); err != nil {
		t.Fatal(err)
	}
	d.poll()
	want(t, d.post(d.agent.identify(asserted(d.idjag(nil)))), http.StatusServiceUnavailable, "temporarily_unavailable")
}

func TestAG11_MetadataOfAssertions(t *testing.T) {
	m := start(t).metadata()
	if !strings.Contains(fmt.Sprint(m["grant_types_supported"]), oauth.GrantJWTBearer) || fmt.Sprint(m["authorization_grant_profiles_supported"]) != "["+oauth.ProfileIDJAG+"]" {
		t.Errorf("metadata: %v, %v", m["grant_types_supported"], m["authorization_grant_profiles_supported"])
	}
}
