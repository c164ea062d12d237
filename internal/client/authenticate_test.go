package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// proven checks whether a secret authenticates a client.
func (s *service) proven(id string, secret oauth.Secret, want bool) {
	s.T.Helper()
	c, err := s.Authenticate(id, secret)
	switch {
	case want && (err != nil || c == nil || c.ID != id):
		s.T.Errorf("a valid secret of client %s: %v", id, err)
	case !want && (!errors.Is(err, client.ErrClient) || c != nil):
		s.T.Errorf("a bad secret of client %s: %v, want ErrClient", id, err)
	}
}

func TestOnlyAnEnabledClientOfTheRealmAuthenticates(t *testing.T) {
	s := newService(t)
	s.proven(clientID, s.Secret, true)
	s.proven(clientID, s.Secret+"x", false)
	s.proven(clientID, s.Secret[:len(s.Secret)-1], false)
	s.proven(clientID, "", false)
	s.proven("Billing", s.Secret, false)
	s.proven("", s.Secret, false)
	for _, state := range []store.ClientState{store.ClientDisabled, store.ClientDeleted} {
		s.Administer(clientID, func(c *store.Client) { c.State = state })
		s.proven(clientID, s.Secret, false)
		var invalid *oauth.Invalid
		if _, err := s.Codes().Issue(t.Context(), testkit.Authorization()); !errors.As(err, &invalid) || invalid.Field != "client_id" {
			t.Errorf("a code for a client that is %s: %v", state, err)
		}
	}
	s.Administer(clientID, func(c *store.Client) { c.State = store.ClientEnabled })
	s.proven(clientID, s.Secret, true)
	s.proven(s.elsewhere(), s.Secret, false)
}

// elsewhere registers the fixture's client in another realm, with the same secret. It
// returns the new id.
func (s *service) elsewhere() string {
	s.T.Helper()
	c := s.Client(clientID).Clone()
	c.ID, c.Realm, c.State, c.Version = "elsewhere", "/other", store.ClientEnabled, 1
	if err := s.Engine.Commit(s.T.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		s.T.Fatal(err)
	}
	s.Poll()
	if _, ok := s.View().Client("/other", c.ID); !ok {
		s.T.Fatal("the client of another realm is not in the directory")
	}
	return c.ID
}

func TestAClientAuthenticatesByItsRegisteredMethodAlone(t *testing.T) {
	s := newService(t)
	for rule, allowed := range map[store.AuthRule][]oauth.AuthMethod{
		store.AuthEither: {oauth.AuthPost, oauth.AuthBasic}, store.AuthPost: {oauth.AuthPost}, store.AuthBasic: {oauth.AuthBasic}, store.AuthNone: {oauth.AuthNone},
	} {
		s.Administer(clientID, func(c *store.Client) { c.Auth = rule })
		for _, method := range []oauth.AuthMethod{oauth.AuthPost, oauth.AuthBasic, oauth.AuthNone, "private_key_jwt"} {
			cred := oauth.Credentials{ClientID: clientID, Secret: s.Secret, Method: method}
			if method == oauth.AuthNone {
				cred.Secret = ""
			}
			_, err := s.Clients.Authenticate(t.Context(), cred, netip.Addr{})
			want := false
			for _, m := range allowed {
				want = want || m == method
			}
			if want != (err == nil) || !want && !errors.Is(err, client.ErrClient) {
				t.Errorf("registered for %s, authenticates by %s: %v", rule, method, err)
			}
		}
	}
}

