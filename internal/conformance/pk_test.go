package conformance_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

var assertionAlgorithms = []string{"ES256", "EdDSA", "PS256", "RS256"}

// An assertingClient signs client assertions, each with a new jti.
type assertingClient struct {
	oauthClient
	d   *deployment
	key *ecdsa.PrivateKey
	kid string
	jti int
}

func (d *deployment) assertingClient(change func(*client.Registration)) *assertingClient {
	d.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		d.t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	if err != nil {
		d.t.Fatal(err)
	}
	r := client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, NoPKCE: true, Assertion: store.AssertionRule{Keys: set}}}
	if change != nil {
		change(&r)
	}
	return &assertingClient{d.client(r), d, key, "k", 0}
}

// assert returns a new assertion with changed claims.
func (c *assertingClient) assert(change map[string]any) string {
	c.d.t.Helper()
	c.jti++
	now := c.d.now().Unix()
	claims := map[string]any{"iss": c.ID, "sub": c.ID, "aud": c.d.issuer.ID, "jti": fmt.Sprint(c.jti), "iat": now, "exp": now + 60}
	for name, value := range change {
		claims[name] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: c.key, KeyID: c.kid}}, nil)
	if err != nil {
		c.d.t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		c.d.t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		c.d.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		c.d.t.Fatal(err)
	}
	return text
}

func (c *assertingClient) with(assertion string, form url.Values) url.Values {
	out := url.Values{"client_assertion": {assertion}, "client_assertion_type": {jwtBearer}}
	for name, values := range form {
		out[name] = values
	}
	return out
}

func (c *assertingClient) redemption() url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {c.d.code(c.oauthClient).Code}, "redirect_uri": {redirect}}
}

func TestPK01_AnAssertionAuthenticatesWhereverClientsDo(t *testing.T) {
	d := start(t)
	c := d.assertingClient(nil)
	if c.secret != "" {
		t.Error("the client got a secret")
	}
	pair := d.mustIssue(d.post(c.with(c.assert(nil), c.redemption())))
	refreshed := d.mustIssue(d.post(c.with(c.assert(nil), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.RefreshToken}, "client_id": {c.ID}})))
	about := url.Values{"token": {refreshed.RefreshToken}}
	if a := postAt(d, d.at("introspection_endpoint"), c.with(c.assert(nil), about)); a.status != 200 || !strings.HasPrefix(a.body, `{"active":true,`) {
		t.Errorf("introspection: %v", a)
	}
	if a := postAt(d, d.at("revocation_endpoint"), c.with(c.assert(nil), about)); a.status != 200 {
		t.Errorf("revocation: %v", a)
	}
}

func TestPK11_PK28_AWrongAssertionIsNotExplainedToItsSender(t *testing.T) {
	d := start(t)
	c := d.assertingClient(nil)
	form := c.redemption()
	for name, change := range map[string]map[string]any{
		"another audience": {"aud": "https://other.example"}, "another client": {"sub": d.a.ID, "iss": d.a.ID}, "expired": {"exp": d.now().Unix()}, "no jti": {"jti": ""},
	} {
		a := d.post(c.with(c.assert(change), form))
		want(t, a, 400, "invalid_client")
		if a.body != `{"error":"invalid_client","error_description":"client authentication failed"}` {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	used := c.assert(nil)
	d.mustIssue(d.post(c.with(used, form)))
	want(t, d.post(c.with(used, c.redemption())), 400, "invalid_client")
	// Without an assertion the client is not authenticated (PK-23), and a secret is no
	// assertion.
	want(t, d.post(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {c.ID}}), 400, "invalid_client")
	want(t, d.post(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {c.ID}, "client_secret": {"x"}}), 400, "invalid_client")
	want(t, d.post(d.a.identify(c.with(c.assert(nil), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}}))), 400, "invalid_request")
}

// A request that fails has used its assertion, but not its code: the next request redeems
// the code with another assertion.
func TestPK11_AFailingRequestUsesItsAssertion(t *testing.T) {
	d := start(t)
	c := d.assertingClient(nil)
	for name, broken := range map[string]struct {
		form  url.Values
		proof []string
		code  string
	}{
		"a bad proof":                 {nil, []string{"x"}, "invalid_dpop_proof"},
		"a grant type not allowed":    {url.Values{"grant_type": {"client_credentials"}}, nil, "unauthorized_client"},
		"a code that is none":         {url.Values{"code": {"x"}}, nil, "invalid_grant"},
		"a redirect URI of no client": {url.Values{"redirect_uri": {"https://other.example"}}, nil, "invalid_grant"},
	} {
		form, assertion := c.redemption(), c.assert(nil)
		fails := c.with(assertion, form)
		for member, values := range broken.form {
			fails[member] = values
		}
		if a := d.withProofs(fails, broken.proof...); a.Error != broken.code {
			t.Errorf("%s: %v", name, a)
		}
		want(t, d.post(c.with(assertion, form)), 400, "invalid_client")
		d.mustIssue(d.post(c.with(c.assert(nil), form)))
	}
}

