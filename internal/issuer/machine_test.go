package issuer_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const machineID = "orders-service"

// machine registers a client that gets tokens for itself (client_credentials).
func (s *service) machine(change func(*client.Registration)) *store.Client {
	s.T.Helper()
	r := client.Registration{ID: machineID, Settings: store.Settings{Name: "Orders", Scope: "orders.read orders.write", GrantTypes: []string{store.GrantClientCredentials}, Auth: store.AuthEither}}
	if change != nil {
		change(&r)
	}
	s.Register(r)
	return s.machineNow()
}

func (s *service) machineNow() *store.Client {
	s.T.Helper()
	c, ok := s.View().Client(realm, machineID)
	if !ok {
		s.T.Fatal("the client is not there")
	}
	return c
}

func (s *service) serviceToken(scope, resource string) issuer.Tokens {
	s.T.Helper()
	t, err := s.ServiceToken(s.T.Context(), s.machineNow(), issuer.ServiceRequest{Scope: scope, Resource: resource})
	if err != nil {
		s.T.Fatal(err)
	}
	return t
}

// why returns the reason why a token is not active.
func (s *service) why(text string) grant.Refusal {
	s.T.Helper()
	_, err := s.Inspect(s.T.Context(), text)
	var refused *grant.Refused
	if err != nil && !errors.As(err, &refused) {
		s.T.Fatal(err)
	}
	if refused == nil {
		return grant.Allowed
	}
	return refused.Why
}

// TestServiceTokens: RFC 6749 section 4.4: a token for the client itself, which is not
// stored.
func TestServiceTokens(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newService(t)
		s.machine(func(r *client.Registration) { r.TokenFormat, r.Audience = format, []string{"https://orders.example"} })
		before := s.Faulty.Calls()
		got := s.serviceToken("", "")
		for m, n := range s.Faulty.Calls() {
			if n != before[m] {
				t.Errorf("%s: %d calls of %s", format, n-before[m], m)
			}
		}
		if got.RefreshToken != "" || got.IDToken != "" || got.Scope != "orders.read orders.write" || got.ExpiresIn != 300 {
			t.Errorf("%s: %+v", format, got)
		}
		if format == store.TokenOpaque != strings.HasPrefix(got.AccessToken, "mintage_st_") {
			t.Errorf("%s: the token begins with %.12s", format, got.AccessToken)
		}
		in, err := s.Inspect(t.Context(), got.AccessToken)
		if err != nil || in.Subject != machineID || in.ClientID != machineID || !in.IsService() || fmt.Sprint(in.Audience) != "[https://orders.example]" || in.ID() == "" || in.AuthTime != 0 {
			t.Errorf("%s: %+v, %v", format, in, err)
		}
		if format == store.TokenJWT { // RFC 9068 section 2.2: sub is the client
			payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(got.AccessToken, ".")[1])
			var c map[string]any
			if json.Unmarshal(payload, &c) != nil || c["sub"] != machineID || c["client_id"] != machineID || c["jti"] != in.ID() || c["scope"] != "orders.read orders.write" || c["auth_time"] != nil {
				t.Errorf("claims %v", c)
			}
		}
		if narrow := s.serviceToken("orders.read", ""); narrow.Scope != "orders.read" {
			t.Errorf("%s: scope %q", format, narrow.Scope)
		}
		for _, scope := range []string{"orders.delete", "orders.read admin", `"`} {
			if _, err := s.ServiceToken(t.Context(), s.machineNow(), issuer.ServiceRequest{Scope: scope}); !errors.Is(err, oauth.ErrScope) {
				t.Errorf("%s: scope %s: %v", format, scope, err)
			}
		}
		s.Clock.Advance(301 * time.Second)
		if why := s.why(got.AccessToken); why != grant.GrantExpired {
			t.Errorf("%s: after its end it is %s", format, why)
		}
	}
}