func TestEachOfSeveralSecretsWorksUntilItsExpiry(t *testing.T) {
	s := newService(t)
	c, second, text, err := client.AddSecret(s.Client(clientID), s.View().Ring, s.At(), s.At().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.Administer(clientID, func(have *store.Client) { have.Secrets = c.Secrets })
	s.proven(clientID, s.Secret, true)
	s.proven(clientID, text, true)
	s.Clock.Advance(time.Hour - time.Millisecond)
	s.proven(clientID, text, true)
	s.Clock.Advance(time.Millisecond)
	s.proven(clientID, text, false)
	s.proven(clientID, s.Secret, true)
	s.Administer(clientID, func(c *store.Client) { c.Secrets = []store.Secret{second} })
	s.proven(clientID, s.Secret, false)
}

// A secret that was used at a node whose clock is slightly ahead counts as used now.
func TestTheLastUseOfASecretIsNotInTheFuture(t *testing.T) {
	t.Parallel()
	now := testkit.Started
	used := store.Secret{ID: "a", LastUsedAt: now.Add(1500 * time.Millisecond)}
	c := store.Client{Secrets: []store.Secret{used, {ID: "b"}}}
	if why := client.SecretVerdict(c, used, now); why != "it was used 0s ago" {
		t.Error(why)
	}
}

// The shortest of many runs is the time without disturbance. A busy machine needs many
// runs.
func TestAnUnknownClientCostsTheWorkOfAWrongSecret(t *testing.T) {
	s := newService(t)
	work := func(id string) time.Duration {
		began := time.Now()
		for range 200 {
			if _, err := s.Authenticate(id, "a wrong secret of a client"); !errors.Is(err, client.ErrClient) {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	wrong, unknown := work(clientID), work("nobody")
	for round := range 500 {
		wrong, unknown = min(wrong, work(clientID)), min(unknown, work("nobody"))
		if round >= 20 && unknown >= wrong/2 && unknown <= wrong*2 {
			return
		}
	}
	t.Errorf("200 wrong secrets take %s, 200 unknown clients %s", wrong, unknown)
}

// imported registers the client "old" with an imported secret.
func (s *service) imported(secret oauth.Secret) {
	s.T.Helper()
	s.importedAs("old", secret)
}

func (s *service) importedAs(id string, secret oauth.Secret) {
	s.T.Helper()
	s.Register(client.Registration{ID: id, Secret: secret, Settings: store.Settings{Name: "Imported", RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither, NoPKCE: true}})
}

// upgraded reports whether the imported secret is in its fast form.
func (s *service) upgraded() bool {
	s.T.Helper()
	secret := s.Client("old").Secrets[0]
	if (secret.Slow == "") != (len(secret.Digest) > 0) {
		s.T.Fatal("a secret has both forms or none")
	}
	return secret.Slow == ""
}

// fast checks that the secret authenticates while no slow check can run.
func (s *service) fast(cred oauth.Credentials) {
	s.T.Helper()
	release := s.Clients.Slow.Pause()
	defer release()
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
	defer cancel()
	if _, err := s.Clients.Authenticate(ctx, cred, netip.Addr{}); err != nil {
		s.T.Errorf("a secret in its fast form: %v", err)
	}
}

func TestAnImportedSecretIsCheckedSlowlyOnceAndFastAfterwards(t *testing.T) {
	s := newService(t)
	s.imported("correct horse")
	if id := s.Client("old").Secrets[0].ID; len(id) != 12 {
		t.Errorf("operators name the secret by %q", id)
	}
	s.proven("old", "wrong horse", false)
	if s.upgraded() {
		t.Fatal("a wrong secret was kept")
	}
	s.proven("old", "correct horse", true)
	if !s.upgraded() {
		t.Fatal("the secret is still in its slow form")
	}
	s.fast(oauth.Credentials{ClientID: "old", Secret: "correct horse", Method: oauth.AuthPost})
	s.proven("old", "wrong horse", false)
	events, err := s.Engine.Events(t.Context(), "old", 10)
	if err != nil || len(events) != 1 || events[0].Name != store.EventSecretUpgraded {
		t.Errorf("events %+v, %v", events, err)
	}
}

// Many programs send Basic credentials without the form encoding of RFC 6749
// section 2.3.1.
func TestAnImportedSecretMayBeUnencodedInABasicHeader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ registered, decoded, raw oauth.Secret }{
		"raw":     {"50%25+secret", "50% secret", "50%25+secret"},
		"encoded": {"50% secret", "50% secret", "50%25+secret"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			s.imported(c.registered)
			cred := oauth.Credentials{ClientID: "old", Secret: c.decoded, RawSecret: c.raw, Method: oauth.AuthBasic, Header: true}
			if _, err := s.Clients.Authenticate(t.Context(), cred, netip.Addr{}); err != nil {
				t.Errorf("the first use: %v", err)
			}
			if !s.upgraded() {
				t.Error("the secret is still in its slow form")
			}
			s.fast(cred)
			s.fast(oauth.Credentials{ClientID: "old", Secret: c.registered, Method: oauth.AuthPost})
			cred.Secret, cred.RawSecret = "50% Secret", "50%25+Secret"
			if _, err := s.Clients.Authenticate(t.Context(), cred, netip.Addr{}); !errors.Is(err, client.ErrClient) {
				t.Errorf("another secret: %v, want ErrClient", err)
			}
		})
	}
}

func TestConcurrentFirstUsesOfAnImportedSecretUpgradeItOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.imported("correct horse")
	var done sync.WaitGroup
	var proven atomic.Int64
	for range 8 {
		done.Go(func() {
			_, err := s.Authenticate("old", "correct horse")
			switch {
			case err == nil:
				proven.Add(1)
			case !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient):
				t.Errorf("%v, want success or ErrUnavailable", err)
			}
		})
	}
	done.Wait()
	if n := proven.Load(); n < client.SlowChecksOfOne {
		t.Errorf("%d of 8 succeeded, want at least %d", n, client.SlowChecksOfOne)
	}
	if c := s.Client("old"); !s.upgraded() || c.Version != 2 {
		t.Errorf("upgraded %t, version %d", s.upgraded(), c.Version)
	}
	s.fast(oauth.Credentials{ClientID: "old", Secret: "correct horse", Method: oauth.AuthPost})
}

