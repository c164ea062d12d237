package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit/plaintest"
)

func TestWhatANewUserMayBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		about string
		r     Registration
		field string // the invalid field, or ""
	}{
		{"all characters of a username", Registration{Username: "Alice.B_c-d+9@example.com", Password: right}, ""},
		{"the longest of all", Registration{Username: strings.Repeat("x", 64), Name: strings.Repeat("x", 100), Subject: strings.Repeat("x", 255), Password: strings.Repeat("xy", 128)}, ""},
		{"text of any script", Registration{Username: "taro", Name: "山田 太郎", Subject: "u 1 ~", Password: "ひらがなだけの語"}, ""},
		{"no username", Registration{Password: right}, "username"},
		{"a username that is too long", Registration{Username: strings.Repeat("x", 65), Password: right}, "username"},
		{"a username that is no path of a URL", Registration{Username: "..", Password: right}, "username"},
		{"a username that is no path of a URL either", Registration{Username: ".", Password: right}, "username"},
		{"a username of three dots", Registration{Username: "...", Password: right}, ""},
		{"a username with a space", Registration{Username: "alice b", Password: right}, "username"},
		{"a username with a letter that is not ASCII", Registration{Username: "zoë", Password: right}, "username"},
		{"a username with another sign", Registration{Username: "alice/b", Password: right}, "username"},
		{"a name that is too long", Registration{Username: "alice", Name: strings.Repeat("x", 101), Password: right}, "name"},
		{"a name with a control character", Registration{Username: "alice", Name: "a\nb", Password: right}, "name"},
		{"a subject that is too long", Registration{Username: "alice", Subject: strings.Repeat("x", 256), Password: right}, "subject"},
		{"a subject that is not ASCII", Registration{Username: "taro", Subject: "ユーザー1", Password: right}, "subject"},
		{"a subject with a control character", Registration{Username: "taro", Subject: "u\x7f", Password: right}, "subject"},
		{"a subject that is not UTF-8", Registration{Username: "alice", Subject: "a\xff", Password: right}, "subject"},
		{"no password", Registration{Username: "alice"}, "password"},
		{"a password that is too short", Registration{Username: "alice", Password: "7 chars"}, "password"},
		{"a password of seven characters, which are more bytes", Registration{Username: "alice", Password: "ひらがなだけ語"}, "password"},
		{"a password that is too long", Registration{Username: "alice", Password: strings.Repeat("x", 257)}, "password"},
		{"a password with a control character", Registration{Username: "alice", Password: "correct\thorse"}, "password"},
		{"a password that is not UTF-8", Registration{Username: "alice", Password: "correct horse\xff"}, "password"},
		{"the username as the password", Registration{Username: "alicecooper", Password: "AliceCooper"}, "password"},
		{"a password that everybody has", Registration{Username: "alice", Password: "Password123"}, "password"},
		{"the same with spaces", Registration{Username: "alice", Password: "pass word 123"}, "password"},
		{"one character all the time", Registration{Username: "alice", Password: "zzzzzzzzzzzz"}, "password"},
	} {
		u, err := NewUser(c.r, started)
		var invalid *oauth.Invalid
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.about, err)
		case c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field || invalid.Message == ""):
			t.Errorf("%s: %v, want %s", c.about, err, c.field)
		case c.field != "" && c.r.Password != "" && strings.Contains(err.Error(), c.r.Password):
			t.Errorf("%s: the message repeats the password", c.about)
		case c.field == "" && (u.Username != strings.ToLower(c.r.Username) || u.State != Enabled || u.Version != 1 || u.CreatedAt != started || u.UpdatedAt != started || u.SessionsEnd != 0):
			t.Errorf("%s: %+v", c.about, u)
		case c.field == "" && c.r.Subject == "" && u.Subject != u.Username:
			t.Errorf("%s: the subject is %q", c.about, u.Subject)
		}
	}
}

func TestTheListOfCommonPasswordsHoldsWhatItIsFor(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range commonPasswords {
		if p != strings.ToLower(p) || len([]rune(p)) < minPassword || seen[p] {
			t.Errorf("%q is never compared: it is too short, not in lower case, or there twice", p)
		}
		seen[p] = true
	}
	if len(seen) < 100 {
		t.Errorf("only %d", len(seen))
	}
}

