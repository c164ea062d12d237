package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	idp       = "https://idp.example"
	platform  = "https://platform.example"
	theirUser = idp + "|u-1"
)

// withTrusts makes a service with two APIs and three clients: "agent", for which an
// identity provider is trusted, and "job" and "both", for which a platform is trusted.
func withTrusts(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	s := withAPIs(t, change...)
	for id, grants := range map[string][]string{"agent": {}, "job": {}, "both": {store.GrantClientCredentials}} {
		s.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, GrantTypes: grants, APIs: []string{orders, invoices}, Scope: "openid", Auth: store.AuthEither, NoPKCE: true}})
	}
	for _, trust := range []store.Trust{users(), jobs("job"), jobs("both")} {
		s.Put(trust)
	}
	s.Clock.Advance(time.Second)
	return s
}

// users is the trust in the identity provider. It names two scopes of the orders API, and
// none of the other.
func users() store.Trust {
	return store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "agent", APIs: []string{orders + " orders:read orders:write", invoices}, SubjectFrom: store.SubjectSub}
}

func jobs(clientID string) store.Trust {
	return store.Trust{Issuer: platform, Kind: store.TrustWorkload, ClientID: clientID, APIs: []string{orders + " orders:read", invoices}, Subjects: []string{"ns:shop:a"}}
}

// assertion returns a valid assertion about a user.
func (s *service) assertion(jti string) issuer.AssertionRequest {
	trust := users()
	trust.ID = store.TrustID(trust.Issuer, trust.Kind, trust.ClientID)
	return issuer.AssertionRequest{
		Trust: &trust, ID: jti, Subject: theirUser, IssuedAt: s.At(), ExpiresAt: s.At().Add(5 * time.Minute), Digest: uint64(len(jti)) + 7,
	}
}

// ofJob returns a valid assertion of a workload.
func (s *service) ofJob(clientID string) issuer.AssertionRequest {
	trust := jobs(clientID)
	trust.ID = store.TrustID(trust.Issuer, trust.Kind, trust.ClientID)
	return issuer.AssertionRequest{Trust: &trust, Subject: "ns:shop:a", IssuedAt: s.At(), ExpiresAt: s.At().Add(time.Hour)}
}

func (s *service) assert(ctx context.Context, clientID string, r issuer.AssertionRequest) (issuer.Tokens, error) {
	return issuer.Assertions{Issuer: s.Issuer}.AssertionToken(ctx, s.Listed(clientID), r)
}

// granted describes the result of an assertion: "refusal", "code", or "subject scope
// [APIs]".
func (s *service) granted(got issuer.Tokens, err error) string {
	s.T.Helper()
	var told *oauth.Error
	var refused *grant.Refused
	switch {
	case errors.As(err, &refused):
		return refused.Why.String()
	case errors.As(err, &told):
		return string(told.Code)
	case err != nil:
		s.T.Fatal(err)
	}
	in, err := s.Inspect(s.T.Context(), got.AccessToken)
	if err != nil {
		s.T.Fatalf("the token is not active: %v", err)
	}
	if got.RefreshToken != "" || got.IDToken != "" || in.GrantType() != oauth.GrantJWTBearer || in.Scope != got.Scope {
		s.T.Errorf("a grant of %s with %q gave more than an access token with %q", in.GrantType(), in.Scope, got.Scope)
	}
	var apis []string
	for _, id := range in.Audience {
		apis = append(apis, strings.TrimPrefix(id, "https://api.example/"))
	}
	return fmt.Sprintf("%s %s %s", in.Subject, in.Scope, apis)
}

