package operator_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const began grant.Instant = 1_795_000_000_000

// none is a list of operators of which all can sign in.
func none([]operator.Operator) ([]string, error) { return nil, nil }

func newStore(t *testing.T, operators ...operator.Operator) store.Store {
	t.Helper()
	st := testkit.Create(t, t.TempDir())
	for _, o := range operators {
		if err := operator.Add(t.Context(), st, o); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func TestOperatorsAreAddedOnceAndTheLastAdminStays(t *testing.T) {
	st := newStore(t)
	ctx := t.Context()
	for _, step := range []struct {
		what string
		do   func() error
		want error
	}{
		{"add alice", func() error {
			return operator.Add(ctx, st, operator.Operator{Name: "alice", Role: operator.Admin})
		}, nil},
		{"add alice again", func() error {
			return operator.Add(ctx, st, operator.Operator{Name: "alice", Role: operator.Auditor})
		}, operator.ErrTaken},
		{"add bob", func() error { return operator.Add(ctx, st, operator.Operator{Name: "bob", Role: operator.Auditor}) }, nil},
		{"add dora, an admin of one realm", func() error {
			return operator.Add(ctx, st, operator.Operator{Name: "dora", Role: operator.Admin, Realm: "/staff"})
		}, nil},
		{"remove alice", func() error { return operator.Remove(ctx, st, "alice", "test", began, none) }, operator.ErrLastAdmin},
		{"remove dora", func() error { return operator.Remove(ctx, st, "dora", "test", began, none) }, nil},
		{"remove carol", func() error { return operator.Remove(ctx, st, "carol", "test", began, none) }, operator.ErrUnknown},
		{"remove bob", func() error { return operator.Remove(ctx, st, "bob", "test", began, none) }, nil},
		{"add carol", func() error { return operator.Add(ctx, st, operator.Operator{Name: "carol", Role: operator.Admin}) }, nil},
		{"remove carol, while alice cannot sign in", func() error {
			return operator.Remove(ctx, st, "carol", "test", began, func([]operator.Operator) ([]string, error) { return []string{"alice"}, nil })
		}, operator.ErrLastAdmin},
		{"remove alice, who is not the last", func() error { return operator.Remove(ctx, st, "alice", "test", began, none) }, nil},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.what, err, step.want)
		}
	}
	list, err := operator.List(ctx, st)
	if err != nil || len(list) != 1 || list[0].Name != "carol" {
		t.Errorf("%v, %v", list, err)
	}
}

// Of two simultaneous removals, one removes the operator and is recorded.
func TestAnOperatorIsRemovedOnce(t *testing.T) {
	st := storetest.NewFaulty(newStore(t, operator.Operator{Name: "alice", Role: operator.Admin}, operator.Operator{Name: "bob", Role: operator.Admin}))
	remove := func() error { return operator.Remove(t.Context(), st, "bob", "test", began, none) }
	st.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}))
	if err := remove(); !errors.Is(err, operator.ErrUnknown) {
		t.Errorf("the second: %v", err)
	}
}

// Of many requests with one invitation, one succeeds.
func TestAnInvitationIsSpentOnce(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	text, expires, err := operator.Invite(ctx, st, "alice", "test", began)
	if err != nil || expires != began.Add(10*time.Minute) {
		t.Fatalf("expires %d, %v", expires, err)
	}
	for range 3 { // showing it does not spend it
		if name, err := operator.Invited(ctx, st, text, began); name != "alice" || err != nil {
			t.Fatalf("for %q, %v", name, err)
		}
	}
	other, _, err := operator.Invite(ctx, st, "alice", "test", began)
	if err != nil || len(text) < 22 || other == text {
		t.Fatalf("%q and %q, %v", text, other, err)
	}
	spentOnce(t, operator.ErrSpent, func() error { _, err := operator.Spend(ctx, st, text, "192.0.2.1", began); return err })
	for _, at := range []grant.Instant{began + 1, expires + 1} {
		if _, err := operator.Invited(ctx, st, text, at); !errors.Is(err, operator.ErrSpent) {
			t.Errorf("shown again: %v", err)
		}
		if _, err := operator.Spend(ctx, st, text, "192.0.2.1", at); !errors.Is(err, operator.ErrSpent) {
			t.Errorf("spent again: %v", err)
		}
	}
	if list := recorded(t, st, store.EventConsoleInvitationUsed); !slices.Equal(list, []string{"console:alice from 192.0.2.1, made by test"}) {
		t.Errorf("%q", list)
	}
}

