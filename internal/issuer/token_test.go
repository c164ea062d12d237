package issuer_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

func TestTheBudgetOfStoreCalls(t *testing.T) {
	s := newService(t)
	spent := func(what string, want map[storetest.Method]int) {
		t.Helper()
		calls := s.Faulty.Calls()
		for _, m := range storetest.Methods {
			if calls[m] != want[m] {
				t.Errorf("%s: %d calls of %s, want %d", what, calls[m], m, want[m])
			}
		}
	}
	code := s.NewCode()
	spent("issuing a code", nil)
	first := s.Must(s.Redeem(code))
	spent("redeeming it", map[storetest.Method]int{storetest.CreateGrant: 1})
	s.Must(s.Renew(first.RefreshToken))
	spent("a refresh", map[storetest.Method]int{storetest.UpdateGrant: 1})
	s.Must(s.Renew(first.RefreshToken))
	spent("a repeated refresh", map[storetest.Method]int{storetest.UpdateGrant: 1})
	if _, err := s.Authenticate(clientID, s.Secret); err != nil {
		t.Error(err)
	}
	spent("authentication", nil)
	s.Refused(grant.TokenUnknown)(s.Renew("mintage_rt_made-up"))
	s.Refused(grant.TokenUnknown)(s.Redeem("mintage_ac_made-up"))
	spent("what is not genuine", nil)
	s.Must(s.Redeem(s.NewCode()))
	s.Refused(grant.CodeReplayed)(s.Redeem(code))
	spent("a login, and a replay", map[storetest.Method]int{storetest.CreateGrant: 2, storetest.UpdateGrant: 1})
	s.Refused(grant.CodeReplayed)(s.Redeem(code))
	spent("a replay of what is revoked", map[storetest.Method]int{storetest.CreateGrant: 1, storetest.UpdateGrant: 1})
}

func TestARepeatedRefreshGetsTheSamePairUntilItsSuccessorIsUsed(t *testing.T) {
	s := newService(t)
	first := s.Login()
	second := s.Must(s.Renew(first.RefreshToken))
	s.Clock.Advance(90 * time.Second)
	repeated := s.Must(s.Renew(first.RefreshToken))
	s.SamePair(second, repeated)
	if second.Repeated || !repeated.Repeated {
		t.Error("Repeated is wrong")
	}
	if second.ExpiresIn != 300 || repeated.ExpiresIn != 210 {
		t.Errorf("expires_in %d, then %d after 90 seconds", second.ExpiresIn, repeated.ExpiresIn)
	}
	s.WantActive(first.GrantID, 2)
	s.Must(s.Renew(second.RefreshToken))
	s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
	s.revoked(first.GrantID, grant.ReasonRefreshReplayed, store.EventRefreshReplayed)
	s.Refused(grant.GrantRevoked)(s.Renew(second.RefreshToken))
}

// Two holders of copies of one token share one chain: each rotation writes to the store
// once, whichever holder sends it, and an older token ends the grant.
func TestCopiesOfOneTokenShareOneChain(t *testing.T) {
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		t.Run(string(format), func(t *testing.T) {
			s := newService(t)
			grace := store.Milliseconds(time.Hour.Milliseconds())
			s.Administer(clientID, func(c *store.Client) { c.ReuseGrace, c.TokenFormat = &grace, format })
			first := s.Login()
			s.Clock.Advance(10 * time.Minute)
			second := s.Must(s.Renew(first.RefreshToken))
			s.Clock.Advance(3 * time.Minute)
			version := s.Row(first.GrantID).Version
			other := s.Must(s.Renew(first.RefreshToken))
			s.SamePair(second, other)
			if !other.Shared || second.Shared || s.Row(first.GrantID).Version != version {
				t.Errorf("shared %t, then %t; version %d, then %d", second.Shared, other.Shared, version, s.Row(first.GrantID).Version)
			}
			s.Clock.Advance(90 * time.Second)
			third := s.Must(s.Renew(first.RefreshToken))
			if !third.Shared || third.Repeated || third.ExpiresIn != 300 || third.Generation != 3 {
				t.Errorf("with its access token nearly spent: %t, repeated %t, expires_in %d, generation %d", third.Shared, third.Repeated, third.ExpiresIn, third.Generation)
			}
			s.SamePair(third, s.Must(s.Renew(second.RefreshToken)))
			s.WantActive(first.GrantID, 3)
			s.Clock.Advance(45*time.Minute + 30*time.Second) // first is an hour old
			s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
			s.revoked(first.GrantID, grant.ReasonRefreshReplayed, store.EventRefreshReplayed)
		})
	}
}

