package conformance_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store/storetest"
)

// The page, its status and the reads of the store do not depend on whether the user
// exists. The tests of internal/account count the hashes.
func TestUI15_AWrongPasswordAndAnUnknownUserLookAlike(t *testing.T) {
	d := start(t, withFront)
	d.user(username)
	d.user("disabled", func(u *account.User) { u.State = account.Disabled })
	b := d.browser()
	page := b.open(asking(d.a)).at(t, "login")
	var bodies []string
	var reads []int
	for _, name := range []string{username, "nobody", "disabled"} {
		d.faulty.Calls()
		s := b.post(interactionURL, "id="+page.field("id"), "step=login", "username="+name, "password=wrong "+password)
		if s.StatusCode != http.StatusUnprocessableEntity || s.set(sessionName) != nil || s.set(knownName) != nil {
			t.Errorf("%s: status %d", name, s.StatusCode)
		}
		if !strings.Contains(s.body, "The username or the password is not correct.") {
			t.Errorf("%s: %q", name, s.title())
		}
		bodies = append(bodies, strings.ReplaceAll(s.body, `value="`+name+`"`, `value=""`))
		reads = append(reads, d.faulty.Calls()[storetest.Document])
	}
	if reads[0] != reads[1] || reads[0] != reads[2] {
		t.Errorf("documents read: %d", reads)
	}
	if bodies[0] != bodies[1] || bodies[0] != bodies[2] {
		t.Error("the pages differ")
	}
	// A disabled user's right password gets the same response as a wrong one.
	s := b.post(interactionURL, "id="+page.field("id"), "step=login", "username=disabled", "password="+password)
	if body := strings.ReplaceAll(s.body, `value="disabled"`, `value=""`); s.StatusCode != http.StatusUnprocessableEntity || body != bodies[0] {
		t.Errorf("a disabled user with the right password: status %d, %q", s.StatusCode, s.title())
	}
}

func TestUI16_GuessingIsSlowedDownAndLocksNobodyOut(t *testing.T) {
	// The tests' browsers all run on this machine, so a proxy's header gives their
	// addresses.
	d := start(t, withFront, func(o *options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	d.user(username, cheaply)
	from := func(address string) *browser {
		b := d.browser()
		b.header["X-Forwarded-For"] = address
		b.header["X-Forwarded-Proto"] = "https"
		return b
	}
	owner, b := from("192.0.2.1"), from("192.0.2.1")
	login := owner.open(asking(d.a)).at(t, "login")
	owner.logIn(login, username, password).at(t, "consent") // the browser is now known

	thief := from("198.51.100.7")
	page := thief.open(asking(d.a)).at(t, "login")
	for range 5 {
		if s := thief.logIn(page, username, "wrong"); s.StatusCode != http.StatusUnprocessableEntity {
			t.Fatalf("status %d", s.StatusCode)
		}
	}
	s := thief.logIn(page, username, password) // the right password, which is no longer checked
	seconds, err := strconv.Atoi(s.Header.Get("Retry-After"))
	if s.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 3600 || thief.cookie(sessionName) != "" {
		t.Fatalf("status %d, Retry-After %q", s.StatusCode, s.Header.Get("Retry-After"))
	}
	if !strings.Contains(s.body, "Too many attempts have failed. Please wait one minute") || s.field("step") != "login" {
		t.Errorf("the page is %q", s.title())
	}
	// Attackers have used up the account's limit, but the user can still sign in: in the
	// known browser, and in another one of the same network.
	b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "consent")
	for i := range 60 {
		thief.header["X-Forwarded-For"] = "203.0.113." + strconv.Itoa(i)
		thief.logIn(page, username, "wrong")
	}
	if s := thief.logIn(page, username, "wrong"); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after 65 failures from everywhere: status %d", s.StatusCode)
	}
	owner.logIn(owner.open(asking(d.a, "prompt=login")).at(t, "login"), username, password).at(t, "consent")
	// After the time that the page names, everybody may try again.
	d.step(time.Duration(seconds) * time.Second)
	thief.header["X-Forwarded-For"] = "198.51.100.7"
	thief.logIn(page, username, password).at(t, "consent")
}