func TestAnUpgradeThatFailsIsTriedAgainAtTheNextUse(t *testing.T) {
	t.Parallel()
	for _, m := range []storetest.Method{storetest.Client, storetest.CommitEntry} {
		for name, fault := range map[string]storetest.Fault{"lost": storetest.Lost, "full": storetest.Full} {
			t.Run(string(m)+" "+name, func(t *testing.T) {
				s := newService(t)
				s.imported("correct horse")
				s.Faulty.Inject(m, 1, fault)
				s.proven("old", "correct horse", true)
				if s.upgraded() {
					t.Fatal("upgraded by a write that did not happen")
				}
				if s.Logged.Count("cannot store the fast form") != 1 {
					t.Error("the fault was not logged")
				}
				s.proven("old", "correct horse", true)
				if !s.upgraded() {
					t.Error("the next use did not upgrade it")
				}
			})
		}
	}
	t.Run("unanswered", func(t *testing.T) {
		s := newService(t)
		s.imported("correct horse")
		s.Faulty.Inject(storetest.CommitEntry, 1, storetest.Unanswered)
		s.proven("old", "correct horse", true)
		if !s.upgraded() {
			t.Error("the write happened")
		}
		// Until its next poll, this node has the slow form and checks slowly.
		s.proven("old", "correct horse", true)
		s.Poll()
		s.fast(oauth.Credentials{ClientID: "old", Secret: "correct horse", Method: oauth.AuthPost})
		if v := s.Client("old").Version; v != 2 {
			t.Errorf("version %d, want 2: it was upgraded once", v)
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		s := newService(t)
		s.imported("correct horse")
		s.Faulty.Inject(storetest.CommitEntry, 1, storetest.Meanwhile(func() {
			s.Administer("old", func(c *store.Client) { c.Name = "Renamed" })
		}))
		s.proven("old", "correct horse", true)
		if s.upgraded() || s.Client("old").Name != "Renamed" {
			t.Error("the upgrade overwrote an administrator's change")
		}
		s.proven("old", "correct horse", true)
		if !s.upgraded() || s.Client("old").Name != "Renamed" {
			t.Error("the next use did not upgrade it")
		}
	})
}

func TestSlowSecretChecksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		ids := make([]string, client.SlowChecks/client.SlowChecksOfOne+1)
		for i := range ids {
			ids[i] = fmt.Sprint("old", i)
			s.importedAs(ids[i], "correct horse")
		}
		full := func(id, what string) {
			t.Helper()
			if _, err := s.Authenticate(id, "correct horse"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient) {
				t.Errorf("%s: %v, want ErrUnavailable", what, err)
			}
		}
		release := s.Clients.Slow.Pause()
		var waiting sync.WaitGroup
		last := len(ids) - 1
		for n, id := range ids[:last] {
			// Wrong guesses for one client leave the slots of the other clients free.
			for range client.SlowChecksOfOne {
				waiting.Go(func() { s.proven(id, "a guess", false) })
			}
			synctest.Wait()
			full(id, "one too many for a client")
			if there := s.Clients.Slow.Taken(); there != (n+1)*client.SlowChecksOfOne {
				t.Errorf("%d slow checks wait for %d clients", there, n+1)
			}
		}
		if n := s.Clients.Slow.Taken(); n != client.SlowChecks {
			t.Errorf("%d slow checks wait, want %d", n, client.SlowChecks)
		}
		full(ids[last], "one too many")
		// Clients with generated secrets are not affected.
		s.proven(clientID, s.Secret, true)
		release()
		waiting.Wait()
		if n := s.Clients.Slow.Taken(); n != 0 {
			t.Errorf("%d slots are still taken", n)
		}
		for _, id := range ids {
			s.proven(id, "correct horse", true)
		}
	})
}