// TestChangesThatEndServiceTokens: each of these changes ends the tokens at the next
// check.
func TestChangesThatEndServiceTokens(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		var text string
		for name, tt := range map[string]struct {
			end  func(s *service)
			want grant.Refusal
		}{
			"client disabled":      {func(s *service) { s.Administer(machineID, func(c *store.Client) { c.State = store.ClientDisabled }) }, grant.ClientDisabled},
			"grant type taken":     {func(s *service) { s.Administer(machineID, func(c *store.Client) { c.GrantTypes = nil }) }, grant.ClientDisabled},
			"scope taken":          {func(s *service) { s.Administer(machineID, func(c *store.Client) { c.Scope = "other" }) }, grant.AccessRevoked},
			"cutoff of the client": {func(s *service) { s.CutOff(store.Cutoff{Realm: realm, ClientID: machineID, At: s.At()}) }, grant.CutOff},
			"cutoff of the pair": {func(s *service) {
				s.CutOff(store.Cutoff{Realm: realm, Subject: machineID, ClientID: machineID, At: s.At()})
			}, grant.CutOff},
			"revoked": {func(s *service) {
				if _, err := s.Revoke(t.Context(), s.machineNow(), text, grant.Origin{}); err != nil {
					t.Fatal(err)
				}
			}, grant.AccessRevoked},
			"nothing": {func(*service) {}, grant.Allowed},
		} {
			s := newService(t)
			s.machine(func(r *client.Registration) { r.TokenFormat = format })
			text = s.serviceToken("", "").AccessToken
			tt.end(s)
			if why := s.why(text); why != tt.want {
				t.Errorf("%s, %s: %s, want %s", format, name, why, tt.want)
			}
			if tt.want != grant.CutOff {
				continue
			}
			if why := s.why(s.serviceToken("", "").AccessToken); why != grant.Allowed {
				t.Errorf("%s, %s: a token of afterwards is %s", format, name, why)
			}
		}
	}
}

// TestRevokedServiceTokens: RFC 7009, for tokens that have no row.
func TestRevokedServiceTokens(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newService(t)
		c := s.machine(func(r *client.Registration) { r.TokenFormat = format })
		first, second := s.serviceToken("", "").AccessToken, s.serviceToken("", "").AccessToken
		other, _ := s.View().Client(realm, clientID)
		var refused *grant.Refused
		if _, err := s.Revoke(t.Context(), other, first, grant.Origin{}); !errors.As(err, &refused) || refused.Why != grant.OtherClient {
			t.Errorf("%s: revoked by another client: %v", format, err)
		}
		if why := s.why(first); why != grant.Allowed {
			t.Errorf("%s: after that, the token is %s", format, why)
		}
		for range 2 { // the second revocation changes nothing
			if _, err := s.Revoke(t.Context(), c, first, grant.Origin{}); err != nil {
				t.Fatal(err)
			}
		}
		if why := s.why(first); why != grant.AccessRevoked {
			t.Errorf("%s: the revoked one is %s", format, why)
		}
		if why := s.why(second); why != grant.Allowed {
			t.Errorf("%s: the other one is %s", format, why)
		}
		if why := s.why(s.serviceToken("", "").AccessToken); why != grant.Allowed {
			t.Errorf("%s: a new one is %s", format, why)
		}
		s.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
		s.Faulty.Inject(storetest.CommitCutoff, 1, storetest.Lost)
		if _, err := s.Revoke(t.Context(), s.machineNow(), s.serviceToken("", "").AccessToken, grant.Origin{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: a revocation that was not stored: %v", format, err)
		}
	}
}

// TestARevokedServiceTokenIsDeadAtOnceAtAnotherNode: the other node has not polled since.
func TestARevokedServiceTokenIsDeadAtOnceAtAnotherNode(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newResource(t)
		c := s.machine(func(r *client.Registration) { r.TokenFormat = format })
		other := s.another()
		text := s.serviceToken("", "").AccessToken
		if _, err := other.Inspect(t.Context(), text); err != nil {
			t.Fatalf("%s: dead before: %v", format, err)
		}
		if _, err := s.Revoke(t.Context(), c, text, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		var refused *grant.Refused
		if _, err := other.Inspect(t.Context(), text); !errors.As(err, &refused) || refused.Why != grant.AccessRevoked {
			t.Errorf("%s: at another node: %v", format, err)
		}
	}
}