func TestAGeneratedPasswordIsGoodAndNeverTheSame(t *testing.T) {
	t.Parallel()
	a, b := GeneratePassword(), GeneratePassword()
	if a == b || len(a) != 16 || checkPassword(a, "alice") != nil {
		t.Errorf("%d characters", len(a))
	}
}

// Each change stores the intended record, with the next version, and differs from every
// other write.
func TestChangesOfAUser(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	ring, err := h.Ring()
	if err != nil {
		t.Fatal(err)
	}
	const now = started + 1000
	passed, err := u.SetPassword("battery staple", now)
	if err != nil {
		t.Fatal(err)
	}
	factored, _ := u.SetTOTP(ring, now)
	described, err := u.SetProfile(new(string), claims.Claims{"email": json.RawMessage(`"a@example.com"`)}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]User{
		"SetPassword": passed, "Disable": u.Disable(now), "Enable": u.Enable(now), "SetTOTP": factored, "RemoveTOTP": u.RemoveTOTP(now), "SetProfile": described,
	} {
		if next.Version != u.Version+1 || next.UpdatedAt != now || next.Attempt == u.Attempt || next.CreatedAt != u.CreatedAt {
			t.Errorf("%s: version %d, updated %d, the same write %t", name, next.Version, next.UpdatedAt, next.Attempt == u.Attempt)
		}
		back, err := read(document(t, next))
		if err != nil || !reflect.DeepEqual(back, next) {
			t.Errorf("%s: %+v is read back as %+v, %v", name, next, back, err)
		}
	}
	if passed.Epoch != u.Epoch+1 || u.Disable(now).Epoch != u.Epoch+1 || factored.Epoch != u.Epoch+1 ||
		u.Enable(now).Epoch != u.Epoch || u.RemoveTOTP(now).Epoch != u.Epoch {
		t.Error("an epoch ends with the password, a new second factor and the user's end, and with nothing else")
	}
	if passed.SessionsEnd != now || passed.Password == u.Password || u.Disable(now).SessionsEnd != now || factored.SessionsEnd != now || u.RemoveTOTP(now).SessionsEnd != 0 {
		t.Error("sessions end with the password, a new second factor and the user's end, and with nothing else")
	}
	if c := u.Cutoff(now); c != (store.Cutoff{Realm: realm, Subject: "s-alice", At: now}) {
		t.Errorf("%+v", c)
	}
	if _, err := u.SetPassword("short", now); err == nil {
		t.Error("a new password is accepted against the rules")
	}
}

func TestTheRecordHoldsWhatItsMembersSay(t *testing.T) {
	t.Parallel()
	u := User{Realm: realm, Username: "alice", Subject: "u-1", State: Enabled, Password: "$argon2id$...", CreatedAt: 1, UpdatedAt: 2, Attempt: 3, Version: 4}
	d := document(t, u)
	if d.Kind != store.DocumentUser || d.Key != store.KeyOf(store.DocumentUser, realm, "alice") || d.Version != 4 || d.ExpiresAt != 0 {
		t.Errorf("%+v", d)
	}
	var members map[string]any
	if err := json.Unmarshal(d.Body, &members); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"realm": realm, "username": "alice", "subject": "u-1", "state": "enabled", "password": "$argon2id$...", "created_at": 1.0, "updated_at": 2.0, "attempt": 3.0}
	if !reflect.DeepEqual(members, want) {
		t.Errorf("%v, want %v", members, want)
	}
}