// The tokens depend on the assertion, its trust, the client and the request together.
func TestAssertions(t *testing.T) {
	s := withTrusts(t)
	type request = issuer.AssertionRequest
	jti := 0
	for name, row := range map[string]struct {
		change func(*request)
		want   string
	}{
		"everything of the trust":           {func(*request) {}, theirUser + " orders:read orders:write invoices [orders invoices]"},
		"for one API":                       {func(r *request) { r.Resources = []string{orders} }, theirUser + " orders:read orders:write [orders]"},
		"for an API and none":               {func(r *request) { r.Resources = []string{orders + "/", "https://x.example"} }, theirUser + " orders:read orders:write [orders]"},
		"for no API of the trust":           {func(r *request) { r.Resources = []string{"https://x.example"} }, "target_unknown"},
		"with a scope":                      {func(r *request) { r.NamesAny, r.Named = true, "orders:read" }, theirUser + " orders:read [orders]"},
		"with scopes that are not allowed":  {func(r *request) { r.NamesAny, r.Named = true, "orders:read admin openid" }, theirUser + " orders:read [orders]"},
		"with no scope that is allowed":     {func(r *request) { r.NamesAny, r.Named = true, "admin" }, "scope_too_wide"},
		"with OpenID alone":                 {func(r *request) { r.NamesAny, r.Named = true, "openid" }, "scope_too_wide"},
		"with an empty scope":               {func(r *request) { r.NamesAny = true }, "scope_too_wide"},
		"the request narrows the scope":     {func(r *request) { r.Scope = "orders:write" }, theirUser + " orders:write [orders invoices]"},
		"the request narrows to an API":     {func(r *request) { r.Resource = invoices }, theirUser + " invoices [invoices]"},
		"the request asks for more":         {func(r *request) { r.NamesAny, r.Named, r.Scope = true, "orders:read", "orders:write" }, "scope_too_wide"},
		"the request asks for OpenID":       {func(r *request) { r.Scope = "openid" }, "scope_too_wide"},
		"the request asks for another API":  {func(r *request) { r.Resources, r.Resource = []string{orders}, invoices }, "target_unknown"},
		"the request's scope is malformed":  {func(r *request) { r.Scope = `a"` }, "invalid_scope"},
		"bound to a key without a proof":    {func(r *request) { r.Bound = oauth.JKT{1} }, "key_mismatch"},
		"bound to a key with another proof": {func(r *request) { r.Bound, r.JKT = oauth.JKT{1}, oauth.JKT{2} }, "key_mismatch"},
		"bound to the key of the proof":     {func(r *request) { r.Bound, r.JKT = oauth.JKT{1}, oauth.JKT{1} }, theirUser + " orders:read orders:write invoices [orders invoices]"},
		"of a trust that there is not":      {func(r *request) { r.Trust = &store.Trust{ID: "0000000000000000"} }, "trust_ended"},
		"expired at this moment":            {func(r *request) { r.ExpiresAt = s.At() }, "code_expired"},
	} {
		jti++
		r := s.assertion(fmt.Sprint("jti ", jti))
		row.change(&r)
		if got := s.granted(s.assert(t.Context(), "agent", r)); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	for name, row := range map[string]struct {
		change func(*request)
		want   string
	}{
		"everything of the trust": {func(*request) {}, "job orders:read invoices [orders invoices]"},
		"the request narrows":     {func(r *request) { r.Scope = "orders:read" }, "job orders:read [orders]"},
		"to an API":               {func(r *request) { r.Resource = invoices }, "job invoices [invoices]"},
		"its scope narrows":       {func(r *request) { r.NamesAny, r.Named = true, "invoices other" }, "job invoices [invoices]"},
		"more than the trust":     {func(r *request) { r.Scope = "orders:write" }, "invalid_scope"},
		"another API":             {func(r *request) { r.Resource = "https://x.example" }, "target_unknown"},
	} {
		r := s.ofJob("job")
		row.change(&r)
		if got := s.granted(s.assert(t.Context(), "job", r)); got != row.want {
			t.Errorf("a workload, %s: %s, want %s", name, got, row.want)
		}
	}
}

// The same assertion gets another access token of the same grant. Another assertion with
// the same jti gets none, and neither does another client.
func TestAnAssertionIsPresentedAgain(t *testing.T) {
	s := withTrusts(t)
	r := s.assertion("once")
	first, err := s.assert(t.Context(), "agent", r)
	if err != nil {
		t.Fatal(err)
	}
	row, err := s.Engine.Grant(t.Context(), first.GrantID)
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(2 * time.Minute)
	again, err := s.assert(t.Context(), "agent", r)
	if err != nil || again.GrantID != first.GrantID || again.AccessToken == first.AccessToken {
		t.Fatalf("again: grant %s, want another token of %s: %v", again.GrantID, first.GrantID, err)
	}
	narrowed := r
	narrowed.Resource, narrowed.Scope = orders, "orders:read"
	if got := s.granted(s.assert(t.Context(), "agent", narrowed)); got != theirUser+" orders:read [orders]" {
		t.Errorf("again, narrowed: %s", got)
	}
	if now, err := s.Engine.Grant(t.Context(), first.GrantID); err != nil || now != row {
		t.Errorf("the row has changed: %+v, %v", now, err)
	}
	if row.DeleteAfter < r.ExpiresAt {
		t.Errorf("the row may be deleted at %v, before the assertion expires at %v", row.DeleteAfter, r.ExpiresAt)
	}
	other := r
	other.Digest++
	if got := s.granted(s.assert(t.Context(), "agent", other)); got != "assertion_replayed" {
		t.Errorf("another assertion of the jti: %s", got)
	}
	s.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "both", APIs: []string{orders}})
	stolen := r
	stolen.Trust = &store.Trust{ID: store.TrustID(idp, store.TrustIDJAG, "both")}
	if got := s.granted(s.assert(t.Context(), "both", stolen)); got != "other_client" {
		t.Errorf("another client: %s", got)
	}
	s.Clock.Advance(3 * time.Minute)
	if got := s.granted(s.assert(t.Context(), "agent", r)); got != "code_expired" {
		t.Errorf("after its end: %s", got)
	}
}

