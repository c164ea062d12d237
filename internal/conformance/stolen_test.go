package conformance_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// A node sends a request to one of two nodes. They share a store; each remembers proofs that
// need no nonce only itself.
type node func(*request) answer

// another starts a second node of the deployment.
func (d *deployment) another() node {
	d.t.Helper()
	o := options{
		Options:  server.Options{Site: server.Site{PublicURL: publicURL}, BasicAuthStatus: config.Default().Errors.BasicAuthStatus, Proofs: server.Proofs{Nonces: d.server.Proofs.Nonces, OfAll: d.server.Proofs.OfAll}},
		Capacity: overload.Capacity{Requests: 64},
	}
	h := newServer(d.issuer, &o, slog.New(slog.DiscardHandler)).Handler()
	return func(r *request) (a answer) {
		d.t.Helper()
		in, err := http.ReadRequest(bufio.NewReader(strings.NewReader(r.text())))
		if err != nil {
			d.t.Fatal(err)
		}
		in.RemoteAddr, in.TLS = "192.0.2.7:1000", &tls.ConnectionState{}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, in)
		a.status, a.header, a.body = w.Code, w.Header(), w.Body.String()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				d.t.Fatal(err)
			}
		}
		return a
	}
}

// A loot is the set of things that a thief has stolen from a victim, by name.
type loot map[string]bool

var things = []string{"access token", "refresh token", "code", "request_uri", "proof", "nonce"}

// loots returns each thing alone, and each pair.
func loots() (list []loot) {
	for i, one := range things {
		list = append(list, loot{one: true})
		for _, other := range things[i+1:] {
			list = append(list, loot{one: true, other: true})
		}
	}
	return list
}

// A victim is a client whose tokens are bound to its key, with its user. Everything was
// used once before the theft: the proofs a moment ago, at the first node.
type victim struct {
	c                                 oauthClient
	key                               *testkit.Prover
	access, refresh, code, requestURI string
	apiProof, tokenProof, nonce       string
}

func (d *deployment) robbed(b *browser, auth store.AuthRule) *victim {
	d.t.Helper()
	v := &victim{c: d.client(client.Registration{Settings: store.Settings{Auth: auth, Scope: "openid a", FirstParty: true}}), key: testkit.NewProver(d.t)}
	v.nonce = d.nonce()
	proof := func(method, uri, token string) string {
		return v.key.Proof(method, uri, token, d.now(), testkit.WithNonce(v.nonce))
	}
	grant := func() string {
		return b.get(asking(v.c, "dpop_jkt="+v.key.JKT.String())).granted(d.t, redirect).Get("code")
	}
	first := d.mustIssue(d.withProofs(v.c.challenged(grant()), proof("POST", tokenURL, "")))
	v.tokenProof = proof("POST", tokenURL, "")
	pair := d.mustIssue(d.withProofs(v.c.refresh(first.RefreshToken), v.tokenProof))
	v.access, v.refresh, v.code = pair.AccessToken, pair.RefreshToken, grant()
	v.apiProof = proof("GET", publicURL+userInfoPath, v.access)
	if a := d.presenting("GET", userInfoPath, "DPoP", v.access, "DPoP: "+v.apiProof); a.status != 200 {
		d.t.Fatalf("the victim itself: %d", a.status)
	}
	pushed := pushing(v.c)
	uri, _ := members(d.t, d.send(pushed).body)["request_uri"].(string)
	v.requestURI = uri
	return v
}

// nonce returns the nonce that proofs must contain now, or "".
func (d *deployment) nonce() string {
	if d.server.Proofs.Nonces == nil {
		return ""
	}
	return d.server.Proofs.Nonces.At(d.now())
}

func TestDP39_NothingStolenIsOfUse(t *testing.T) {
	t.Run("without nonces", func(t *testing.T) { nothingStolenIsOfUse(t, false) })
	t.Run("with nonces", func(t *testing.T) { nothingStolenIsOfUse(t, true) })
}

