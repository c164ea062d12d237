package directory_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

func TestADirectoryWithoutNewsForMoreThanFiveSecondsAnswersNothing(t *testing.T) {
	s := newService(t)
	code, tokens, c := s.NewCode(), s.Login(), s.Listed(clientID)
	s.Uptime.Advance(5 * time.Second)
	tokens = s.Must(s.Renew(tokens.RefreshToken))
	s.Uptime.Advance(time.Millisecond)
	s.Faulty.Calls()

	s.Unavailable(s.Exchange(t.Context(), c, issuer.CodeRequest{Code: code, RedirectURI: redirectURI}))
	s.Unavailable(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	_, authErr := s.Authenticate(clientID, s.Secret)
	_, codeErr := s.Codes().Issue(t.Context(), testkit.Authorization())
	for name, err := range map[string]error{"Authenticate": authErr, "Issue": codeErr} {
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, directory.ErrStale) || errors.Is(err, client.ErrClient) {
			t.Errorf("%s: %v, want ErrUnavailable and ErrStale", name, err)
		}
	}
	if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
		t.Errorf("Ready: %v, want ErrStale", err)
	}
	if calls := s.Faulty.Calls(); len(calls) != 0 {
		t.Errorf("store calls %v", calls)
	}

	// A failed poll is no news.
	s.Faulty.Inject(storetest.Changes, 1, storetest.Lost)
	if err := s.Directory.Poll(t.Context()); err == nil {
		t.Error("a poll that failed says nothing")
	}
	s.Unavailable(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	s.Poll()
	if err := s.Directory.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
	s.Must(s.Renew(tokens.RefreshToken))
	s.Must(s.Redeem(code))
}

func TestTheAgeOfThePollIsThatOfItsBeginning(t *testing.T) {
	s := newService(t)
	// The data may have changed since the poll began.
	s.Faulty.Inject(storetest.Changes, 1, storetest.Meanwhile(func() { s.Uptime.Advance(4 * time.Second) }))
	s.Poll()
	s.Uptime.Advance(time.Second)
	if err := s.Directory.Ready(); err != nil {
		t.Errorf("five seconds after the poll began: %v", err)
	}
	s.Uptime.Advance(time.Millisecond)
	if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
		t.Errorf("more than five seconds after the poll began: %v, want ErrStale", err)
	}
}

func TestAPollBringsWhatOtherProcessesChanged(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	// Each change is unknown before the poll and known after it.
	s.proven("mail", "a secret", false)
	_, secret := s.Register(client.Registration{ID: "mail", Settings: store.Settings{Name: "Mail", RedirectURIs: []string{redirectURI}, Scope: "read", Auth: store.AuthPost, NoPKCE: true}})
	s.proven("mail", secret, true)

	c := s.Client("mail")
	c.Version, c.State = 2, store.ClientDisabled
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.proven("mail", secret, true)
	s.Poll()
	s.proven("mail", secret, false)

	if err := s.Engine.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: realm, Subject: subject, At: s.At()}}}); err != nil {
		t.Fatal(err)
	}
	tokens = s.Must(s.Renew(tokens.RefreshToken))
	s.Poll()
	s.Refused(grant.CutOff)(s.Renew(tokens.RefreshToken))

	key, err := keys.New(s.KEK, keys.MAC, s.At(), s.At())
	if err != nil {
		t.Fatal(err)
	}
	s.AddKey(key)
	if s.View().Ring.Has(key.ID) {
		t.Error("the key was known before the poll")
	}
	s.Poll()
	if !s.View().Ring.Has(key.ID) {
		t.Error("the key is unknown after the poll")
	}
}

// A realm without APIs is not affected when another one registers its first API.
func TestAnAPIChangesNothingInAnotherRealm(t *testing.T) {
	s := newService(t)
	other, life := s.Client(clientID).Clone(), store.Milliseconds(2*time.Minute/time.Millisecond)
	other.Realm, other.Scope, other.Version = "/other", "elsewhere", 1
	api := store.API{Realm: realm, ID: "https://api.example", Name: "API", Number: 1, Version: 1, AccessLifetime: &life, Scopes: []store.APIScope{{Name: "of-api", Number: 1}}}
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{other.Entry(), api.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	v := s.View()
	if !v.HasAPIs(realm) || v.HasAPIs("/other") {
		t.Error("a realm has the APIs of another")
	}
	if here, there := v.ShortestAccess(realm, time.Hour), v.ShortestAccess("/other", time.Hour); here != 2*time.Minute || there != time.Hour {
		t.Errorf("shortest lifetimes %s, and %s in the other realm", here, there)
	}
	if got := s.Directory.Scopes("/other"); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("scopes of the other realm: %q", got)
	}
	agent := store.Client{Realm: "/other", Settings: store.Settings{Scope: "asked"}}
	if v.Offer(&agent); agent.Scope != "asked" {
		t.Errorf("a client that registered itself in the other realm may have %q", agent.Scope)
	}
}