// A client keeps the retry window that it was registered with when the service's tokens
// lived longer.
func TestARetryWindowEndsAMinuteBeforeTheAccessToken(t *testing.T) {
	hour := store.Milliseconds(time.Hour.Milliseconds())
	for lifetime, window := range map[time.Duration]time.Duration{5 * time.Minute: 4 * time.Minute, 90 * time.Second: 30 * time.Second, time.Minute: 0} {
		s := newService(t, func(iss *issuer.Issuer) { iss.Policy.AccessLifetime = lifetime })
		s.Administer(clientID, func(c *store.Client) { c.RetryWindow = &hour })
		first := s.Login()
		second := s.Must(s.Renew(first.RefreshToken))
		if window > 0 {
			s.Clock.Advance(window - time.Millisecond)
			repeated := s.Must(s.Renew(first.RefreshToken))
			s.SamePair(second, repeated)
			if repeated.ExpiresIn < 60 {
				t.Errorf("tokens of %s: a repeated one with %d seconds left", lifetime, repeated.ExpiresIn)
			}
		}
		s.Clock.Advance(2 * time.Millisecond)
		s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
	}
}

func TestFiftyConcurrentRefreshesGetOnePair(t *testing.T) {
	s := newService(t)
	for range 5 {
		first := s.Login()
		answers, errs := atOnce(50, func() (issuer.Tokens, error) { return s.Renew(first.RefreshToken) })
		for i, err := range errs {
			if err != nil {
				t.Fatalf("a concurrent refresh: %v", err)
			}
			s.SamePair(answers[0], answers[i])
		}
		s.WantActive(first.GrantID, 2)
	}
}

func TestWithoutARetryWindowOneOfFiftyConcurrentRefreshesSucceeds(t *testing.T) {
	s := newService(t, testkit.NoRetryWindow)
	for range 5 {
		first := s.Login()
		answers, errs := atOnce(50, func() (issuer.Tokens, error) { return s.Renew(first.RefreshToken) })
		won := s.oneWon(answers, errs)
		// The others were replays: they end the winner's grant as well.
		s.revoked(first.GrantID, grant.ReasonRefreshReplayed, store.EventRefreshReplayed)
		s.Refused(grant.GrantRevoked)(s.Renew(won.RefreshToken))
	}
}

func TestOneOfManyConcurrentExchangesSucceedsAndItsGrantIsEnded(t *testing.T) {
	s := newService(t)
	for range 5 {
		code := s.NewCode()
		answers, errs := atOnce(64, func() (issuer.Tokens, error) { return s.Redeem(code) })
		won := s.oneWon(answers, errs)
		s.revoked(won.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
		s.Refused(grant.GrantRevoked)(s.Renew(won.RefreshToken))
	}
}

func atOnce(n int, f func() (issuer.Tokens, error)) ([]issuer.Tokens, []error) {
	answers, errs := make([]issuer.Tokens, n), make([]error, n)
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i := range n {
		done.Go(func() {
			begin.Wait()
			answers[i], errs[i] = f()
		})
	}
	begin.Done()
	done.Wait()
	return answers, errs
}

// A code that is presented again ends its grant, whatever else would refuse the code (RFC
// 6749 section 4.1.2).
func TestACodePresentedAgainEndsItsGrantWhateverElseRefusesIt(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*service){
		"expired":                 func(s *service) { s.Clock.Advance(time.Hour) },
		"under a cutoff":          func(s *service) { s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At()}) },
		"without scopes left":     func(s *service) { s.Administer(clientID, func(c *store.Client) { c.Scope = "mail" }) },
		"from before a restore":   func(s *service) { s.Restored() },
		"with nothing against it": func(*service) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			code := s.NewCode()
			tokens := s.Must(s.Redeem(code))
			after(s)
			s.Refused(grant.CodeReplayed)(s.Redeem(code))
			s.revoked(tokens.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
		})
	}
}