func TestTwoUsersHaveNeitherANameNorASubjectInCommon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	create := func(username, subject string) error {
		u := User{Realm: realm, Username: username, Subject: subject, State: Enabled}.changed(started)
		return Create(t.Context(), h.faulty, u, store.Event{At: started, Name: store.EventUserCreated, About: "subject:" + subject, Actor: "test"})
	}
	if err := create("alice", "u-1"); err != nil {
		t.Fatal(err)
	}
	if err := create("alice", "u-2"); !errors.Is(err, ErrTaken) {
		t.Errorf("the same name: %v", err)
	}
	var invalid *oauth.Invalid
	if err := create("bob", "u-1"); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("the same subject: %v", err)
	}
	// Another process creates the user between the check and the write.
	h.faulty.Inject(storetest.CommitDocument, 1, storetest.Conflicts)
	if err := create("carol", "u-3"); !errors.Is(err, ErrTaken) {
		t.Errorf("at the same moment: %v", err)
	}
	meanwhile := func(username, subject string) {
		h.faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
			if err := create(username, subject); err != nil {
				t.Error(err)
			}
		}))
	}
	meanwhile("dora", "u-4")
	if err := create("emil", "u-4"); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("the same subject at the same moment: %v", err)
	}
	meanwhile("emil", "u-5")
	list := []User{User{Realm: realm, Username: "fred", Subject: "u-5"}.changed(started)}
	if _, err := CreateAll(t.Context(), h.faulty, realm, list, false, func(User) (store.Event, error) { return store.Event{}, nil }); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("the same subject in an import at the same moment: %v", err)
	}
	h.faulty.Inject(storetest.Documents, 1, storetest.Lost)
	if err := create("carol", "u-3"); err == nil {
		t.Error("created without a look at the others")
	}
	if err := create("carol", "u-3"); err != nil {
		t.Errorf("in the end: %v", err)
	}
	for about, want := range map[string]int{"subject:u-1": 1, "subject:u-2": 0, "subject:u-3": 1} {
		if events, err := h.faulty.Events(t.Context(), about, 10); len(events) != want || err != nil {
			t.Errorf("%d events about %s, %v, want %d", len(events), about, err, want)
		}
	}
	// In another realm, the names are free.
	u := User{Realm: "/other", Username: "alice", Subject: "u-1", State: Enabled}.changed(started)
	if err := Create(t.Context(), h.faulty, u); err != nil {
		t.Errorf("in another realm: %v", err)
	}
	list, err := List(t.Context(), h.faulty, realm)
	if err != nil || len(list) != 4 || list[0].Username != "alice" || list[1].Username != "carol" {
		t.Errorf("%d users, %v", len(list), err)
	}
}

func TestAllUsersAreListedByName(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	var all sync.WaitGroup
	const many = 1001 // two full pages and one user
	for n := range many {
		all.Go(func() {
			u := User{Realm: realm, Username: fmt.Sprintf("user%04d", n), State: Enabled}.changed(started)
			if err := Put(context.WithoutCancel(t.Context()), h.faulty, u, store.Change{}); err != nil {
				t.Error(err)
			}
		})
		if n%100 == 0 {
			all.Wait()
		}
	}
	all.Wait()
	list, err := List(t.Context(), h.faulty, realm)
	if err != nil || len(list) != many || !slices.IsSortedFunc(list, func(a, b User) int { return strings.Compare(a.Username, b.Username) }) {
		t.Errorf("%d users, %v", len(list), err)
	}
	h.faulty.Inject(storetest.Documents, 1, storetest.Meanwhile(func() {}))
	h.faulty.Inject(storetest.Documents, 1, storetest.Lost)
	if _, err := List(t.Context(), h.faulty, realm); err == nil {
		t.Error("a page that is missing is not noticed")
	}
}

// A fullStore is a store with the maximal number of users.
type fullStore struct {
	store.Store
	docs []store.Document
}

func (c fullStore) CountDocuments(context.Context, store.DocumentKind) (int, error) {
	return len(c.docs), nil
}

func (c fullStore) Documents(_ context.Context, f store.DocumentFilter) ([]store.Document, error) {
	if f.Owner != (store.Owner{}) {
		return slices.DeleteFunc(slices.Clone(c.docs), func(d store.Document) bool { return d.Owner != f.Owner }), nil
	}
	at := slices.IndexFunc(c.docs, func(d store.Document) bool { return d.Key == f.After }) + 1
	return c.docs[at:min(at+f.Limit, len(c.docs))], nil
}

func TestThereIsALimitOfUsers(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := fullStore{Store: h.faulty}
	for n := range MaxUsers {
		c.docs = append(c.docs, document(t, User{Realm: realm, Username: fmt.Sprint("u", n), Subject: fmt.Sprint("s", n), Version: 1}))
	}
	u := User{Realm: realm, Username: "alice", Subject: "alice"}.changed(started)
	if err := Create(t.Context(), c, u); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("one more: %v", err)
	}
	c.docs = c.docs[1:]
	if err := Create(t.Context(), c, u); err != nil {
		t.Errorf("the last one: %v", err)
	}
	u = User{Realm: "/other", Username: "bob", Subject: "bob"}.changed(started)
	if err := Create(t.Context(), fullStore{h.faulty, append(c.docs, c.docs[0])}, u); err != nil {
		t.Errorf("the first one of another realm: %v", err)
	}
}