// revokeMore stores n copies of a stored revocation, for other tokens. A thousand requests
// would take a minute.
func (s *service) revokeMore(n int) {
	s.T.Helper()
	stored, err := s.Engine.Documents(s.T.Context(), store.DocumentFilter{Kind: store.DocumentServiceRevoked, Owner: store.OwnerOf(realm, machineID), Limit: 2000})
	if err != nil || len(stored) == 0 {
		s.T.Fatalf("%d revocations, %v", len(stored), err)
	}
	last := stored[0]
	for _, d := range stored {
		if d.ExpiresAt > last.ExpiresAt {
			last = d
		}
	}
	var body map[string]any
	if err := json.Unmarshal(last.Body, &body); err != nil {
		s.T.Fatal(err)
	}
	var change store.Change
	for i := range n {
		id := grant.NewID(s.At(), [16]byte{4: byte(i), 5: byte(i >> 8), 6: byte(len(stored)), 7: 1})
		d := last
		body["id"] = id.String()
		if d.Body, err = json.Marshal(body); err != nil {
			s.T.Fatal(err)
		}
		d.Key = store.KeyOf(store.DocumentServiceRevoked, realm, id.String())
		change.Documents = append(change.Documents, d)
	}
	if err := s.Engine.Commit(s.T.Context(), change); err != nil {
		s.T.Fatal(err)
	}
}

// TestManyRevocationsBecomeACutoff: the number of stored revocations of a client is
// limited. A revocation beyond the limit becomes a cutoff, which changes the directory and
// wakes every node.
func TestManyRevocationsBecomeACutoff(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newFeed(t)
		c := s.machine(func(r *client.Registration) { r.TokenFormat = format })
		version := func() int64 {
			t.Helper()
			ch, err := s.Engine.Changes(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			return ch.Version
		}
		other, before, first := s.serviceToken("", "").AccessToken, version(), ""
		for i := 0; i <= 1000; i++ {
			text := s.serviceToken("", "").AccessToken
			if i == 0 {
				first = text
			}
			if i == 1000 {
				if why, now := s.why(other), version(); why != grant.Allowed || now != before {
					t.Errorf("%s: after 1000 revocations another token is %s, and the directory has version %d after %d", format, why, now, before)
				}
				if n := len(s.list().Grants); n != 1000 {
					t.Errorf("%s: the list names %d tokens", format, n)
				}
				text = s.serviceToken("", "").AccessToken // of this instant
			}
			if _, err := s.Revoke(t.Context(), c, text, grant.Origin{}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				s.revokeMore(990)
				i += 990
			}
			if why := s.why(text); i < 1000 && why != grant.AccessRevoked || i == 1000 && why != grant.CutOff {
				t.Fatalf("%s: token %d is %s", format, i, why)
			}
		}
		if why, now := s.why(other), version(); why != grant.CutOff || now != before+1 {
			t.Errorf("%s: after 1001 revocations another token is %s, and the directory has version %d after %d", format, why, now, before)
		}
		if why := s.why(s.serviceToken("", "").AccessToken); why != grant.Allowed {
			t.Errorf("%s: a new token is %s", format, why)
		}
		if events, err := s.Engine.Events(t.Context(), machineID, 9); err != nil || len(events) != 1 || events[0].Name != store.EventCutoff || events[0].Actor != machineID {
			t.Errorf("%s: %+v, %v", format, events, err)
		}
		if why := s.why(first); why == grant.Allowed {
			t.Errorf("%s: the first is active again", format)
		}
	}
}

