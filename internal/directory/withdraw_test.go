package directory_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

func (s *service) withdraw(w directory.Withdrawal) directory.Withdrawn {
	s.T.Helper()
	w.Actor = "operator:test"
	done, err := directory.WithdrawKeys(s.T.Context(), s.Faulty, s.KEK, w, s.Clock.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	return done
}

// One node knows of a withdrawal, and another one does not yet.
func TestAWithdrawalEndsWhatTheKeysMadeAndTheSuccessorsServeAtOnce(t *testing.T) {
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		nodes := newNodes(t, testkit.Quick(), 2)
		s, late := nodes[0], nodes[1]
		s.Administer(clientID, func(c *store.Client) { c.TokenFormat = format })
		late.Poll()
		old := s.Login()
		spent := s.Login()
		moved := s.Must(s.Renew(spent.RefreshToken))
		code := s.NewCode()
		s.Clock.Advance(time.Second)
		s.Poll()
		late.Poll()
		done := s.withdraw(directory.Withdrawal{Purposes: testkit.Quick().Rotating()})
		if len(done.Keys) != len(testkit.Quick().Rotating()) || len(done.Added) != len(done.Keys) {
			t.Fatalf("%d keys withdrawn, %d added", len(done.Keys), len(done.Added))
		}
		policies := map[string]grant.Policy{realm: {AccessLifetime: 5 * time.Minute}}
		n, err := directory.CountEnded(t.Context(), s.Engine, done.Keys, policies, s.At())
		if err != nil || n.Grants != 2 || (n.JWTs == 2) != (format == store.TokenJWT) {
			t.Errorf("%s: it ends %+v, %v; want 2 grants", format, n, err)
		}
		s.Poll()

		// A node that has not polled accepts tokens of the new keys.
		fresh := s.Must(s.Redeem(s.NewCode()))
		late.Must(late.Renew(fresh.RefreshToken))
		if _, err := late.Inspect(t.Context(), fresh.AccessToken); err != nil {
			t.Errorf("%s, on a node that has not polled: %v", format, err)
		}
		for _, node := range nodes {
			for _, token := range []string{old.RefreshToken, moved.RefreshToken, spent.RefreshToken} {
				node.Refused(grant.KeyWithdrawn)(node.Renew(token))
			}
			node.Refused(grant.KeyWithdrawn)(node.Redeem(code))
			why := grant.KeyWithdrawn
			if format == store.TokenJWT {
				why = grant.TokenUnknown
			}
			node.Dead(why)(node.Inspect(t.Context(), old.AccessToken))
		}
		// An unverifiable token causes no write.
		s.WantActive(moved.GrantID, 2)
		for _, r := range done.Keys {
			events, err := s.Engine.Events(t.Context(), r.ID.String(), 10)
			if err != nil || len(events) != 2 || events[1].Name != store.EventKeyWithdrawn || events[1].Actor != "operator:test" {
				t.Errorf("key %s has the events %+v, %v", r.ID, events, err)
			}
		}
		// The schedule continues from the successor keys.
		s.Clock.Advance(59 * time.Minute)
		s.RotateKeys()
		if got := testkit.Phases(s.Lives(keys.MAC)); got != "withdrawn active next" {
			t.Errorf("an hour later, keys are %s", got)
		}
	}
}

// A node must not query the store for every text that anybody sends.
func TestAKeyThatIsUnknownIsAskedForOnceASecond(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	foreign := newNodes(t, testkit.Quick(), 1)[0].Login()
	s.Clock.Advance(time.Second)
	s.Poll()
	for range 3 {
		s.Faulty.Calls()
		for range 10 {
			s.Refused(grant.TokenUnknown)(s.Renew(foreign.RefreshToken))
		}
		if n := s.Faulty.Calls()[storetest.Changes]; n != 1 {
			t.Errorf("%d polls in a second", n)
		}
		s.Clock.Advance(directory.PollInterval)
	}
}