func TestInvitationsThatDoNotWork(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin}, operator.Operator{Name: "bob", Role: operator.Admin})
	ctx := t.Context()
	if _, _, err := operator.Invite(ctx, st, "carol", "test", began); !errors.Is(err, operator.ErrUnknown) {
		t.Errorf("for nobody: %v", err)
	}
	if _, err := operator.Spend(ctx, st, "guessed", "", began); !errors.Is(err, operator.ErrNoInvitation) {
		t.Errorf("a guess: %v", err)
	}
	text, expires, err := operator.Invite(ctx, st, "bob", "test", began)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Spend(ctx, st, text, "", expires); !errors.Is(err, operator.ErrExpired) {
		t.Errorf("after ten minutes: %v", err)
	}
	if err := operator.Remove(ctx, st, "bob", "test", began, none); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Spend(ctx, st, text, "", began); !errors.Is(err, operator.ErrUnknown) {
		t.Errorf("of an operator who was removed: %v", err)
	}
}

// A session ends after half an hour without use, and in any case after twelve hours.
func TestSessionsEnd(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	begin := func() string {
		t.Helper()
		cookie, err := operator.Begin(ctx, st, operator.Session{Operator: "alice", How: operator.ByPassword, BeganAt: began})
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	idle, used := begin(), begin()
	if _, err := operator.Open(ctx, st, idle, began.Add(operator.Idle)); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("idle for half an hour: %v", err)
	}
	at := began
	for at < began.Add(operator.Lifetime-20*time.Minute) {
		at = at.Add(20 * time.Minute)
		if _, err := operator.Open(ctx, st, used, at); err != nil {
			t.Fatalf("used after %s: %v", at.Since(began), err)
		}
	}
	if _, err := operator.Open(ctx, st, used, began.Add(operator.Lifetime)); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("after twelve hours: %v", err)
	}
	if _, err := operator.Open(ctx, st, "guessed", began); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("a guess: %v", err)
	}
}

// A sign-in is fresh for five minutes, even if the clock was set back since.
func TestASignInIsFreshForFiveMinutes(t *testing.T) {
	s := operator.Session{FreshAt: began}
	for after, want := range map[time.Duration]bool{
		0: true, 5*time.Minute - time.Millisecond: true, 5 * time.Minute: false, -2 * time.Second: true, -time.Hour: false,
	} {
		if s.Fresh(began.Add(after)) != want {
			t.Errorf("fresh %s after the sign-in: %t", after, !want)
		}
	}
}

// An ended session stays ended, even for a browser that uses it.
func TestAnEndedSessionIsNotRevived(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	cookie, err := operator.Begin(ctx, st, operator.Session{Operator: "alice", BeganAt: began})
	if err != nil {
		t.Fatal(err)
	}
	s, err := operator.Open(ctx, st, cookie, began)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := operator.EndByID(ctx, st, "", s.ID(), "test", began); n != 1 || err != nil {
		t.Fatalf("%d ended, %v", n, err)
	}
	if _, err := operator.Open(ctx, st, cookie, began.Add(2*time.Minute)); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := operator.EndByID(ctx, st, "", s.ID(), "test", began); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("ended twice: %v", err)
	}
}