// nothingStolenIsOfUse tests that a thief who has one or two of the victim's things gets
// nothing beyond what docs/reference/dpop.md concedes: without nonces, at a node that has
// not seen a proof, the proof's request can be repeated within its minute, and its result
// is bound to the victim's key.
func nothingStolenIsOfUse(t *testing.T, nonces bool) {
	for name, auth := range map[string]store.AuthRule{"public": store.AuthNone, "confidential": store.AuthPost} {
		choices := []func(*options){alone}
		if nonces {
			choices = append(choices, withNonces(true))
		}
		d, b := signedIn(t, choices...)
		thief := testkit.NewProver(t)
		for _, has := range loots() {
			v := d.robbed(b, auth)
			nodes := map[string]node{"first node": d.send, "another node": d.another()}
			for _, later := range []time.Duration{0, 61 * time.Second, 2 * time.Minute} {
				d.step(later)
				for at, send := range nodes {
					about, conceded := fmt.Sprintf("%s client, %v, %s later, %s", name, has, later, at), at == "another node" && later == 0 && !nonces
					d.tryToken(t, about, v, has, thief, send, conceded)
					d.tryAPI(t, about, v, has, thief, send, conceded)
				}
			}
			if has["request_uri"] && len(has) == 1 {
				// The thief gets the client's login page, and another client an error
				// page.
				d.browser().get(brings(d.a.ID, v.requestURI)).refusedPage(t, 400)
			}
			// The owner can still use its tokens, whatever the thief has tried.
			v.nonce = d.nonce()
			own := d.withProofs(v.c.refresh(v.refresh), v.key.Proof("POST", tokenURL, "", d.now(), testkit.WithNonce(v.nonce)))
			if own.status != 200 && !(auth == store.AuthNone && has["refresh token"] && has["proof"] && !nonces) {
				t.Errorf("%s client, %v: its owner cannot go on: %s", name, has, own)
			}
		}
	}
}

// Where a nonce is demanded, a proof that cannot be recorded for all nodes is not accepted,
// and nothing else is used.
func TestAProofThatCannotBeRecordedIsNotAccepted(t *testing.T) {
	d, b := signedIn(t, withNonces(true), alone)
	v := d.robbed(b, store.AuthNone)
	hangs := func(ctx context.Context, _ func() error) error {
		if _, ends := ctx.Deadline(); !ends {
			t.Error("a store that hangs is waited for without end")
		}
		return context.DeadlineExceeded
	}
	for what, fault := range map[string]storetest.Fault{"no answer": storetest.Unanswered, "lost": storetest.Lost, "full": storetest.Full, "hangs": hangs} {
		for uri, send := range map[string]func(proof string) answer{
			tokenURL:                 func(proof string) answer { return d.withProofs(v.c.refresh(v.refresh), proof) },
			publicURL + userInfoPath: func(proof string) answer { return d.presenting("GET", userInfoPath, "DPoP", v.access, "DPoP: "+proof) },
		} {
			method, token := "POST", ""
			if uri != tokenURL {
				method, token = "GET", v.access
			}
			proof := func() string { return v.key.Proof(method, uri, token, d.now(), testkit.WithNonce(v.nonce)) }
			d.faulty.Inject(storetest.CommitDocument, 1, fault)
			if a := send(proof()); a.status != 503 || a.Error != string(oauth.TemporarilyUnavailable) {
				t.Errorf("%s, %s: %d %s", what, uri, a.status, a.body)
			}
			if a := send(proof()); a.status != 200 {
				t.Errorf("%s, %s, with a new proof: %d %s", what, uri, a.status, a.body)
			}
		}
	}
}

// The record of a proof outlives the proof, even if its iat is as far ahead as can be, and a
// node sweeps whose clock is ahead of the other by the largest max_skew.
func TestTheRecordOfAProofOutlivesTheProof(t *testing.T) {
	d, b := signedIn(t, withNonces(true), alone)
	v := d.robbed(b, store.AuthNone)
	ahead := v.key.Proof("POST", tokenURL, "", d.now().Add(59*time.Second), testkit.WithNonce(d.server.Proofs.Nonces.At(d.now().Add(time.Minute))))
	pair := d.mustIssue(d.withProofs(v.c.refresh(v.refresh), ahead))
	d.step(119 * time.Second)
	if _, _, err := d.sqlite.Sweep(t.Context(), store.SweptDocuments, "", grant.At(d.now().Add(10*time.Second)), 1000); err != nil {
		t.Fatal(err)
	}
	r := newRequest(v.c.refresh(pair.RefreshToken))
	r.header = append(r.header, "DPoP: "+ahead)
	if a := d.another()(r); a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("two minutes later, at another node: %s", a)
	}
}