func TestUI16_CodesAreNotGuessed(t *testing.T) {
	d := start(t, withFront)
	secret := d.userWithCode("carol")
	b := d.browser()
	page := b.logIn(b.open(asking(d.a)).at(t, "login"), "carol", password).at(t, "second_factor")
	send := func(code string) shownPage {
		return b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+code))
	}
	for range 5 {
		if s := send("000000"); s.StatusCode != http.StatusUnprocessableEntity || s.field("step") != "second_factor" {
			t.Fatalf("status %d, %q", s.StatusCode, s.title())
		}
	}
	s := send(d.oneTimeCode(secret))
	if s.StatusCode != http.StatusTooManyRequests || s.Header.Get("Retry-After") == "" || b.cookie(sessionName) != "" {
		t.Errorf("the sixth: status %d, Retry-After %q", s.StatusCode, s.Header.Get("Retry-After"))
	}
	// Entering the password again does not help.
	b.logIn(b.open(asking(d.a)).at(t, "login"), "carol", password)
	if s := send(d.oneTimeCode(secret)); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after the password once more: status %d", s.StatusCode)
	}
}

// A code can be used only once, even if somebody else has seen it typed.
func TestSecondFactorCodeIsGoodOnce(t *testing.T) {
	d := start(t, withFront)
	secret := d.userWithCode("carol")
	code := d.oneTimeCode(secret)
	b, thief := d.browser(), d.browser()
	page := b.logIn(b.open(asking(d.a)).at(t, "login"), "carol", password).at(t, "second_factor")
	theirs := thief.logIn(thief.open(asking(d.a)).at(t, "login"), "carol", password).at(t, "second_factor")
	if b.cookie(sessionName) != "" {
		t.Fatal("signed in without the second factor")
	}
	send := func(b *browser, page shownPage, code string) shownPage {
		return b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+code))
	}
	send(b, page, code[:3]+" "+code[3:]).at(t, "consent") // with a space, as apps show it
	if s := send(thief, theirs, code); s.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(s.body, "it was used before") || thief.cookie(sessionName) != "" {
		t.Errorf("the code again: status %d, %q", s.StatusCode, s.title())
	}
	// The second click on the same form leads to the next page.
	send(b, page, code).at(t, "consent")
	d.step(30 * time.Second)
	send(thief, theirs, d.oneTimeCode(secret)).at(t, "consent")
	// The password alone leads nowhere.
	fresh := d.browser()
	page = fresh.logIn(fresh.open(asking(d.a)).at(t, "login"), "carol", password).at(t, "second_factor")
	fresh.follow(fresh.decide(page, "allow")).at(t, "second_factor")
}

// The server hashes a few passwords at a time. A flood of logins gets a page that says to
// try again, and costs neither memory nor all processors.
func TestUI17_PasswordsAreHashedSlowlyAndAFewAtATime(t *testing.T) {
	d, b := visitor(t)
	u := d.user("dora")
	if !strings.HasPrefix(u.Password, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hashed as %.30s", u.Password)
	}
	page := b.open(asking(d.a)).at(t, "login")
	b.logIn(page, "dora", password+strings.Repeat("x", 300)) // too long for a password: costs no hash
	var mu sync.Mutex
	var answers []shownPage
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			s := b.post(interactionURL, "id="+page.field("id"), "step=login", "username=dora", "password=wrong")
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, s)
		})
	}
	group.Wait()
	var statuses []int
	for _, s := range answers {
		statuses = append(statuses, s.StatusCode)
		if s.StatusCode == http.StatusServiceUnavailable {
			s.says(t, http.StatusServiceUnavailable, pages.Unavailable)
		}
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		// One network has limits of queued logins and of failures.
		if !slices.Contains([]int{http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable}, status) {
			t.Errorf("statuses %v", statuses)
		}
	}
	if n := len(slices.DeleteFunc(statuses, func(s int) bool { return s != http.StatusUnprocessableEntity })); n > 5 {
		t.Errorf("%d of 12 guesses were compared at once", n)
	}
	d.step(time.Hour)
	b.logIn(b.open(asking(d.a)).at(t, "login"), "dora", password).at(t, "consent")
}