// A list with a repeated username creates one user, the first. Two users of one subject
// are an error.
func TestAListOfUsersIsNoMoreThanOneOfEachName(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	of := func(username, subject string) User {
		return User{Realm: realm, Username: username, Subject: subject}.changed(started)
	}
	create := func(dry bool, list ...User) ([]User, error) {
		return CreateAll(t.Context(), h.faulty, realm, list, dry, func(User) (store.Event, error) { return store.Event{}, nil })
	}
	if list, err := create(true, of("alice", "s-1"), of("alice", "s-2")); err != nil || len(list) != 1 {
		t.Errorf("a dry run: %d users, %v", len(list), err)
	}
	if list, err := List(t.Context(), h.faulty, realm); err != nil || len(list) != 0 {
		t.Errorf("a dry run has stored %d users, %v", len(list), err)
	}
	var invalid *oauth.Invalid
	if _, err := create(false, of("alice", "s-1"), of("bob", "s-1")); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("two users of one subject: %v", err)
	}
	if list, err := create(false, of("alice", "s-1"), of("alice", "s-2")); err != nil || len(list) != 1 || h.stored("alice").Subject != "s-1" {
		t.Errorf("one name twice: %d users, %v", len(list), err)
	}
	if list, err := create(false, of("alice", "s-1")); err != nil || len(list) != 0 {
		t.Errorf("the same list again: %d users, %v", len(list), err)
	}
}

// unlisted is a store that cannot list users.
type unlisted struct{ store.Store }

func (u unlisted) Documents(ctx context.Context, f store.DocumentFilter) ([]store.Document, error) {
	if f.Owner == (store.Owner{}) {
		return nil, errors.New("all users are read")
	}
	return u.Store.Documents(ctx, f)
}

// The cost of creating a user does not grow with the number of users.
func TestANewUserReadsNoOther(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	st := unlisted{h.faulty}
	if err := Create(t.Context(), st, User{Realm: realm, Username: "bob", Subject: "s-bob"}.changed(started)); err != nil {
		t.Error(err)
	}
	if err := Create(t.Context(), st, User{Realm: realm, Username: "alice", Subject: "other"}.changed(started)); !errors.Is(err, ErrTaken) {
		t.Errorf("a taken name: %v", err)
	}
	var invalid *oauth.Invalid
	if err := Create(t.Context(), st, User{Realm: realm, Username: "carol", Subject: "s-alice"}.changed(started)); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("a taken subject: %v", err)
	}
	list := []User{
		User{Realm: realm, Username: "alice", Subject: "s-alice"}.changed(started), User{Realm: realm, Username: "dave", Subject: "s-dave"}.changed(started),
	}
	created, err := CreateAll(t.Context(), st, realm, list, false, func(User) (store.Event, error) { return store.Event{}, nil })
	if err != nil || len(created) != 1 || created[0].Username != "dave" {
		t.Errorf("of a list: %v, %v", created, err)
	}
}

func TestTwoAdministratorsDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	h.put(u.Disable(started))
	err := Put(t.Context(), h.faulty, u.Enable(started), store.Change{
		Cutoffs: []store.Cutoff{u.Cutoff(started)},
		Events:  []store.Event{{At: started, Name: store.EventUserEnabled, About: "subject:s-alice", Actor: "test"}},
	})
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("%v, want ErrConflict", err)
	}
	// Two identical changes do not overwrite each other either.
	u = h.stored("alice")
	first, second := u.Enable(started), u.Enable(started)
	h.put(first)
	if err := Put(t.Context(), h.faulty, second, store.Change{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same again: %v, want ErrConflict", err)
	}
	if events, err := h.faulty.Events(t.Context(), "subject:s-alice", 10); len(events) != 0 || err != nil {
		t.Errorf("%d events of a change that did not happen, %v", len(events), err)
	}
	if ch, err := h.faulty.Changes(t.Context(), 0); len(ch.Cutoffs) != 0 || err != nil {
		t.Errorf("%d cutoffs of a change that did not happen, %v", len(ch.Cutoffs), err)
	}
	if _, err := Find(t.Context(), h.faulty, realm, "bob"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v, want ErrNotFound", err)
	}
}

// Users without claims are decoded as encoding/json would decode them.
func TestUsersAreReadPlain(t *testing.T) {
	plaintest.Members(t, userMembers, "claims")
}