// A form is spent once, also if two nodes receive it simultaneously, or in another session.
func TestAFormIsSpentOnce(t *testing.T) {
	st, form := newStore(t), operator.NewForm()
	errs := make(chan error)
	for range 2 {
		go func() { errs <- operator.SpendForm(t.Context(), st, form, began) }()
	}
	if one, other := <-errs, <-errs; (one == nil) == (other == nil) || !errors.Is(errors.Join(one, other), operator.ErrRepeated) {
		t.Errorf("two at once: %v, %v", one, other)
	}
	if err := operator.SpendForm(t.Context(), st, form, began.Add(operator.Lifetime)); !errors.Is(err, operator.ErrRepeated) {
		t.Errorf("after the session: %v", err)
	}
	if err := operator.SpendForm(t.Context(), st, "a form without an id of its own", began); !errors.Is(err, operator.ErrRepeated) {
		t.Errorf("another id: %v", err)
	}
	if err := operator.SpendForm(t.Context(), st, operator.NewForm(), began); err != nil {
		t.Errorf("another form: %v", err)
	}
}

// After a checked factor, the browser gets a new cookie, and the old one is useless.
func TestConfirmChangesTheCookie(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	before, err := operator.Begin(ctx, st, operator.Session{Operator: "alice", Pending: true, BeganAt: began})
	if err != nil {
		t.Fatal(err)
	}
	s, err := operator.Open(ctx, st, before, began)
	if err != nil || !s.Pending {
		t.Fatalf("pending %t, %v", s.Pending, err)
	}
	if list, err := operator.Sessions(ctx, st, began); len(list) != 0 || err != nil {
		t.Errorf("a session without its factor is listed: %v, %v", list, err)
	}
	after, err := s.Confirm(ctx, st, 3, began)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Open(ctx, st, before, began); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("the cookie of before: %v", err)
	}
	s, err = operator.Open(ctx, st, after, began)
	list, listErr := operator.Sessions(ctx, st, began)
	if err != nil || s.Pending || s.Epoch != 3 || listErr != nil || !slices.ContainsFunc(list, func(o operator.Session) bool { return o.ID() == s.ID() }) {
		t.Errorf("pending %t, epoch %d, listed %d, %v %v", s.Pending, s.Epoch, len(list), err, listErr)
	}
}