// An assertion that is presented again after its trust has changed gets tokens for the
// APIs of its grant, in whatever order the trust now has them, and no scope that the trust
// no longer allows. While the grant cannot be read, the answer is an error, not a refusal.
func TestAnAssertionIsPresentedAgainAfterAChangeOfItsTrust(t *testing.T) {
	s := withTrusts(t)
	r := s.assertion("changed")
	if _, err := s.assert(t.Context(), "agent", r); err != nil {
		t.Fatal(err)
	}
	trust := users()
	trust.APIs = []string{invoices, orders + " orders:read"}
	s.Put(trust)
	for api, want := range map[string]string{
		"": "orders:read invoices [orders invoices]", orders: "orders:read [orders]", invoices: "invoices [invoices]",
	} {
		r.Resource = api
		if got := s.granted(s.assert(t.Context(), "agent", r)); got != theirUser+" "+want {
			t.Errorf("for %q: %s, want %s", api, got, want)
		}
	}
	s.Faulty.Inject(storetest.Grant, 1, storetest.Lost)
	if _, err := s.assert(t.Context(), "agent", r); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("while the store fails: %v", err)
	}
}

// Two nodes receive the same assertion at the same time: they make one grant.
func TestAnAssertionAtTwoNodes(t *testing.T) {
	s := withTrusts(t)
	other := *s.Service
	other.Reopen(testkit.Schedule())
	r := s.assertion("twice")
	a, err1 := s.assert(t.Context(), "agent", r)
	b, err2 := issuer.Assertions{Issuer: other.Issuer}.AssertionToken(t.Context(), other.Listed("agent"), r)
	if err := errors.Join(err1, err2); err != nil || a.GrantID != b.GrantID {
		t.Errorf("grants %s and %s: %v", a.GrantID, b.GrantID, err)
	}
}