func TestPK28_AFaultOfOursIsNoFaultOfTheClient(t *testing.T) {
	d := start(t)
	d.clients.Shared = true // the store records each jti
	d.clients.Keys = func(context.Context, string, string, time.Time, func(keyset.Set) bool) (keyset.Set, error) {
		return nil, errors.New("no answer")
	}
	c := d.assertingClient(nil)
	pair := d.mustIssue(d.post(c.with(c.assert(nil), c.redemption())))
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.RefreshToken}, "client_id": {c.ID}}
	d.faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	want(t, d.post(c.with(c.assert(nil), form)), 503, "temporarily_unavailable")
	d.faulty.Heal()
	was := c.Assertion
	c.oauthClient = d.change(c.oauthClient, func(c *store.Client) { c.Assertion.Keys, c.Assertion.KeysURI = nil, "https://client.example/jwks" })
	want(t, d.post(c.with(c.assert(nil), form)), 503, "temporarily_unavailable")
	c.oauthClient = d.change(c.oauthClient, func(c *store.Client) { c.Assertion = was })
	d.mustIssue(d.post(c.with(c.assert(nil), form)))
}

// An unknown kid counts as a failed authentication, like a wrong secret. Only keys that
// cannot be fetched are the server's fault.
func TestPK29_AnUnknownKidIsCountedAndCausesNoFetches(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures, o.ClientFailures = 600, 30 })
	c := d.assertingClient(nil)
	set, fetches, down := c.Assertion.Keys, 0, false
	publisher := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fetches++; down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Write(set)
	}))
	t.Cleanup(publisher.Close)
	now := time.Now()
	d.clients.Keys = keyset.NewCache(func() time.Time { return now }, nil, nil).Registered
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: publisher.Certificate().Raw}))
	c.oauthClient = d.change(c.oauthClient, func(c *store.Client) {
		c.Assertion.Keys, c.Assertion.KeysURI, c.Assertion.KeysCA = nil, publisher.URL, ca
	})
	pair := d.mustIssue(d.post(c.with(c.assert(nil), c.redemption())))
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.RefreshToken}, "client_id": {c.ID}}
	d.log.Reset()
	wrong := *c
	wrong.kid = "unknown"
	statuses := map[int]int{}
	for range 40 {
		statuses[d.post(wrong.with(wrong.assert(nil), form)).status]++
	}
	if statuses[400] < 30 || statuses[400]+statuses[429] != 40 || statuses[429] == 0 || fetches != 1 {
		t.Errorf("40 with an unknown kid: %v after %d fetches", statuses, fetches)
	}
	if log := d.log.String(); strings.Contains(log, `"level":"ERROR"`) || strings.Count(log, `"level":"INFO"`) < 40 {
		t.Errorf("the log of 40 requests with an unknown kid:\n%.2000s", log)
	}
	down = true
	other := d.assertingClient(func(r *client.Registration) {
		r.Assertion.Keys, r.Assertion.KeysURI, r.Assertion.KeysCA = nil, publisher.URL+"/2", ca
	})
	want(t, d.post(other.with(other.assert(nil), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {other.ID}})), 503, "temporarily_unavailable")
}

// If the host of a self-registered client is down, that is no error in the log: otherwise
// anybody could fill the log with errors.
func TestPK29_KeysOfAClientThatRegisteredItselfAreNoErrorOfOurs(t *testing.T) {
	const id = "https://agent.example/client.json"
	d := start(t)
	d.described(id)
	d.clients.OwnKeys = func(context.Context, string, netip.Prefix, func(keyset.Set) bool) (keyset.Set, error) {
		return nil, errors.New("no answer")
	}
	c := d.assertingClient(nil)
	d.log.Reset()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {id}}
	want(t, d.post(c.with(c.assert(map[string]any{"iss": id, "sub": id}), form)), 503, "temporarily_unavailable")
	if log := d.log.String(); strings.Contains(log, `"level":"ERROR"`) || !strings.Contains(log, `"level":"WARN"`) || !strings.Contains(log, id) {
		t.Errorf("the log is\n%s", log)
	}
}