// TestARevokedServiceTokenTakesItsJWTsAlong: JWTs that introspection made from an opaque
// token share its id, by which introspection and the list of revocations refuse them.
func TestARevokedServiceTokenTakesItsJWTsAlong(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newFeed(t)
		c := s.machine(func(r *client.Registration) { r.TokenFormat = format })
		phantom := func() (text, signed string) {
			t.Helper()
			text = s.serviceToken("", "").AccessToken
			in, err := s.Inspect(t.Context(), text)
			if err == nil {
				signed, err = s.Signer().Phantom(t.Context(), in)
			}
			if err != nil {
				t.Fatal(err)
			}
			return text, signed
		}
		text, signed := phantom()
		_, other := phantom()
		if listed, old := s.list().refuses(s.token(signed)); listed || old || s.why(signed) != grant.Allowed {
			t.Fatalf("%s: refused before: %t, %t, %s", format, listed, old, s.why(signed))
		}
		if _, err := s.Revoke(t.Context(), c, text, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		l := s.list()
		if listed, _ := l.refuses(s.token(signed)); !listed || s.why(signed) != grant.AccessRevoked || s.why(text) != grant.AccessRevoked {
			t.Errorf("%s: listed %t; the JWT is %s, and the token %s", format, listed, s.why(signed), s.why(text))
		}
		if listed, old := l.refuses(s.token(other)); listed || old || s.why(other) != grant.Allowed {
			t.Errorf("%s: the JWT of another token: listed %t, too old %t, %s", format, listed, old, s.why(other))
		}
		// Conversely, a revocation of the JWT revokes the token.
		text, signed = phantom()
		if _, err := s.Revoke(t.Context(), c, signed, grant.Origin{}); err != nil || s.why(text) != grant.AccessRevoked {
			t.Errorf("%s: after the revocation of its JWT the token is %s, %v", format, s.why(text), err)
		}
		// The entries leave the list when the tokens have expired.
		s.Clock.Advance(30 * time.Minute)
		if l := s.list(); len(l.Grants) != 0 {
			t.Errorf("%s: the list still names %d", format, len(l.Grants))
		}
	}
}