// The end of the grant, the user, the client, the API or the trust ends both forms of the
// tokens at the next check on another node, and no earlier assertion revives them.
func TestEndsOfAssertions(t *testing.T) {
	put := func(change func(*store.Trust)) func(*service, grant.ID) {
		return func(s *service, _ grant.ID) {
			for _, trust := range []store.Trust{users(), jobs("job")} {
				change(&trust)
				s.Put(trust)
			}
		}
	}
	cutoff := func(subject, clientID string) func(*service, grant.ID) {
		return func(s *service, _ grant.ID) {
			s.CutOff(store.Cutoff{Realm: realm, Subject: subject, ClientID: clientID, At: s.At()})
		}
	}
	const users, works, all = 1, 2, 3
	for name, end := range map[string]struct {
		do    func(*service, grant.ID)
		want  grant.Refusal
		again string // what the same assertion gets afterwards
		of    int
	}{
		"the grant is revoked": {func(s *service, id grant.ID) {
			err := s.Engine.UpdateGrant(s.T.Context(), id, func(g grant.Grant) (grant.Grant, []store.Event) { return g.Revoke(grant.ReasonOperator).Next, nil })
			if err != nil {
				s.T.Fatal(err)
			}
		}, grant.GrantRevoked, "grant_revoked", users},
		"the user is cut off":      {cutoff(theirUser, ""), grant.CutOff, "cut_off", users},
		"the user at the client":   {cutoff(theirUser, "agent"), grant.CutOff, "cut_off", users},
		"the client is cut off":    {cutoff("", "agent"), grant.CutOff, "cut_off", users},
		"the workload is cut off":  {cutoff("", "job"), grant.CutOff, "", works},
		"the trust is deleted":     {put(func(t *store.Trust) { t.Deleted = true }), grant.TrustEnded, "trust_ended", all},
		"the trust is disabled":    {put(func(t *store.Trust) { t.Disabled = true }), grant.TrustEnded, "trust_ended", all},
		"the trust is there again": {put(func(t *store.Trust) { t.Since = grant.At(time.Unix(1<<34, 0)) }), grant.TrustEnded, "trust_ended", all},
		"the trust has other APIs": {put(func(t *store.Trust) { t.APIs = []string{"https://x.example"} }), grant.TrustEnded, "target_unknown", all},
		"the client loses its APIs": {func(s *service, _ grant.ID) {
			s.Administer("job", func(c *store.Client) { c.APIs = nil })
			s.Administer("agent", func(c *store.Client) { c.APIs = nil })
		}, grant.AccessRevoked, "target_unknown", works},
	} {
		t.Run(name, func(t *testing.T) {
			s := withTrusts(t)
			other := *s.Service
			other.Reopen(testkit.Schedule())
			r, w := s.assertion("ends"), s.ofJob("job")
			forms := map[string]string{}
			var id grant.ID
			for form, api := range map[string]string{"opaque": orders, "jwt": invoices} {
				r.Resource, w.Resource = api, api
				user, err1 := s.assert(t.Context(), "agent", r)
				job, err2 := s.assert(t.Context(), "job", w)
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				id = user.GrantID
				if end.of&users != 0 {
					forms[form+" of a user"] = user.AccessToken
				}
				if end.of&works != 0 {
					forms[form+" of a workload"] = job.AccessToken
				}
			}
			for form, text := range forms {
				if _, err := other.Inspect(t.Context(), text); err != nil {
					t.Fatalf("%s: %v before", form, err)
				}
			}
			end.do(s, id)
			other.Poll()
			for form, text := range forms {
				for node, on := range map[string]*testkit.Service{"the first node": s.Service, "the other node": &other} {
					if in, err := on.Inspect(t.Context(), text); err == nil {
						t.Errorf("%s on %s: active with %q", form, node, in.Scope)
					} else {
						s.Dead(end.want)(in, err)
					}
				}
			}
			r.Resource, w.Resource = "", ""
			if end.of&users != 0 {
				if got := s.granted(s.assert(t.Context(), "agent", r)); got != end.again {
					t.Errorf("the same assertion again: %s, want %s", got, end.again)
				}
			}
			if end.of == all && end.again != "" {
				if got := s.granted(s.assert(t.Context(), "job", w)); got != end.again {
					t.Errorf("the same token of the workload again: %s, want %s", got, end.again)
				}
			}
		})
	}
}