// Requests that wait for a slow host of a self-registered client hold no slot.
func TestPK29_ASlowHostHoldsNoSlot(t *testing.T) {
	d := start(t, func(o *options) { o.Capacity.Requests = 64 })
	ids := []string{"https://slow.example/client.json", "https://slower.example/client.json", "https://agent.example/client.json"}
	d.described(ids...)
	waiting, done := make(chan struct{}, 9), make(chan struct{})
	d.clients.OwnKeys = func(ctx context.Context, uri string, _ netip.Prefix, _ func(keyset.Set) bool) (keyset.Set, error) {
		if strings.Contains(uri, "slow") {
			waiting <- struct{}{}
			return nil, cmp.Or(overload.Await(ctx, done), errors.New("no answer"))
		}
		return nil, nil
	}
	c := d.assertingClient(nil)
	ask := func(id string) answer {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {id}}
		return d.post(c.with(c.assert(map[string]any{"iss": id, "sub": id}), form))
	}
	d.tokens(d.a) // for the next second, these clients may use two slots
	var asked sync.WaitGroup
	for _, id := range []string{ids[0], ids[1], ids[0]} {
		asked.Go(func() {
			defer func() { waiting <- struct{}{} }() // even if the test ends early
			if a := ask(id); a.status != 503 {
				t.Errorf("%s: %v", id, a)
			}
		})
		<-waiting
	}
	d.tokens(d.a)
	want(t, ask(ids[2]), 400, "invalid_client")
	if running, _ := d.server.Queue.Load(); running > 0 {
		t.Errorf("%d hold a slot", running)
	}
	close(done)
	asked.Wait()
	if running, queued := d.server.Queue.Load(); running+queued != 0 {
		t.Errorf("at the end, %d run, %d are queued", running, queued)
	}
}

// Only an authenticated client of an operator takes slots from self-registered clients;
// naming such a client does not suffice.
func TestOP07_WhoNamesAnOperatorsClientTakesNoSlots(t *testing.T) {
	const id = "https://agent.example/client.json"
	d := start(t, func(o *options) { o.front, o.Capacity.Requests = true, 64 })
	d.described(id)
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	pair, _ := d.tokens(d.a)
	code := d.code(public, func(a *issuer.Authorization) { a.Challenge = challenge })
	spa := d.mustIssue(d.post(with(public.redeem(code.Code), "code_verifier", verifier)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	get := func(target string, lines ...string) *request {
		r := newRequest(nil)
		r.method, r.target, r.header = "GET", target, append(r.header, lines...)
		return r
	}
	slots := func() (n int) {
		for ; d.server.Queue.Enter(gone, overload.Own, netip.Prefix{}) == nil; n++ {
			defer d.server.Queue.Leave(overload.Own, netip.Prefix{})
		}
		return n
	}
	for name, c := range map[string]struct {
		ask  *request
		want int
	}{
		"a wrong secret":         {newRequest(with(d.a.refresh("x"), "client_secret", "x")), 56},
		"a public client's name": {newRequest(public.refresh("x")), 56},
		"one of its own":         {newRequest(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {id}}), 56},
		"a page":                 {get("/oauth2/authorize?client_id=" + d.a.ID), 56},
		"a token, checked":       {get("/oauth2/verify", "Authorization: Bearer "+pair.AccessToken), 56},
		"the secret":             {newRequest(d.a.refresh("x")), 2},
		"introspection":          {d.a.about(introspectPath, "x"), 2},
		"a public one's token":   {newRequest(public.refresh(spa.RefreshToken)), 2},
	} {
		eventually(t, "a second without operators' clients is over", func() bool { return slots() == 56 })
		eventually(t, name, func() bool {
			d.send(c.ask)
			return slots() == c.want
		})
	}
}

// described enables client metadata documents for these ids, with a user's consent to
// each.
func (d *deployment) described(ids ...string) {
	d.t.Helper()
	d.directory.AdmitSelfRegistered(func(_, named string) bool { return slices.Contains(ids, named) })
	for _, id := range ids {
		c := store.Client{
			ID: id, Realm: realm, RegisteredBy: store.ByDocument, State: store.ClientEnabled, Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, GrantTypes: store.DefaultGrantTypes,
				RedirectURIs: []string{redirect}, Assertion: store.AssertionRule{KeysURI: strings.Replace(id, "client.json", "jwks", 1)},
			},
		}
		if err := d.store.Commit(d.t.Context(), store.Change{Documents: []store.Document{c.Record(grant.At(d.now()), grant.At(d.now().Add(time.Hour)))}}); err != nil {
			d.t.Fatal(err)
		}
	}
}

func postAt(d *deployment, target string, form url.Values) answer {
	d.t.Helper()
	r := newRequest(form)
	r.target = target
	return d.send(r)
}