func TestRealmsHaveClientsAndScopesOfTheirOwn(t *testing.T) {
	s := newService(t)
	own := s.Client(clientID)
	other := own.Clone()
	other.Realm, other.Name, other.Scope, other.Version = "/other", "Other", "elsewhere", 1
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{other.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	for _, want := range []store.Client{own, other} {
		if c, ok := s.View().Client(want.Realm, clientID); !ok || c.Name != want.Name {
			t.Errorf("client of %s: %+v", want.Realm, c)
		}
		for c := range s.View().Clients(want.Realm) {
			if c.Name != want.Name {
				t.Errorf("%s lists %q", want.Realm, c.Name)
			}
		}
	}
	if got := s.Directory.Scopes("/other"); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("scopes of the other realm: %q", got)
	}
	if slices.Contains(s.Directory.Scopes(realm), "elsewhere") || s.View().KnowsScope(realm, "elsewhere") || !s.View().KnowsScope("/other", "elsewhere") {
		t.Error("a realm has the scope of another")
	}
	gone := other.Clone()
	gone.State, gone.Version = store.ClientDisabled, 2
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{gone.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	s.proven(clientID, s.Secret, true)
}

func TestAViewDoesNotChange(t *testing.T) {
	s := newService(t)
	view := s.View()
	before, _ := view.Client(realm, clientID)
	s.Administer(clientID, func(c *store.Client) { c.State, c.Name = store.ClientDisabled, "Changed" }, store.Cutoff{Realm: realm, ClientID: clientID, At: 1})
	if c, ok := view.Client(realm, clientID); !ok || c != before || c.Name != "Billing" || view.Cutoff(realm, subject, clientID) != 0 {
		t.Error("a view changed under its reader")
	}
}

func TestACodeForAClientMadeThisMomentNeedsNoWait(t *testing.T) {
	s := newService(t)
	c := s.Client(clientID).Clone()
	c.ID, c.Version = "fresh", 1
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		t.Fatal(err)
	}
	a := testkit.Authorization()
	a.ClientID = "fresh"
	if _, err := s.Codes().Issue(t.Context(), a); err != nil {
		t.Errorf("Issue: %v", err)
	}
	a.ClientID = "absent"
	s.Faulty.Inject(storetest.Changes, 1, storetest.Lost)
	if _, err := s.Codes().Issue(t.Context(), a); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Issue without a store: %v, want ErrUnavailable", err)
	}
	var invalid *oauth.Invalid
	if _, err := s.Codes().Issue(t.Context(), a); !errors.As(err, &invalid) || invalid.Field != "client_id" {
		t.Errorf("Issue for nobody: %v", err)
	}
}

func TestProcessesThatStartAtOnceShareTheFirstKeys(t *testing.T) {
	engine, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	directories, errs := make([]*directory.Directory, 8), make([]error, 8)
	var done sync.WaitGroup
	for i := range directories {
		done.Go(func() {
			directories[i], errs[i] = directory.Open(t.Context(), engine, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var current grant.KeyID
	for _, d := range directories {
		view, err := d.View()
		if err != nil {
			t.Fatal(err)
		}
		id := view.Ring.Current(keys.MAC, grant.At(time.Now()))
		if current != 0 && id != current {
			t.Errorf("two nodes use the keys %s and %s", current, id)
		}
		current = id
	}
	if ch, err := engine.Changes(t.Context(), 0); err != nil || len(ch.Keys) != len(keys.Purposes)+1 {
		t.Errorf("%d keys, %v; want one for each purpose", len(ch.Keys), err)
	}

	// Another key-encryption key does not open the store.
	stranger, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := directory.Open(t.Context(), engine, stranger, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.Contains(err.Error(), "wrong key-encryption key") {
		t.Errorf("Open with another key: %v", err)
	}
}

func TestAKeyThatDoesNotUnwrapIsNeverLeftOut(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	stranger, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	key, err := keys.New(stranger, keys.MAC, s.At(), s.At())
	if err != nil {
		t.Fatal(err)
	}
	s.AddKey(key)
	// A ring without this key would reject valid tokens. The last complete view is used
	// until it is too old.
	before := len(s.Directory.Latest().Ring.Records())
	for range 5 {
		if err := s.Directory.Poll(t.Context()); err == nil {
			t.Fatal("the poll says nothing")
		}
	}
	if n := len(s.Directory.Latest().Ring.Records()); n != before {
		t.Errorf("%d records are held after polls that failed, %d before", n, before)
	}
	s.Must(s.Renew(tokens.RefreshToken))
	s.Uptime.Advance(5*time.Second + time.Millisecond)
	if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
		t.Errorf("Ready: %v, want ErrStale", err)
	}
}

// running starts the directory's background work in a synctest bubble, whose clock is
// also the directory's clock.
func running(t *testing.T) (s *service, stop func()) {
	t.Helper()
	s = newService(t)
	directory, err := directory.Open(t.Context(), s.Faulty, s.KEK, s.Directory.Schedule, s.Log, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.Use(directory)
	if err := directory.Join(t.Context(), "this"); err != nil {
		t.Fatal(err)
	}
	s.Faulty.Calls()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		directory.Run(ctx)
		close(ended)
	}()
	return s, sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

func TestRunPollsEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := s.Faulty.Calls()[storetest.Changes]; n != 10 {
			t.Errorf("%d polls in ten seconds", n)
		}
		// Another process's change is in force within two seconds.
		if err := s.Engine.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: realm, Subject: subject, At: 5}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * directory.PollInterval)
		if at := s.View().Cutoff(realm, subject, clientID); at != 5 {
			t.Errorf("the cutoff is %d after two seconds", at)
		}
	})
}