// A node that has not polled must not finally refuse a token of a withdrawn key's
// successor: not within a second of another poll, not during one, and not if the poll
// fails. If it may not query the store again, it answers 503.
func TestATokenWhoseKeyMayExistIsNotRefusedForGood(t *testing.T) {
	nodes := newNodes(t, testkit.Quick(), 3)
	s, late, flooded := nodes[0], nodes[1], nodes[2]
	foreign := newNodes(t, testkit.Quick(), 1)[0].Login()
	late.Refused(grant.TokenUnknown)(late.Renew(foreign.RefreshToken)) // causes a poll
	for n := range 100 {
		forged := []byte(foreign.RefreshToken)
		copy(forged[len(keys.RefreshPrefix)+2:], fmt.Sprintf("%04d", n))
		flooded.Renew(string(forged))
	}
	s.withdraw(directory.Withdrawal{Purposes: testkit.Quick().Rotating()})
	s.Poll()
	fresh := s.Login()
	late.Faulty.Inject(storetest.Changes, 1, storetest.Lost)
	late.Unavailable(late.Renew(fresh.RefreshToken))
	fresh = late.Must(late.Renew(fresh.RefreshToken))

	flooded.Unavailable(flooded.Renew(fresh.RefreshToken))
	// An unauthenticated caller has caused it, so it does not count as an outage of the
	// store.
	if _, err := flooded.Inspect(t.Context(), fresh.AccessToken); !errors.Is(err, store.ErrUnavailable) || !errors.As(err, new(*store.ExternalFault)) {
		t.Errorf("introspection: %v", err)
	}
	if _, err := flooded.Revoke(t.Context(), flooded.Listed(clientID), fresh.RefreshToken, testkit.Origin); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("revocation: %v", err)
	}
	s.Clock.Advance(directory.PollInterval)
	flooded.Must(flooded.Renew(fresh.RefreshToken))
}