// TestAFullListRefusesTokensThatItCannotName: of more revocations than fit, the list has the
// latest, and refuses every token from before them.
func TestAFullListRefusesTokensThatItCannotName(t *testing.T) {
	t.Parallel()
	s := newFeed(t)
	s.SetFeedLimit(5)
	c := s.machine(func(r *client.Registration) { r.TokenFormat = store.TokenJWT })
	var texts []string
	for range 8 {
		text := s.serviceToken("", "").AccessToken
		if _, err := s.Revoke(t.Context(), c, text, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
		s.Clock.Advance(2 * time.Second)
	}
	l := s.list()
	for i, text := range texts {
		listed, old := l.refuses(s.token(text))
		if !listed && !old || listed != (i >= 3) {
			t.Errorf("token %d: listed %t, too old %t", i, listed, old)
		}
	}
	if len(l.Grants) != 5 {
		t.Errorf("the list names %d", len(l.Grants))
	}
	for range 50 { // far more than fit
		if _, err := s.Revoke(t.Context(), c, s.serviceToken("", "").AccessToken, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Clock.Advance(time.Second)
	if _, err := s.Revocations(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with more revocations than can be read: %v", err)
	}
}

// TestForgedServiceTokens: only tokens that were issued are accepted, and no token of
// another kind.
func TestForgedServiceTokens(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.machine(nil)
	text := s.serviceToken("", "").AccessToken
	for i := len("mintage_st_"); i < len(text); i++ {
		changed := text[:i] + string("AB"[b2i(text[i] == 'A')]) + text[i+1:]
		if why := s.why(changed); why != grant.TokenUnknown {
			t.Fatalf("with character %d changed it is %s", i, why)
		}
		if why := s.why(text[:i]); why != grant.TokenUnknown {
			t.Fatalf("its first %d characters are %s", i, why)
		}
	}
	for _, prefix := range []string{"mintage_at_", "mintage_rt_", "mintage_ac_"} {
		if why := s.why(prefix + text[len(prefix):]); why != grant.TokenUnknown {
			t.Errorf("with the prefix %s it is %s", prefix, why)
		}
	}
	if _, err := s.Refresh(t.Context(), s.machineNow(), issuer.RefreshRequest{RefreshToken: text}); err == nil {
		t.Error("it was refreshed")
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestServiceTokensNeedASecret: RFC 6749 section 4.4.
func TestServiceTokensNeedASecret(t *testing.T) {
	t.Parallel()
	s := newService(t)
	r := client.Registration{Settings: store.Settings{Name: "x", Scope: "a", GrantTypes: []string{store.GrantClientCredentials}, Auth: store.AuthNone}}
	if _, _, err := r.Client(realm, s.View().Ring, s.Policy, s.At()); err == nil {
		t.Error("a public client was registered for client_credentials")
	}
	r = client.Registration{Settings: store.Settings{Name: "x", Scope: "a", RedirectURIs: []string{redirectURI}, Auth: store.AuthEither}}
	c, _, err := r.Client(realm, s.View().Ring, s.Policy, s.At())
	if err != nil || c.MayUse(store.GrantClientCredentials) {
		t.Errorf("a client that names no grant types has %q, %v", c.GrantTypes, err)
	}
}

// TestServiceTokensOfAPIs: RFC 8707: a token is for the API that is testkit.Named, or for
// those whose scopes it has.
func TestServiceTokensOfAPIs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	api := func(id string, number uint16, format store.TokenFormat, scopes ...string) store.Entry {
		a := store.API{ID: id, Realm: realm, Name: id, Number: number, TokenFormat: format, Version: 1}
		for i, name := range scopes {
			a.Scopes = append(a.Scopes, store.APIScope{Name: name, Number: uint16(i)})
		}
		return a.Entry()
	}
	const orders, stock = "https://orders.example/api", "https://stock.example"
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{api(orders, 1, "", "orders:read", "orders:write"), api(stock, 2, store.TokenJWT, "stock:read")}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	s.machine(func(r *client.Registration) { r.Scope, r.APIs = "free", []string{orders + " orders:read", stock} })
	for _, tt := range []struct {
		scope, resource string
		want            oauth.Scope
		audience        string
		format          store.TokenFormat
		err             error
	}{
		{"", orders, "orders:read", "[" + orders + "]", store.TokenOpaque, nil},
		{"", orders + "/", "orders:read", "[" + orders + "]", store.TokenOpaque, nil},
		{"", stock, "stock:read", "[" + stock + "]", store.TokenJWT, nil},
		{"stock:read", "", "stock:read", "[" + stock + "]", store.TokenJWT, nil},
		{"stock:read orders:read", "", "stock:read orders:read", "[" + stock + " " + orders + "]", store.TokenOpaque, nil},
		{"free", "", "free", "[" + s.Issuer.ID + "]", "", nil},
		{"orders:read", stock, "", "", "", oauth.ErrScope},
		{"orders:write", orders, "", "", "", oauth.ErrScope},
		{"", "https://other.example", "", "", "", oauth.ErrTarget},
		{"", "orders", "", "", "", oauth.ErrTarget},
	} {
		got, err := s.ServiceToken(t.Context(), s.machineNow(), issuer.ServiceRequest{Scope: tt.scope, Resource: tt.resource})
		if !errors.Is(err, tt.err) || err == nil && (got.Scope != tt.want || got.Format != tt.format) {
			t.Errorf("%q for %q: %q, %s, %v", tt.scope, tt.resource, got.Scope, got.Format, err)
		}
		if err != nil {
			continue
		}
		if in, err := s.Inspect(t.Context(), got.AccessToken); err != nil || fmt.Sprint(in.Audience) != tt.audience || in.Scope != tt.want {
			t.Errorf("%q for %q is for %q with %q, %v", tt.scope, tt.resource, in.Audience, in.Scope, err)
		}
	}
	both := s.serviceToken("stock:read orders:read", "").AccessToken
	jwt := s.serviceToken("", stock).AccessToken
	gone := store.API{ID: stock, Realm: realm, Name: stock, Number: 2, TokenFormat: store.TokenJWT, Version: 2, Deleted: true}
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{gone.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	for _, text := range []string{both, jwt} {
		if why := s.why(text); why != grant.AccessRevoked {
			t.Errorf("a token that names a deleted API is %s", why)
		}
	}
}

// TestAServiceTokenHasALengthLimit: a token with the scopes of many APIs would be too long
// to be read again.
func TestAServiceTokenHasALengthLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var entries []store.Entry
	var ids []string
	for i := range 20 {
		a := store.API{ID: fmt.Sprintf("https://api-%d.example", i), Realm: realm, Name: "x", Number: uint16(i + 1), Version: 1}
		for j := range 2 {
			a.Scopes = append(a.Scopes, store.APIScope{Name: fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 80)), Number: uint16(j)})
		}
		entries, ids = append(entries, a.Entry()), append(ids, a.ID)
	}
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: entries}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	s.machine(func(r *client.Registration) { r.ID, r.Scope, r.APIs = machineID, "", ids })
	if got, err := s.ServiceToken(t.Context(), s.machineNow(), issuer.ServiceRequest{}); !errors.Is(err, oauth.ErrScope) {
		t.Errorf("a token of %d characters: %v", len(got.AccessToken), err)
	}
	text := s.serviceToken("", ids[0]).AccessToken
	if why := s.why(text); why != grant.Allowed || len(text) > 600 {
		t.Errorf("a token of %d characters for one API is %s", len(text), why)
	}
}

// TestNoSubjectEqualsTheIDOfAClient: RFC 9068 section 5: the sub of a user never equals
// the id of a client.
func TestNoSubjectEqualsTheIDOfAClient(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.machine(nil)
	issue := func(subject string) error {
		_, err := s.Codes().Issue(t.Context(), issuer.Authorization{ClientID: clientID, RedirectURI: redirectURI, Subject: subject})
		return err
	}
	var invalid *oauth.Invalid
	if err := issue(machineID); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("a code for a subject that is a client: %v", err)
	}
	if err := issue("alice"); err != nil {
		t.Error(err)
	}
}

