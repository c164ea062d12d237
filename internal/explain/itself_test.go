package explain_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A client's own token has no grant. Its explanation shows the client, the token's id and
// the audit log's records, while it is active and after its revocation.
func TestATokenOfAClientForItselfHasAHistory(t *testing.T) {
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		k := testkit.New(t)
		k.Register(client.Registration{ID: "orders", Settings: store.Settings{Name: "Orders", Scope: "stock:read", GrantTypes: []string{store.GrantClientCredentials}, Auth: store.AuthEither, TokenFormat: format}})
		c, _ := k.View().Client(testkit.Realm, "orders")
		tokens, err := k.Issuer.ServiceToken(t.Context(), c, issuer.ServiceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		x := explainer(k.Issuer, k.Engine)
		x.Config.Audit.Directory = t.TempDir()
		record := func(name audit.Name, request string) {
			t.Helper()
			auditLog := audit.Open(audit.Options{Directory: x.Config.Audit.Directory, Node: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			auditLog.Record(audit.Event{Name: name, Outcome: audit.Success, ClientID: "orders", GrantID: tokens.GrantID.String(), RequestID: request})
			if err := auditLog.Close(); err != nil {
				t.Fatal(err)
			}
		}
		record(audit.ServiceTokenIssued, "5f2b6c0e9a1d4473")
		said := func(what string, want ...string) {
			t.Helper()
			v, err := x.Explain(t.Context(), explain.Parse(what), nil)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := v.Print(&b); err != nil {
				t.Fatal(err)
			}
			for _, text := range want {
				if !strings.Contains(b.String(), text) {
					t.Errorf("%s: %q is missing in\n%s", format, text, b.String())
				}
			}
			if _, err := json.Marshal(v); err != nil {
				t.Error(err)
			}
		}
		say := func(what string, want ...string) {
			t.Helper()
			for _, x.Recent = range []bool{false, true} { // a short log is read completely
				said(what, want...)
			}
		}
		id := tokens.GrantID.String()
		say(tokens.AccessToken, "of a client for itself (client_credentials), authentic", "would be answered now", "orders", id, "service_token_issued")
		if _, err := k.Issuer.Revoke(t.Context(), c, tokens.AccessToken, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		record(audit.ServiceTokenRevoked, "5f2b6c0e9a1d4474")
		say(tokens.AccessToken, "refused now: access_revoked", "its client has revoked it", id, "service_token_revoked")
		say(id, "it is the id of a token that a client got for itself", "service_token_issued")
		say("5f2b6c0e9a1d4473", "service_token_issued")
		if tokens, err = k.Issuer.ServiceToken(t.Context(), c, issuer.ServiceRequest{}); err != nil {
			t.Fatal(err)
		}
		(&testkit.Service{Kit: *k}).Restored()
		say(tokens.AccessToken, "refused now: restored_lost", "it is unknown whether it was revoked", "the client requests another one")
	}
}

// The explanation of a workload's token names the trust, and another token has another
// assertion.
func TestATokenOfAWorkloadNamesItsTrust(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	s.Register(client.Registration{ID: "job", Settings: store.Settings{Name: "Job", GrantTypes: []string{}, APIs: []string{orders}, Auth: store.AuthEither}})
	trust := s.Put(store.Trust{Issuer: "https://cluster.example", Kind: store.TrustWorkload, ClientID: "job", APIs: []string{orders}, Subjects: []string{"a"}})
	s.Clock.Advance(time.Second)
	got, err := issuer.Assertions{Issuer: s.Issuer}.AssertionToken(t.Context(), s.Listed("job"), issuer.AssertionRequest{Trust: &trust, ID: "j", Subject: "a", IssuedAt: s.At(), ExpiresAt: s.At().Add(time.Minute), Digest: 7})
	if err != nil {
		t.Fatal(err)
	}
	x := s.explainerOf()
	x.Realms = []string{realm, "/staff"}
	head := "An access token of a client for itself (trust " + trust.ID + "), authentic. "
	s.read(x, got.AccessToken).wants(t, "alive", document{head + "It would be answered now.",
		map[string]string{"why": "nothing is wrong with it; at the endpoints of the realm " + realm + " alone", "token client": "job", "token id": got.GrantID.String()}, nil})
	trust.Disabled = true
	s.Put(trust)
	s.read(x, got.AccessToken).wants(t, "ended", document{head + "It would be refused now: trust_ended.",
		map[string]string{"next": "nothing: the client presents a new assertion; if the trust has ended: mintage trust show " + trust.ID}, nil})
}

// For a grant of another realm, the explanation names the realm, except to an operator
// who may read only one realm's records.
func TestAGrantOfAnotherRealmIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	id := s.Login().GrantID.String()
	x := s.explainerOf()
	x.Realm, x.Realms, x.Store = "/staff", []string{realm, "/staff"}, &store.RealmStore{Store: s.Engine, Name: "/staff"}
	s.read(x, id).wants(t, "whole", document{"A grant. The outcome is unknown.", map[string]string{
		"why": "the realm " + realm + " has the grant, and this is /staff", "grant row": "there is none in this realm", "next": "name its realm: mintage explain --realm " + realm[1:]}, nil})
	x.Audited = []string{"/staff"}
	s.read(x, id).wants(t, "confined", document{"A grant. The outcome is unknown.", map[string]string{"why": "there is no grant of this id in the store"}, nil})
}