// The end of a trust leaves the tokens valid that the client got for itself, without the
// trust.
func TestATrustEndsItsOwnTokensAlone(t *testing.T) {
	s := withTrusts(t)
	own, err1 := s.ServiceToken(t.Context(), s.Listed("both"), issuer.ServiceRequest{Resource: orders})
	job, err2 := s.assert(t.Context(), "both", s.ofJob("both"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	trust := jobs("both")
	trust.Deleted = true
	s.Put(trust)
	s.Dead(grant.TrustEnded)(s.Inspect(t.Context(), job.AccessToken))
	if _, err := s.Inspect(t.Context(), own.AccessToken); err != nil {
		t.Errorf("its own token: %v", err)
	}
}

// An assertion about a built-in user needs a trust that allows it, and an enabled user. No
// assertion is about a client: tokens of such a user would look like those of the client.
func TestAssertionsAboutBuiltInUsers(t *testing.T) {
	s := withTrusts(t, func(iss *issuer.Issuer) {
		iss.Users = func(_ context.Context, subject string) (known, enabled bool, err error) {
			if subject == "broken" {
				return false, false, errors.New("no store")
			}
			return subject == "alice" || subject == "bob", subject == "alice", nil
		}
	})
	for from, want := range map[store.SubjectFrom]map[string]string{
		store.SubjectSub:    {"alice": "user_barred", "bob": "user_barred", theirUser: theirUser + " orders:read orders:write invoices [orders invoices]"},
		store.SubjectEmail:  {"alice": "user_barred"},
		store.SubjectAudSub: {"alice": "alice orders:read orders:write invoices [orders invoices]", "bob": "user_barred", "agent": "user_barred", "both": "user_barred", "carol": "carol orders:read orders:write invoices [orders invoices]"},
	} {
		trust := users()
		trust.SubjectFrom = from
		s.Put(trust)
		for subject, want := range want {
			r := s.assertion(string(from) + subject)
			r.Subject = subject
			if got := s.granted(s.assert(t.Context(), "agent", r)); got != want {
				t.Errorf("%s by %s: %s, want %s", subject, from, got, want)
			}
		}
	}
	r := s.assertion("broken")
	r.Subject = "broken"
	if _, err := s.assert(t.Context(), "agent", r); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a fault: %v", err)
	}
}

// The actors of an assertion, with their issuers, are in its tokens of every form.
func TestActorsOfAssertions(t *testing.T) {
	s := withTrusts(t)
	r := s.assertion("acts")
	r.Actors = []grant.Actor{{Issuer: idp, Subject: "agent"}, {Issuer: "https://x.example", Subject: "b"}}
	for _, api := range []string{orders, invoices} {
		r.Resource = api
		got, err := s.assert(t.Context(), "agent", r)
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Inspect(t.Context(), got.AccessToken)
		if err != nil || fmt.Sprint(in.Actors) != "[{https://idp.example agent} {https://x.example b}]" {
			t.Errorf("%s: %v, %v", api, in.Actors, err)
		}
	}
}

// After a failed or unacknowledged commit, the same assertion is not a replay.
func TestALostAnswerAboutAnAssertion(t *testing.T) {
	s := withTrusts(t)
	for name, fault := range map[string]storetest.Fault{"unanswered": storetest.Unanswered, "lost": storetest.Lost, "full": storetest.Full} {
		r := s.assertion(name)
		s.Faulty.Inject(storetest.CreateGrant, 1, fault)
		if _, err := s.assert(t.Context(), "agent", r); (name == "unanswered") != (err == nil) || err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.assert(t.Context(), "agent", r); err != nil {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}

// A self-registered client for which a trust vouches is recorded with its first grant. Its
// tokens are checked against the record.
func TestAnAssertionRecordsItsClient(t *testing.T) {
	s := withTrusts(t)
	s.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == testkit.AgentID })
	api, trust := testkit.OrdersAPI(), users()
	api.Open, trust.ClientID = true, testkit.AgentID
	s.PutAPI(api)
	trust = s.Put(trust)
	s.Clock.Advance(time.Second)
	c := &store.Client{
		ID: testkit.AgentID, Realm: testkit.Realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument, Secrets: []store.Secret{},
		Settings: store.Settings{Name: "Agent", Auth: store.AuthPrivateKeyJWT, Native: true, GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{}},
	}
	s.View().Offer(c)
	r := s.assertion("first")
	r.Trust = &trust
	if scope, err := (issuer.Assertions{Issuer: s.Issuer}).Foreseen(t.Context(), r); scope != "orders:read orders:write" || err != nil {
		t.Errorf("foreseen: %q, %v", scope, err)
	}
	s.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	if got, err := (issuer.Assertions{Issuer: s.Issuer}).AssertionToken(t.Context(), c, r); !errors.Is(err, store.ErrUnavailable) || s.FoundAgent() != nil {
		t.Fatalf("without its record: %+v, %v", got, err)
	}
	for range 2 { // two requests that have found no record
		if got := s.granted(issuer.Assertions{Issuer: s.Issuer}.AssertionToken(t.Context(), c, r)); got != theirUser+" orders:read orders:write [orders]" {
			t.Errorf("granted %s", got)
		}
	}
	if found := s.FoundAgent(); found == nil || found.RecordedUntil <= s.At() || found.Name != "Agent" || found.Auth != store.AuthPrivateKeyJWT {
		t.Errorf("recorded as %+v", found)
	}
	trust.Deleted = true
	s.Put(trust)
	if got := s.granted(issuer.Assertions{Issuer: s.Issuer}.AssertionToken(t.Context(), s.FoundAgent(), r)); got != "trust_ended" {
		t.Errorf("after its end: %s", got)
	}
}

// TestAssertionsOfTheSecondsBeforeACutoffsDate: another clock sets the iat, so the iat
// does not prove that the assertion was issued before or after the command.
func TestAssertionsOfTheSecondsBeforeACutoffsDate(t *testing.T) {
	for name, cut := range map[string]store.Cutoff{"the user": {Subject: theirUser}, "the client": {ClientID: "agent"}} {
		s := withTrusts(t)
		ahead := s.assertion("ahead") // by a clock that is ahead
		ahead.IssuedAt = s.At().Add(5 * time.Second)
		cut.Realm, cut.At = realm, s.At().Add(directory.CutoffReach)
		s.CutOff(cut)
		s.Clock.Advance(directory.CutoffReach + s.Policy.MaxSkew)
		if got := s.granted(s.assert(t.Context(), "agent", ahead)); got != "cut_off" {
			t.Errorf("%s, issued before the command: %s", name, got)
		}
		s.Clock.Advance(time.Millisecond)
		if got := s.granted(s.assert(t.Context(), "agent", s.assertion("later"))); !strings.HasPrefix(got, theirUser) {
			t.Errorf("%s, issued after the cutoff: %s", name, got)
		}
	}
}