// TestServiceTokensAreOfOperatorsClientsOnly: no operator vouches for a self-registered
// client, and a public client does not authenticate, whatever their rows contain.
func TestServiceTokensAreOfOperatorsClientsOnly(t *testing.T) {
	t.Parallel()
	c := store.Client{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, GrantTypes: store.GrantTypes}}
	if !c.MayUse(store.GrantClientCredentials) {
		t.Error("a confidential client of an operator may not")
	}
	for name, change := range map[string]func(*store.Client){
		"by a document": func(c *store.Client) { c.RegisteredBy = store.ByDocument }, "by a request": func(c *store.Client) { c.RegisteredBy = store.ByRequest },
		"public": func(c *store.Client) { c.Auth = store.AuthNone }, "public, or not": func(c *store.Client) { c.Auth = store.AuthNoneOrJWT },
	} {
		changed := c
		change(&changed)
		if changed.MayUse(store.GrantClientCredentials) || !changed.MayUse(store.GrantRefreshToken) {
			t.Errorf("%s: it may", name)
		}
	}
}

// TestServiceTokensFollowTheirAPI: lifetime and format are the API's. For several APIs the
// shortest lifetime applies, and JWT only if all of them have it. offline_access is not a
// scope.
func TestServiceTokensFollowTheirAPI(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.PutAPI(testkit.OrdersAPI())
	s.PutAPI(testkit.InvoicesAPI()) // JWT, 10 minutes
	s.machine(func(r *client.Registration) { r.APIs = []string{orders, invoices} })
	for _, tt := range []struct {
		scope, resource string
		expires         int64
		format          store.TokenFormat
		want            oauth.Scope
	}{
		{"offline_access invoices", "", 600, store.TokenJWT, "invoices"},
		{"invoices offline_access", invoices, 600, store.TokenJWT, "invoices"},
		{"offline_access", invoices, 600, store.TokenJWT, "invoices"},
		{"orders:read", "", 300, store.TokenOpaque, "orders:read"},
		{"orders:read invoices", "", 300, store.TokenOpaque, "orders:read invoices"},
	} {
		got := s.serviceToken(tt.scope, tt.resource)
		if got.ExpiresIn != tt.expires || got.Format != tt.format || got.Scope != tt.want {
			t.Errorf("%q for %q: scope %q, %s, %d s", tt.scope, tt.resource, got.Scope, got.Format, got.ExpiresIn)
		}
		active, err := s.Inspect(t.Context(), got.AccessToken)
		if left := s.ExpiresIn(active); err != nil || left != tt.expires {
			t.Errorf("%q for %q: %v, expires in %d when it is fresh", tt.scope, tt.resource, err, left)
		}
		s.Clock.Advance(time.Duration(tt.expires-1) * time.Second)
		if why := s.why(got.AccessToken); why != grant.Allowed || s.ExpiresIn(active) != 1 {
			t.Errorf("%q for %q: a second before its end it is %s", tt.scope, tt.resource, why)
		}
		s.Clock.Advance(2 * time.Second)
		if why := s.why(got.AccessToken); why != grant.GrantExpired {
			t.Errorf("%q for %q: after its end it is %s", tt.scope, tt.resource, why)
		}
	}
}