// One network leaves slots for the owners of imported secrets, whatever clients it names
// and whatever addresses it uses.
func TestOneNetworkDoesNotFillThePoolOfSlowSecretChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		ids := make([]string, client.SlowChecks/client.SlowChecksOfOne+1)
		for i := range ids {
			ids[i] = fmt.Sprint("old", i)
			s.importedAs(ids[i], "correct horse")
		}
		release := s.Clients.Slow.Pause()
		var flood sync.WaitGroup
		for n, id := range append(ids[1:], ids[1:]...) {
			flood.Go(func() {
				cred := oauth.Credentials{ClientID: id, Secret: "a guess", Method: oauth.AuthPost}
				_, err := s.Clients.Authenticate(t.Context(), cred, netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::1", n)))
				if !errors.Is(err, client.ErrClient) && !errors.Is(err, store.ErrUnavailable) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if n := s.Clients.Slow.Taken(); n > client.SlowChecks/3 {
			t.Errorf("one network has %d of %d slots", n, client.SlowChecks)
		}
		for _, id := range ids[:3] {
			flood.Go(func() {
				cred := oauth.Credentials{ClientID: id, Secret: "correct horse", Method: oauth.AuthPost}
				if _, err := s.Clients.Authenticate(t.Context(), cred, netip.MustParseAddr("192.0.2.1")); err != nil {
					t.Errorf("an owner elsewhere: %v", err)
				}
			})
		}
		synctest.Wait()
		release()
		flood.Wait()
	})
}

func TestASlowSecretCheckWaitsNoLongerThanItsRequest(t *testing.T) {
	s := newService(t)
	s.imported("correct horse")
	release := s.Clients.Slow.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Clients.Authenticate(ctx, oauth.Credentials{ClientID: "old", Secret: "correct horse", Method: oauth.AuthPost}, netip.Addr{}); !errors.As(err, new(*store.ExternalFault)) {
		t.Errorf("a check that never got its turn: %v, want ErrUnavailable", err)
	}
	release()
	if n := s.Clients.Slow.Taken(); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
}

func TestSecretsOfAnotherStoreAreRefused(t *testing.T) {
	s, other := newService(t), newService(t)
	// The same secret has another digest under another pepper.
	digest := other.View().Ring.Digest(s.Secret)
	s.Administer(clientID, func(c *store.Client) { c.Secrets[0].Digest = digest })
	s.proven(clientID, s.Secret, false)
	digest = s.View().Ring.Digest(s.Secret)
	s.Administer(clientID, func(c *store.Client) { c.Secrets[0].Digest = digest })
	s.proven(clientID, s.Secret, true)
	if len(keys.NewSecret()) != 43 {
		t.Error("a generated secret has 43 characters, which are 256 bits")
	}
}

func TestAuthenticateReturnsTheAuthFault(t *testing.T) {
	s := newService(t)
	check := func(id string, secret oauth.Secret, method oauth.AuthMethod, want client.AuthFault) {
		t.Helper()
		_, err := s.Clients.Authenticate(t.Context(), oauth.Credentials{Method: method, ClientID: id, Secret: secret, RawSecret: secret}, netip.Addr{})
		var fault client.AuthFault
		if !errors.Is(err, client.ErrClient) || !errors.As(err, &fault) || fault != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check("nobody", s.Secret, oauth.AuthPost, client.UnknownClient)
	check("nobody", "", oauth.AuthNone, client.UnknownClient)
	check(clientID, s.Secret+"x", oauth.AuthPost, client.WrongSecret)
	check(clientID, "", oauth.AuthNone, client.WrongMethod)
	s.Administer(clientID, func(c *store.Client) { c.Auth = store.AuthBasic })
	check(clientID, s.Secret, oauth.AuthPost, client.WrongMethod)
	s.Administer(clientID, func(c *store.Client) { c.Secrets[0].ExpiresAt = grant.At(s.Clock.Now()) })
	check(clientID, s.Secret, oauth.AuthBasic, client.ExpiredSecret)
	check(clientID, s.Secret+"x", oauth.AuthBasic, client.WrongSecret)
	s.Administer(clientID, func(c *store.Client) { c.State = store.ClientDisabled })
	check(clientID, s.Secret, oauth.AuthBasic, client.ClientInactive)
	check(s.elsewhere(), s.Secret, oauth.AuthBasic, client.UnknownClient)
}