func TestRunSaysOnceThatTheStoreIsAwayAndOnceThatItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		time.Sleep(1500 * time.Millisecond) // the last successful poll is half a second old
		s.Faulty.Inject(storetest.Changes, 8, storetest.Lost)
		time.Sleep(4 * time.Second)
		if err := s.Directory.Ready(); err != nil {
			t.Errorf("within five seconds of the last good poll: %v", err)
		}
		time.Sleep(time.Second)
		if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
			t.Errorf("Ready: %v, want ErrStale", err)
		}
		time.Sleep(4 * time.Second)
		if err := s.Directory.Ready(); err != nil {
			t.Errorf("after the store came back: %v", err)
		}
		if away, back := s.Logged.Count("requests are answered 503"), s.Logged.Count("are current again"); away != 1 || back != 1 {
			t.Errorf("logged %d and %d times", away, back)
		}
	})
}

func TestAStoreThatHangsDoesNotHoldUpThePollsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		time.Sleep(500 * time.Millisecond)
		s.Faulty.Inject(storetest.Changes, 1, storetest.Hangs)
		time.Sleep(8 * time.Second)
		if err := s.Directory.Ready(); err != nil {
			t.Errorf("Ready: %v", err)
		}
	})
}

func TestLastUsesOfSecretsAreWrittenAtOnceThenOnceAMinuteAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		written := func(want int) {
			t.Helper()
			if n := s.Faulty.Calls()[storetest.NoteSecretUses]; n != want {
				t.Errorf("%d writes, want %d", n, want)
			}
		}
		lastUse := func(want grant.Instant) {
			t.Helper()
			if at := s.Client(clientID).Secrets[0].LastUsedAt; at != want {
				t.Errorf("last use %d, want %d", at, want)
			}
		}
		time.Sleep(500 * time.Millisecond)
		// The first use is written at once, so that the secret does not seem unused.
		s.Clock.Advance(time.Second)
		s.proven(clientID, s.Secret, true)
		time.Sleep(time.Second)
		written(1)
		lastUse(s.At())
		for range 58 {
			s.Clock.Advance(time.Second)
			s.proven(clientID, s.Secret, true)
			s.proven(clientID, "wrong", false)
			time.Sleep(time.Second)
		}
		written(0)
		used := s.At()
		time.Sleep(time.Second)
		written(1)
		lastUse(used)

		// Without a use, nothing is written.
		s.Clock.Advance(time.Hour)
		time.Sleep(3 * time.Minute)
		written(0)

		// A failed write is retried a minute later.
		s.proven(clientID, s.Secret, true)
		s.Faulty.Inject(storetest.NoteSecretUses, 1, storetest.Lost)
		time.Sleep(time.Minute)
		written(1)
		lastUse(used)
		used = s.At()
		time.Sleep(time.Minute)
		written(1)
		lastUse(used)

		// A use after a day is written at once, whatever was written before.
		s.Clock.Advance(24 * time.Hour)
		s.proven(clientID, s.Secret, true)
		time.Sleep(time.Second)
		written(1)
		lastUse(s.At())

		// At the end, pending uses are written, although the context has ended.
		s.Clock.Advance(time.Minute)
		s.proven(clientID, s.Secret, true)
		stop()
		written(1)
		lastUse(s.At())
	})
}

func TestAWriteOfLastUsesThatHangsDoesNotStopThePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		s.proven(clientID, s.Secret, true)
		s.Faulty.Inject(storetest.NoteSecretUses, 1, storetest.Hangs)
		for range 70 {
			time.Sleep(time.Second)
			if err := s.Directory.Ready(); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Logged.Count("cannot note the last use of secrets"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		time.Sleep(time.Minute)
		if at := s.Client(clientID).Secrets[0].LastUsedAt; at != s.At() {
			t.Errorf("last use %d, want %d: a minute later it is written", at, s.At())
		}
	})
}

func TestAPollWaitsForAnotherNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		release := make(chan struct{})
		s.Faulty.Inject(storetest.Changes, 1, storetest.Blocks(release))
		var first sync.WaitGroup
		first.Go(func() { s.Poll() })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Directory.Poll(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(release)
		first.Wait()
		s.Poll()
	})
}