func TestARegisteredRetryWindowOfZeroIsStrict(t *testing.T) {
	t.Parallel()
	s := newService(t)
	none := store.Milliseconds(0)
	s.Administer(clientID, func(c *store.Client) { c.RetryWindow = &none })
	if s.Policy.RetryWindow == 0 || s.Client(clientID).RetryWindow == nil {
		t.Fatal("the deployment's window is none either, or the client's is not stored")
	}
	first := s.Login()
	s.Must(s.Renew(first.RefreshToken))
	s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
	s.revoked(first.GrantID, grant.ReasonRefreshReplayed, store.EventRefreshReplayed)
}

func (s *service) oneWon(answers []issuer.Tokens, errs []error) (won issuer.Tokens) {
	s.T.Helper()
	wins := 0
	for i, err := range errs {
		var refused *grant.Refused
		if err == nil {
			wins++
			won = answers[i]
		} else if !errors.As(err, &refused) {
			s.T.Errorf("a loser: %v, want a refusal", err)
		}
	}
	if wins != 1 {
		s.T.Fatalf("%d successes, want 1", wins)
	}
	return won
}

func TestACodeWorksOnce(t *testing.T) {
	for name, later := range map[string]time.Duration{
		"at once": 0,
		// An expired code never makes a grant, but presented again it still ends the grant
		// that it made.
		"after its expiry": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			code := s.NewCode()
			tokens := s.Must(s.Redeem(code))
			s.Clock.Advance(later)
			s.Refused(grant.CodeReplayed)(s.Redeem(code))
			s.revoked(tokens.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
			s.Refused(grant.CodeReplayed)(s.Redeem(code))
			s.revoked(tokens.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
		})
	}
}

func TestACodeThatWasNeverRedeemedExpires(t *testing.T) {
	s := newService(t)
	code := s.NewCode()
	s.Clock.Advance(s.CodeLifetime)
	s.Refused(grant.CodeExpired)(s.Redeem(code))
	s.Faulty.Calls()
	s.Refused(grant.CodeExpired)(s.Redeem(code))
	if calls := s.Faulty.Calls(); calls[storetest.CreateGrant] != 0 {
		t.Errorf("an expired code wrote: %v", calls)
	}
	if list, err := s.Engine.Grants(t.Context(), store.GrantFilter{Limit: 1}); err != nil || len(list) != 0 {
		t.Errorf("an expired code left %d grants, %v", len(list), err)
	}
}

func TestACodeWhoseGrantWasSweptIsExpired(t *testing.T) {
	s := newService(t)
	code := s.NewCode()
	tokens := s.Must(s.Redeem(code))
	s.Clock.Advance(s.Row(tokens.GrantID).DeleteAfter.Time().Add(time.Millisecond).Sub(s.Clock.Now()))
	if _, deleted, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", s.At(), 10); err != nil || deleted != 1 {
		t.Fatalf("swept %d, %v", deleted, err)
	}
	s.Refused(grant.CodeExpired)(s.Redeem(code))
	s.Refused(grant.GrantExpired)(s.Renew(tokens.RefreshToken))
}

func TestACodeWhoseGrantIsSweptDuringTheRequestIsExpired(t *testing.T) {
	s := newService(t)
	// The id is taken when the code is redeemed, and free when the row is read.
	s.Faulty.Inject(storetest.CreateGrant, 1, storetest.Conflicts)
	s.Refused(grant.CodeExpired)(s.Redeem(s.NewCode()))
}