// Of many requests with one ticket, one succeeds; a minute later, none does.
func TestATicketIsSpentOnce(t *testing.T) {
	st := newStore(t)
	ctx := t.Context()
	ticket := func() string {
		text, d, err := operator.Ticket{Subject: "bob", Rule: "admin groups=a", AMR: []string{"mfa"}}.Document(began)
		if err == nil {
			err = st.Commit(ctx, store.Change{Documents: []store.Document{d}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := ticket()
	spentOnce(t, operator.ErrNoTicket, func() error { _, err := operator.SpendTicket(ctx, st, text, began); return err })
	for text, at := range map[string]grant.Instant{ticket(): began.Add(time.Minute), "guessed": began, text: began} {
		if _, err := operator.SpendTicket(ctx, st, text, at); !errors.Is(err, operator.ErrNoTicket) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if got, err := operator.SpendTicket(ctx, st, ticket(), began.Add(59*time.Second)); err != nil || got.Subject != "bob" || got.Rule != "admin groups=a" || !slices.Equal(got.AMR, []string{"mfa"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A session of an operator who signed in at a provider is shorter. With a rule, the
// operator need not be added.
func TestASessionFromElsewhere(t *testing.T) {
	st := newStore(t)
	ctx := t.Context()
	cookie, err := operator.Begin(ctx, st, operator.Session{Operator: "bob", How: operator.ByLogin, At: "https://login.example", Rule: "admin groups=a", BeganAt: began})
	if err != nil {
		t.Fatal(err)
	}
	for at := began; at < began.Add(operator.ExternalLifetime); at = at.Add(20 * time.Minute) {
		if _, err := operator.Open(ctx, st, cookie, at); err != nil {
			t.Fatalf("used after %s: %v", at.Since(began), err)
		}
	}
	if _, err := operator.Open(ctx, st, cookie, began.Add(operator.ExternalLifetime)); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("after two hours: %v", err)
	}
	if _, err := operator.Begin(ctx, st, operator.Session{Operator: "eve", How: operator.ByLogin, At: "https://login.example", BeganAt: began}); !errors.Is(err, operator.ErrUnknown) {
		t.Errorf("without a rule: %v", err)
	}
}

// spentOnce requires that one of eight simultaneous requests spends something, and the
// others get the error late.
func spentOnce(t *testing.T, late error, spend func() error) {
	t.Helper()
	const n = 8
	outcomes := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { outcomes[i] = spend() })
	}
	all.Wait()
	won := 0
	for _, err := range outcomes {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, late):
			t.Errorf("a late request: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d requests have spent it", won, n)
	}
}

// A backup contains sessions that have ended since, and used invitations and tickets.
func TestWhatABackupBringsBackEnds(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	begin := func(at grant.Instant) string {
		cookie, err := operator.Begin(ctx, st, operator.Session{Operator: "alice", How: operator.ByPassword, BeganAt: at})
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	before, after := begin(began), begin(began+1)
	invitation, _, err := operator.Invite(ctx, st, "alice", "test", began)
	if err != nil {
		t.Fatal(err)
	}
	ticket, d, err := operator.Ticket{Subject: "alice"}.Document(began)
	if err := errors.Join(err, st.Commit(ctx, store.Change{Documents: []store.Document{d}})); err != nil {
		t.Fatal(err)
	}
	if err := operator.EndRestored(ctx, st, began); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Open(ctx, st, before, began+1); !errors.Is(err, operator.ErrNoSession) {
		t.Errorf("a session of the backup: %v", err)
	}
	if _, err := operator.Open(ctx, st, after, began+1); err != nil {
		t.Errorf("a session since the restore: %v", err)
	}
	if _, err := operator.Invited(ctx, st, invitation, began+1); !errors.Is(err, operator.ErrNoInvitation) {
		t.Errorf("an invitation: %v", err)
	}
	if _, err := operator.SpendTicket(ctx, st, ticket, began+1); !errors.Is(err, operator.ErrNoTicket) {
		t.Errorf("a ticket: %v", err)
	}
}

// recorded returns the details of operators' events with a name, oldest first.
func recorded(t *testing.T, st store.Store, name store.EventName) (list []string) {
	t.Helper()
	events, err := st.Events(t.Context(), operator.About, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Name == name {
			list = append(list, e.Actor+" "+e.Detail)
		}
	}
	slices.Sort(list)
	return list
}

// A sign-in is recorded once, with its method and address, when the last factor was
// checked.
func TestASignInIsRecorded(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	ctx := t.Context()
	cookie, err := operator.Begin(ctx, st, operator.Session{Operator: "alice", How: operator.ByPassword, Address: "192.0.2.1", Pending: true, BeganAt: began})
	if err != nil {
		t.Fatal(err)
	}
	if list := recorded(t, st, store.EventConsoleSignIn); list != nil {
		t.Errorf("before the factor: %q", list)
	}
	s, err := operator.Open(ctx, st, cookie, began)
	if err != nil {
		t.Fatal(err)
	}
	if cookie, err = s.Confirm(ctx, st, 1, began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Begin(ctx, st, operator.Session{Operator: "bob", How: operator.ByLogin, Address: "192.0.2.2", At: "https://login.example", Rule: "admin groups=a", BeganAt: began}); err != nil {
		t.Fatal(err)
	}
	want := []string{"console:alice by password and code, from 192.0.2.1", "console:bob by login, from 192.0.2.2, as admin groups=a"}
	if list := recorded(t, st, store.EventConsoleSignIn); !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if s, err = operator.Open(ctx, st, cookie, began.Add(time.Minute)); err != nil || s.How != operator.ByPassword || s.Address != "192.0.2.1" {
		t.Errorf("the session since: by %q, from %q, %v", s.How, s.Address, err)
	}
	if o, err := operator.Find(ctx, st, "alice"); err != nil || o.SeenAt != began.Add(time.Minute) {
		t.Errorf("the last sign-in was at %d, %v", o.SeenAt, err)
	}
}

// Operators with sessions are listed by their latest sign-in, and all sessions of one can
// be ended.
func TestTheSessionsOfAnOperatorEndTogether(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin}, operator.Operator{Name: "bob", Role: operator.Admin})
	ctx := t.Context()
	for after, name := range map[time.Duration]string{0: "bob", time.Minute: "alice", 2 * time.Minute: "bob", 3 * time.Minute: "alice"} {
		if _, err := operator.Begin(ctx, st, operator.Session{Operator: name, How: operator.ByPassword, Address: "192.0.2.1", BeganAt: began.Add(after)}); err != nil {
			t.Fatal(err)
		}
	}
	names := func(now grant.Instant) (list []string) {
		sessions, err := operator.Sessions(ctx, st, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sessions {
			list = append(list, s.Operator)
		}
		return list
	}
	if got := names(began.Add(operator.Idle)); !slices.Equal(got, []string{"alice", "bob", "alice"}) {
		t.Errorf("%q are listed, without the session that has ended", got)
	}
	if n, err := operator.EndByID(ctx, st, "alice", "", "test", began.Add(4*time.Minute)); n != 2 || err != nil {
		t.Errorf("%d sessions were ended, %v", n, err)
	}
	if got := names(began.Add(4 * time.Minute)); !slices.Equal(got, []string{"bob", "bob"}) {
		t.Errorf("%q are left", got)
	}
	if list := recorded(t, st, store.EventConsoleSessionEnded); !slices.Equal(list, []string{"test of alice, from 192.0.2.1", "test of alice, from 192.0.2.1"}) {
		t.Errorf("%q", list)
	}
	if n, err := operator.EndByID(ctx, st, "alice", "", "test", began.Add(4*time.Minute)); n != 0 || err != nil {
		t.Errorf("of none, %d were ended, %v", n, err)
	}
}

// An open console sends requests constantly: the last use is stored once a minute.
func TestTheUseOfASessionIsWrittenEachMinute(t *testing.T) {
	st := storetest.NewFaulty(newStore(t, operator.Operator{Name: "alice", Role: operator.Admin}))
	cookie, err := operator.Begin(t.Context(), st, operator.Session{Operator: "alice", BeganAt: began})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	st.Inject(storetest.CommitDocument, 10, storetest.Meanwhile(func() { written++ }))
	for n := range 13 {
		if _, err := operator.Open(t.Context(), st, cookie, began.Add(time.Duration(n)*10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if written != 2 {
		t.Errorf("written %d times in two minutes", written)
	}
}

// All operators fit into one document, and an auditor never counts as the last admin.
func TestOperatorsAreNotWithoutLimit(t *testing.T) {
	st := newStore(t, operator.Operator{Name: "alice", Role: operator.Admin})
	for n := range 49 {
		if err := operator.Add(t.Context(), st, operator.Operator{Name: fmt.Sprintf("bob%02d", n), Role: operator.Auditor}); err != nil {
			t.Fatal(err)
		}
	}
	if err := operator.Add(t.Context(), st, operator.Operator{Name: "carol", Role: operator.Admin}); !errors.Is(err, operator.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	away := func([]operator.Operator) ([]string, error) { return []string{"alice"}, nil }
	unread := errors.New("cannot read the users")
	if err := operator.Remove(t.Context(), st, "bob00", "test", began, func([]operator.Operator) ([]string, error) { return nil, unread }); !errors.Is(err, unread) {
		t.Errorf("without a look at the users: %v", err)
	}
	if err := operator.Remove(t.Context(), st, "bob00", "test", began, away); err != nil {
		t.Errorf("an auditor, while no admin can sign in: %v", err)
	}
}