// A client that registered itself is not authenticated until a user has agreed to it. That
// it sends a secret does not make it confidential, so that its proofs need no nonce.
func TestDP23_ANonceIsDemandedOfAClientThatIsNotVerified(t *testing.T) {
	d := start(t, withNonces(false), registering)
	d.withAPIs()
	c := d.registered(`{"token_endpoint_auth_method":"none","redirect_uris":["` + redirect + `"],"grant_types":["authorization_code","` + store.GrantDeviceCode + `"]}`)
	key := testkit.NewProver(t)
	form := c.polls(d.codes(c))
	form.Set("client_secret", "x")
	push := func(nonce string) answer {
		r := pushing(c, "client_secret=x", "scope=orders")
		r.header = append(r.header, "DPoP: "+key.Proof("POST", publicURL+pushURL, "", d.now(), testkit.WithNonce(nonce)))
		return d.send(r)
	}
	poll := func(nonce string) answer { return d.proven(form, key, testkit.WithNonce(nonce)) }
	for what, send := range map[string]func(nonce string) answer{"poll": poll, "push": push} {
		a := send("")
		if a.status != 400 || a.Error != string(oauth.UseDPoPNonce) || nonceOf(a) == "" {
			t.Errorf("%s: %s, %q", what, a, nonceOf(a))
		}
		if a = send(d.nonce()); a.status != 201 && a.Error != string(oauth.AuthorizationPending) {
			t.Errorf("%s, with a nonce: %s", what, a)
		}
	}
}

// proofsOf returns the proofs that a thief can present: none, one by the thief's own key,
// with the nonce if it is stolen, and the stolen ones.
func (v *victim) proofsOf(d *deployment, has loot, thief *testkit.Prover, method, uri, token string) map[string][]string {
	list := map[string][]string{"no proof": nil, "the thief's proof": {thief.Proof(method, uri, token, d.now())}}
	if has["nonce"] {
		list["the thief's proof with the nonce"] = []string{thief.Proof(method, uri, token, d.now(), testkit.WithNonce(v.nonce))}
	}
	if has["proof"] {
		list["the stolen proof of a token request"], list["the stolen proof of an API request"] = []string{v.tokenProof}, []string{v.apiProof}
	}
	return list
}

// tryToken presents the loot at the token endpoint, without a confidential client's
// secret and without the verifier.
func (d *deployment) tryToken(t *testing.T, about string, v *victim, has loot, thief *testkit.Prover, send node, unseen bool) {
	t.Helper()
	for what, form := range map[string]url.Values{
		"refresh token": {"grant_type": {"refresh_token"}, "refresh_token": {v.refresh}, "client_id": {v.c.ID}},
		"code":          {"grant_type": {"authorization_code"}, "code": {v.code}, "redirect_uri": {redirect}, "client_id": {v.c.ID}},
	} {
		if !has[what] {
			continue
		}
		for proven, proofs := range v.proofsOf(d, has, thief, "POST", tokenURL, "") {
			r := newRequest(form)
			for _, p := range proofs {
				r.header = append(r.header, "DPoP: "+p)
			}
			a := send(r)
			// A token request's proof is valid for any token request with its key.
			may := unseen && what == "refresh token" && v.c.Auth == store.AuthNone && proven == "the stolen proof of a token request"
			if a.status != 200 {
				continue
			}
			use := d.presenting("GET", userInfoPath, "DPoP", a.AccessToken, "DPoP: "+thief.Proof("GET", publicURL+userInfoPath, a.AccessToken, d.now(), testkit.WithNonce(d.nonce())))
			if !may || a.TokenType != "DPoP" || use.status == 200 {
				t.Errorf("%s: %s with %s is honoured", about, what, proven)
			}
		}
	}
}

// tryAPI presents the loot at resources, with every method and scheme.
func (d *deployment) tryAPI(t *testing.T, about string, v *victim, has loot, thief *testkit.Prover, send node, unseen bool) {
	t.Helper()
	if !has["access token"] {
		return
	}
	const origin = "https://api.example"
	for _, method := range []string{"GET", "POST"} {
		for path, uri := range map[string]string{userInfoPath: publicURL + userInfoPath, verifyPath + "?dpop=" + url.QueryEscape(origin): origin + "/orders", "/oauth2/tokeninfo": publicURL + "/oauth2/tokeninfo"} {
			for _, scheme := range []string{"Bearer", "DPoP"} {
				for proven, proofs := range v.proofsOf(d, has, thief, method, uri, v.access) {
					empty := ""
					r := newRequest(nil)
					r.method, r.target, r.body = method, path, &empty
					r.set("Content-Type", "")
					r.header = append(r.header, "Authorization: "+scheme+" "+v.access, "X-Forwarded-Method: "+method, "X-Forwarded-Uri: /orders")
					for _, p := range proofs {
						r.header = append(r.header, "DPoP: "+p)
					}
					may := unseen && scheme == "DPoP" && method == "GET" && path == userInfoPath && proven == "the stolen proof of an API request"
					if a := send(r); a.status == 200 && !may {
						t.Errorf("%s: %s %s by %s with %s is honoured", about, method, path, scheme, proven)
					}
				}
			}
		}
	}
}