func TestARequestThatIsNotTheOwnersChangesNothing(t *testing.T) {
	s := newService(t)
	s.Register(client.Registration{ID: "mail", Settings: store.Settings{Name: "Mail", RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither, NoPKCE: true}})
	mail := s.Listed("mail")
	spent := s.NewCode()
	tokens := s.Must(s.Redeem(spent))
	second := s.Must(s.Renew(tokens.RefreshToken))
	fresh := s.NewCode()
	for _, code := range []string{spent, fresh} {
		s.Refused(grant.OtherClient)(s.Exchange(t.Context(), mail, issuer.CodeRequest{Code: code, RedirectURI: redirectURI}))
		s.Refused(grant.RedirectMismatch)(s.Exchange(t.Context(), s.Listed(clientID), issuer.CodeRequest{Code: code, RedirectURI: redirectURI + "/"}))
		s.Refused(grant.ProofMismatch)(s.Exchange(t.Context(), s.Listed(clientID), issuer.CodeRequest{
			Code: code, RedirectURI: redirectURI, Verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}))
	}
	s.Clock.Advance(time.Hour)
	for _, token := range []string{tokens.RefreshToken, second.RefreshToken} {
		s.Refused(grant.OtherClient)(s.Refresh(t.Context(), mail, issuer.RefreshRequest{RefreshToken: token}))
	}
	s.WantActive(tokens.GrantID, 2)
	s.Must(s.Renew(second.RefreshToken))
}

func TestAnAuthenticTokenWithoutARowShowsThatTheStoreLostCommits(t *testing.T) {
	s := newService(t)
	row := s.Row(s.Login().GrantID)
	later := row.ExpiresAt.Add(time.Hour)
	for name, c := range map[string]struct {
		token keys.Token
		want  grant.Refusal
	}{
		"without a row":                        {keys.Token{GrantID: grant.ID{1}, Generation: 1, IssuedAt: row.RotatedAt, ExpiresAt: later}, grant.StoreBehind},
		"without a row, expired":               {keys.Token{GrantID: grant.ID{1}, Generation: 1, IssuedAt: row.RotatedAt, ExpiresAt: s.At()}, grant.GrantExpired},
		"ahead of its row":                     {keys.Token{GrantID: row.ID, Generation: 2, IssuedAt: row.RotatedAt, ExpiresAt: later}, grant.StoreBehind},
		"ahead of its row, expired":            {keys.Token{GrantID: row.ID, Generation: 2, IssuedAt: row.RotatedAt, ExpiresAt: s.At()}, grant.GrantExpired},
		"of another history, same generation":  {keys.Token{GrantID: row.ID, Generation: 1, IssuedAt: row.RotatedAt + 1, ExpiresAt: later}, grant.StoreBehind},
		"of another history, already expired":  {keys.Token{GrantID: row.ID, Generation: 1, IssuedAt: row.RotatedAt - 1, ExpiresAt: s.At() - 1}, grant.GrantExpired},
		"of the last generation that there is": {keys.Token{GrantID: row.ID, Generation: 1<<32 - 1, IssuedAt: row.RotatedAt, ExpiresAt: later}, grant.StoreBehind},
	} {
		text, err := s.View().Ring.SealRefresh(row.KeyID, realm, c.token)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { s.Refused(c.want)(s.Renew(text)) })
	}
	if s.Row(row.ID) != row {
		t.Error("the row was changed")
	}
}