func TestAWithdrawalNamesItsKeys(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	mac, pepper := s.Lives(keys.MAC)[0].ID, s.Lives(keys.Pepper)[0].ID
	before := s.Login()
	for name, w := range map[string]directory.Withdrawal{"the pepper": {Keys: []grant.KeyID{pepper}}, "no key": {Keys: []grant.KeyID{mac + 1}}} {
		var invalid *oauth.Invalid
		if _, err := directory.WithdrawKeys(t.Context(), s.Engine, s.KEK, w, s.Clock.Now); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Clock.Advance(59 * time.Minute)
	s.RotateKeys()
	s.Clock.Advance(time.Minute)
	s.RotateKeys()
	// Withdrawing only a retired key keeps today's tokens.
	today := s.Login()
	done := s.withdraw(directory.Withdrawal{Keys: []grant.KeyID{mac}})
	if len(done.Keys) != 1 || len(done.Added) != 0 {
		t.Errorf("%d keys withdrawn, %d added", len(done.Keys), len(done.Added))
	}
	s.Poll()
	s.Refused(grant.KeyWithdrawn)(s.Renew(before.RefreshToken))
	s.Must(s.Renew(today.RefreshToken))
	var invalid *oauth.Invalid
	if _, err := directory.WithdrawKeys(t.Context(), s.Engine, s.KEK, directory.Withdrawal{Keys: []grant.KeyID{mac}}, s.Clock.Now); !errors.As(err, &invalid) {
		t.Errorf("withdrawn twice: %v", err)
	}
}

// A withdrawal is made once in spite of concurrent changes, or returns the store's fault.
func TestAWithdrawalIsMadeOnceOrFails(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{"a conflict": storetest.Conflicts, "lost": storetest.Lost, "not answered": storetest.Unanswered} {
		s := newNodes(t, testkit.Quick(), 1)[0]
		s.Clock.Advance(time.Second)
		s.Faulty.Inject(storetest.CommitKeys, 1, fault)
		_, err := directory.WithdrawKeys(t.Context(), s.Faulty, s.KEK, directory.Withdrawal{Purposes: []keys.Purpose{keys.MAC}}, s.Clock.Now)
		if (err == nil) != (name == "a conflict") {
			t.Errorf("%s: %v", name, err)
		}
		s.Poll()
		want := map[string]string{"a conflict": "withdrawn active", "lost": "active", "not answered": "withdrawn active"}[name]
		if got := testkit.Phases(s.Lives(keys.MAC)); got != want {
			t.Errorf("%s: keys are %s, want %s", name, got, want)
		}
		s.Login()
	}
}

// twoKEKs gives the node a kek file, and appends a new key as its second line.
func (s *service) twoKEKs() (path, old, fresh string, both *keys.KEK) {
	s.T.Helper()
	old, fresh = keys.NewKEKText(), keys.NewKEKText()
	path = filepath.Join(s.T.TempDir(), "kek")
	s.writeKEK(path, old)
	// The store's keys are wrapped by the harness's key: wrap them by the file's first
	// key.
	to, err := keys.ParseKEK(old)
	if err != nil {
		s.T.Fatal(err)
	}
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err != nil {
		s.T.Fatal(err)
	}
	var changed []keys.Stored
	for _, r := range ch.Keys {
		if r, err = to.Rewrap(s.KEK, r); err != nil {
			s.T.Fatal(err)
		}
		changed = append(changed, r)
	}
	if err := s.Engine.Commit(s.T.Context(), store.Change{Expect: ch.Version, Keys: changed}); err != nil {
		s.T.Fatal(err)
	}
	s.KEK = to
	if both, err = keys.ParseKEK(old + fresh); err != nil {
		s.T.Fatal(err)
	}
	return path, old, fresh, both
}

func (s *service) writeKEK(path, text string) {
	s.T.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// reads makes the node read a kek file, as a server does.
func (s *service) reads(path string) {
	s.T.Helper()
	s.Directory.ReadKEK = func() (*keys.KEK, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return keys.ParseKEK(string(text))
	}
}

// The operator's machine may fail between any two steps, and keys may become due: nodes
// continue, and the same command resumes.
func TestRunningNodesFollowANewKeyEncryptionKey(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	path, old, fresh, both := s.twoKEKs()
	s.Reopen(testkit.Quick())
	s.reads(path)
	tokens := s.Login()
	goesOn := func(step string) {
		t.Helper()
		s.Clock.Advance(59 * time.Minute)
		s.RotateKeys() // adds keys
		s.Clock.Advance(time.Minute)
		s.RotateKeys()
		tokens = s.Must(s.Renew(tokens.RefreshToken))
		if t.Failed() {
			t.Fatal(step)
		}
	}
	goesOn("before")
	s.writeKEK(path, old+fresh)
	goesOn("after the new key is in the file")
	for _, fault := range []storetest.Fault{storetest.Lost, storetest.Conflicts} {
		s.Faulty.Inject(storetest.CommitKeys, 1, fault)
	}
	if _, err := directory.RewrapKeys(t.Context(), s.Faulty, both, "operator:test", s.Clock.Now); err == nil {
		t.Fatal("a lost write is reported as done")
	}
	goesOn("after a write that was lost")
	if n, err := directory.RewrapKeys(t.Context(), s.Faulty, both, "operator:test", s.Clock.Now); err != nil || n < 10 {
		t.Fatalf("%d keys, %v", n, err)
	}
	// Until its next poll, this node also uses the new key for an operator's requests.
	kek, err := s.Issuer.Directory.KEK(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := directory.RotateKeys(t.Context(), s.Faulty, kek, testkit.Quick(), directory.Rotation{}, s.Clock.Now); err != nil {
		t.Error(err)
	}
	goesOn("after the keys are wrapped by the new key")
	if n, err := directory.RewrapKeys(t.Context(), s.Faulty, both, "operator:test", s.Clock.Now); err != nil || n != 0 {
		t.Fatalf("again: %d keys, %v", n, err)
	}
	s.writeKEK(path, fresh)
	goesOn("after the old key has left the file")
	if s.Logged.Count("key-encryption key replaced") != 1 {
		t.Error("the log does not say that the node has read the new key")
	}
	events, err := s.Engine.Events(t.Context(), "store", 10)
	if err != nil || len(events) != 1 || events[0].Name != store.EventKEKRotated {
		t.Errorf("events %+v, %v", events, err)
	}
	// A process that starts now has only the new key.
	if s.KEK, err = keys.ParseKEK(fresh); err != nil {
		t.Fatal(err)
	}
	s.Reopen(testkit.Quick())
	s.Must(s.Renew(tokens.RefreshToken))
}

// A node without the new key serves nothing until it has the key.
func TestANodeWithoutTheNewKeyEncryptionKeyWaitsForIt(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	path, old, fresh, both := s.twoKEKs()
	s.Reopen(testkit.Quick())
	s.reads(path)
	tokens, c := s.Login(), s.Listed(clientID)
	if _, err := directory.RewrapKeys(t.Context(), s.Engine, both, "operator:test", s.Clock.Now); err != nil {
		t.Fatal(err)
	}
	var other *keys.OtherKEK
	if err := s.Directory.Poll(t.Context()); !errors.As(err, &other) || other.Needs != both.Next().Fingerprint() {
		t.Errorf("a poll without the new key: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Directory.Poll(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a poll without the file: %v", err)
	}
	s.Clock.Advance(6 * time.Second)
	s.Unavailable(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin}))
	s.writeKEK(path, old+fresh)
	s.Poll()
	s.Must(s.Renew(tokens.RefreshToken))
}

// A JWT may have an API's own format and lifetime, and clients of two realms may have the
// same id.
func TestTheJWTsThatAWithdrawalEndsAreCountedByRealmAndAPI(t *testing.T) {
	s := newService(t)
	now := s.At()
	hour := store.Milliseconds(time.Hour.Milliseconds())
	here, there := s.Client(clientID).Clone(), s.Client(clientID).Clone()
	here.TokenFormat, here.Version = store.TokenOpaque, here.Version+1
	there.Realm, there.TokenFormat, there.Version = "/other", store.TokenJWT, 1
	api := store.API{Realm: realm, ID: "https://api.example", Name: "API", Number: 7, Version: 1, TokenFormat: store.TokenJWT, AccessLifetime: &hour, LongestLifetime: hour, Scopes: []store.APIScope{{Name: "of-api", Number: 1}}}
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{here.Entry(), there.Entry(), api.Entry()}}); err != nil {
		t.Fatal(err)
	}
	policies := map[string]grant.Policy{realm: {AccessLifetime: 5 * time.Minute}, "/other": {AccessLifetime: 10 * time.Minute}}
	for i, g := range []grant.Grant{{Realm: realm}, {Realm: realm, Facts: grant.Facts{APIs: grant.APIs{7}}}, {Realm: "/other"}} {
		g.ID[0], g.ClientID, g.Subject, g.Scope, g.State = byte(i+1), clientID, "alice", "a", grant.Active
		g.AuthorizedAt, g.RotatedAt, g.Generation, g.Version, g.ExpiresAt, g.DeleteAfter = now, now, 1, 1, now.Add(24*time.Hour), now.Add(25*time.Hour)
		if err := s.Engine.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	records := []keys.Stored{{Purpose: keys.ES256}}
	for after, want := range map[time.Duration]int{6 * time.Minute: 2, 11 * time.Minute: 1, time.Hour: 0} {
		if n, err := directory.CountEnded(t.Context(), s.Engine, records, policies, now.Add(after)); err != nil || n.JWTs != want {
			t.Errorf("after %s: %d grants with JWTs, want %d; %v", after, n.JWTs, want, err)
		}
	}
	if n, err := directory.CountEnded(t.Context(), s.Engine, []keys.Stored{{Purpose: keys.RS256}}, policies, now); err != nil || n.JWTs != 0 {
		t.Errorf("of another algorithm: %d, %v", n.JWTs, err)
	}
}
