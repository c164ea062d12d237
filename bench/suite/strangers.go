package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// This file creates the self-registered clients, and what they publish.

const sharedAPI = "https://api.example"

// registerOwn adds self-registered clients to a dataset's store, each with n grants for
// an API that allows them.
func (d *dataset) registerOwn(ctx context.Context, n int) (list []*dataset, err error) {
	st, err := sqlite.Open(ctx, d.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	api := store.API{ID: sharedAPI, Realm: realm, Number: 1, Open: true, Version: 1, Scopes: []store.APIScope{{Name: "orders", Number: 1}}}
	if err := st.Commit(ctx, store.Change{Entries: []store.Entry{api.Entry()}}); err != nil {
		return nil, err
	}
	directory, err := directory.Open(ctx, st, d.kek, keys.Schedule{Registrations: true}, slog.New(slog.DiscardHandler), time.Now)
	if err == nil {
		err = directory.RotateDue(ctx) // the key of registrations
	}
	if err != nil {
		return nil, err
	}
	registrations := client.Registrations{Realm: realm, Directory: directory, Now: time.Now}
	for range ownClients {
		answer, err := registrations.Register(fmt.Sprintf(`{"redirect_uris":[%q],"token_endpoint_auth_method":"client_secret_post"}`, callback))
		if err != nil {
			return nil, err
		}
		c, err := registrations.Client(answer.ID, callback)
		if err != nil {
			return nil, err
		}
		if err := st.Commit(ctx, store.Change{Documents: []store.Document{c.Record(grant.At(time.Now()), grant.At(time.Now().Add(day)))}}); err != nil {
			return nil, err
		}
		own := &dataset{dir: d.dir, clientID: answer.ID, scope: "orders", apis: grant.APIs{1}, secret: answer.Secret, ring: directory.Ring(), kek: d.kek, tokens: make([]string, n)}
		if err := own.makeGrants(ctx, st, policy); err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	return list, nil
}

// A publisher serves clients' metadata documents and key sets on this machine, where a
// --dev server fetches them.
type publisher struct {
	origin string
	server *http.Server
	key    *ecdsa.PrivateKey
	signer jose.Signer
	slow   chan struct{} // closed at the end
}

// publish starts a publisher with the certificate of a --dev server.
func publish(dir string) (*publisher, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "dev-cert.pem"), filepath.Join(dir, "dev-key.pem"))
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, err
	}
	p := &publisher{origin: "https://" + l.Addr().String(), slow: make(chan struct{})}
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if p.signer, err = p.signerOf("known"); err != nil {
		return nil, err
	}
	p.server = &http.Server{Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadTimeout: time.Minute}
	go p.server.Serve(l)
	return p, nil
}

func (p *publisher) close() {
	close(p.slow)
	p.server.Close()
}

func (p *publisher) signerOf(kid string) (jose.Signer, error) {
	return jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: kid}}, nil)
}

// ServeHTTP responds by path: /KIND/ID is the document of a client, and /KIND/ID/keys its
// key set.
func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", "application/json")
	switch _, set := strings.CutSuffix(r.URL.Path, "/keys"); {
	case set && kind == "slow":
		select {
		case <-p.slow:
		case <-r.Context().Done():
		}
	case set:
		w.Write(p.keySet())
	default:
		w.Write(p.document(kind, p.origin+r.URL.Path))
	}
}

func (p *publisher) keySet() json.RawMessage {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "known", Algorithm: string(jose.ES256)}}})
	if err != nil {
		panic(err)
	}
	return text
}

// document returns a client's metadata: with keys at its own address, or inline by its
// kind.
func (p *publisher) document(kind, address string) []byte {
	d := map[string]any{"client_id": address, "client_name": "Stranger", "redirect_uris": []string{callback}, "token_endpoint_auth_method": "private_key_jwt"}
	switch kind {
	case "inline":
		d["jwks"] = p.keySet()
	case "large":
		d["jwks"], d["token_endpoint_auth_signing_alg"] = largeKeys(), jose.RS256
	default:
		d["jwks_uri"] = address + "/keys"
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return text
}

// largeKeys returns the most expensive key set allowed: ten keys of 4,096 bits, two for
// each kid. Their private keys are unknown, but refusing a signature costs as much as
// accepting one.
func largeKeys() json.RawMessage {
	var keys []map[string]string
	for i := range 10 {
		n := make([]byte, 512)
		rand.Read(n)
		n[0] |= 0x80
		n[511] |= 1
		keys = append(keys, map[string]string{"kty": "RSA", "kid": fmt.Sprint(i / 2), "alg": "RS256", "n": b64(n), "e": b64(big.NewInt(65537).Bytes())})
	}
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return text
}

// admit adds n clients of a kind to the store, as after a user's consent.
func (p *publisher) admit(ctx context.Context, dir, kind string, n int) (ids []string, err error) {
	st, err := sqlite.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for i := range n {
		address := fmt.Sprintf("%s/%s/%d", p.origin, kind, i)
		described := client.Documents{Realm: realm, Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) {
			return client.ReadDocument(address, p.document(kind, address))
		}}
		c, err := described.Client(ctx, address, callback, netip.Prefix{})
		if err != nil {
			return nil, err
		}
		if err := st.Commit(ctx, store.Change{Documents: []store.Document{c.Record(grant.At(time.Now()), grant.At(time.Now().Add(day)))}}); err != nil {
			return nil, err
		}
		ids = append(ids, address)
	}
	return ids, nil
}

// registerSigner adds an operator's client with private_key_jwt, whose keys are at the
// publisher, and n grants.
func (d *dataset) registerSigner(ctx context.Context, p *publisher, n int) (_ *dataset, err error) {
	st, err := sqlite.Open(ctx, d.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ca, err := os.ReadFile(filepath.Join(d.dir, "dev-ca.pem"))
	if err != nil {
		return nil, err
	}
	registration := client.Registration{Settings: store.Settings{
		Name: "Signer", RedirectURIs: []string{callback}, Scope: scope, Auth: store.AuthPrivateKeyJWT,
		Assertion: store.AssertionRule{Alg: string(jose.ES256), KeysURI: p.origin + "/operator/0/keys", KeysCA: string(ca)},
	}}
	c, _, err := registration.Client(realm, d.ring, policy, grant.At(time.Now()))
	if err != nil {
		return nil, err
	}
	if err := st.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		return nil, err
	}
	signer := &dataset{dir: d.dir, clientID: c.ID, scope: scope, ring: d.ring, kek: d.kek, tokens: make([]string, n)}
	return signer, signer.makeGrants(ctx, st, policy)
}

// sign returns an assertion of a client.
func sign(by jose.Signer, id, issuer string) string {
	now := time.Now()
	payload := fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"jti":%q,"iat":%d,"exp":%d}`, id, id, issuer, rand.Text(), now.Unix(), now.Add(4*time.Minute).Unix())
	signed, err := by.Sign([]byte(payload))
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// forge returns an assertion with a wrong signature, of a client with large keys.
func forge(id, issuer string) string {
	now := time.Now()
	signature := make([]byte, 512)
	rand.Read(signature)
	signature[0] = 0 // makes it less than any modulus
	return b64([]byte(`{"alg":"RS256","kid":"0"}`)) + "." +
		b64(fmt.Appendf(nil, `{"iss":%q,"sub":%q,"aud":%q,"jti":%q,"iat":%d,"exp":%d}`, id, id, issuer, rand.Text(), now.Unix(), now.Add(4*time.Minute).Unix())) + "." + b64(signature)
}