func TestARowByAKeyThatThisNodeHasNotPolledIsUnavailable(t *testing.T) {
	s := newService(t)
	first := s.Login()
	key, err := keys.New(s.KEK, keys.MAC, s.At(), s.At()+1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	// Another node, which has polled, rotates under the new key.
	next := s.Row(first.GrantID)
	next.Generation, next.Version, next.KeyID, next.Attempt = 2, 2, key.ID, 99
	if err := storetest.Replace(t.Context(), s.Engine, next); err != nil {
		t.Fatal(err)
	}
	s.Unavailable(s.Renew(first.RefreshToken))
	s.AddKey(key)
	s.Poll()
	if tokens := s.Must(s.Renew(first.RefreshToken)); !tokens.Repeated || tokens.Generation != 2 {
		t.Errorf("got generation %d, repeated %t", tokens.Generation, tokens.Repeated)
	}
	if s.Row(first.GrantID) != next {
		t.Error("the row was changed")
	}
}

func TestScopeFollowsTheGrantAndTheClientsRegistration(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	expect := func(asked, want string) {
		t.Helper()
		tokens = s.Must(s.RenewScope(tokens.RefreshToken, asked))
		if string(tokens.Scope) != want {
			t.Errorf("asked for %q: got %q, want %q", asked, tokens.Scope, want)
		}
	}
	expect("", allScopes)
	expect("write", "write")
	expect("", allScopes) // narrowing is for one answer (RFC 6749 section 6)
	expect("admin read", "read admin")

	s.Administer(clientID, func(c *store.Client) { c.Scope = "other write" })
	expect("", "write")
	for _, wide := range []string{"read", "read write", "other", "\"", "write \\", " "} {
		s.Refused(grant.ScopeTooWide)(s.RenewScope(tokens.RefreshToken, wide))
	}
	s.Administer(clientID, func(c *store.Client) { c.Scope = "other" })
	s.Refused(grant.ScopeTooWide)(s.Renew(tokens.RefreshToken))
	// None of these requests spent the refresh token or narrowed the grant.
	s.Administer(clientID, func(c *store.Client) { c.Scope = allScopes + " more" })
	expect("", allScopes)

	// A code from before the registration shrank gives only the scopes that remain.
	code := s.NewCode()
	s.Administer(clientID, func(c *store.Client) { c.Scope = "read" })
	if tokens := s.Must(s.Redeem(code)); tokens.Scope != "read" {
		t.Errorf("a code gave %q, and the client is registered for read", tokens.Scope)
	}
}

// If a login portal forgets the challenge of a request, the code has no PKCE protection.
// Such a code must not be issued to a client that must use PKCE.
func TestACodeOfAClientThatMustUsePKCEHasAChallenge(t *testing.T) {
	s := newService(t)
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	for _, required := range []bool{true, false} {
		s.Administer(clientID, func(c *store.Client) { c.NoPKCE = store.Waiver(!required) })
		a := testkit.Authorization()
		var invalid *oauth.Invalid
		if _, err := s.Codes().Issue(t.Context(), a); required != (errors.As(err, &invalid) && invalid.Field == "code_challenge") {
			t.Errorf("required: %t, without a challenge: %v", required, err)
		}
		a.Challenge = challenge
		if _, err := s.Codes().Issue(t.Context(), a); err != nil {
			t.Errorf("required: %t, with a challenge: %v", required, err)
		}
	}
}

// The registration may have changed since the consent of the user.
func TestACodeIsForAGrantTypeOfItsClient(t *testing.T) {
	s := newService(t)
	for _, has := range []string{store.GrantAuthorizationCode, store.GrantDeviceCode} {
		s.Administer(clientID, func(c *store.Client) { c.GrantTypes = []string{has} })
		for _, device := range []bool{false, true} {
			a := testkit.Authorization()
			a.Device = device
			_, err := s.Codes().IssueAgreed(s.Listed(clientID), issuer.Agreement{
				Authorization: a, KeyID: s.View().Ring.Current(keys.Seal, s.At()), AuthorizedAt: s.At(), ExpiresAt: s.At().Add(time.Minute),
			})
			var invalid *oauth.Invalid
			if refused := errors.As(err, &invalid) && invalid.Field == "client_id"; refused == (device == (has == store.GrantDeviceCode)) || !refused && err != nil {
				t.Errorf("%s, for a device %t: %v", has, device, err)
			}
		}
	}
}