// TestServiceTokensLoseTheScopesThatTheirClientHasLost: from the next check on.
func TestServiceTokensLoseTheScopesThatTheirClientHasLost(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newService(t)
		s.machine(func(r *client.Registration) { r.TokenFormat = format })
		text := s.serviceToken("", "").AccessToken
		s.Administer(machineID, func(c *store.Client) { c.Scope = "orders.write other" })
		if got, err := s.Inspect(t.Context(), text); err != nil || got.Scope != "orders.write" {
			t.Errorf("%s: scope %q, %v", format, got.Scope, err)
		}
	}
}

// TestARevocationOutlivesItsServiceToken: a node whose clock is behind still refuses the
// token after a node whose clock is ahead has swept.
func TestARevocationOutlivesItsServiceToken(t *testing.T) {
	t.Parallel()
	const skew = 5 * time.Second
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newService(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
		c := s.machine(func(r *client.Registration) { r.TokenFormat = format })
		revoked, other := s.serviceToken("", "").AccessToken, s.serviceToken("", "").AccessToken
		if _, err := s.Revoke(t.Context(), c, revoked, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		s.Clock.Advance(300*time.Second + skew - time.Millisecond)
		if _, _, err := s.Engine.Sweep(t.Context(), store.SweptDocuments, "", s.At().Add(2*skew), 100); err != nil {
			t.Fatal(err)
		}
		if why, alive := s.why(revoked), s.why(other); why != grant.AccessRevoked || alive != grant.Allowed {
			t.Errorf("%s: the revoked one is %s, the other one %s", format, why, alive)
		}
	}
}

// TestExpiredRevocationsDoNotCount: only revocations of tokens that have not expired count
// towards the limit of a client.
func TestExpiredRevocationsDoNotCount(t *testing.T) {
	t.Parallel()
	s := newService(t)
	c := s.machine(nil)
	revoke := func() {
		t.Helper()
		if _, err := s.Revoke(t.Context(), c, s.serviceToken("", "").AccessToken, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	revoke()
	s.revokeMore(899)
	s.Clock.Advance(time.Hour) // and no sweep
	living := s.serviceToken("", "").AccessToken
	revoke()
	s.revokeMore(898)
	revoke()
	if why := s.why(living); why != grant.Allowed {
		t.Errorf("after 900 expired revocations and 900 living ones, another token is %s", why)
	}
}
