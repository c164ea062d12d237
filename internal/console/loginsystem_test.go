package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
)

const verifierName = "__Host-mintage_console_login"

// elsewhere configures the fixture so that operators sign in at another system, with roles by
// the rules.
func (r *fixture) elsewhere(rules ...string) {
	r.t.Helper()
	e := &console.LoginSystem{URL: "https://auth.example/account/console", At: "https://login.example", ACR: []string{"gold"}, AMR: []string{"mfa", "hwk"}}
	for _, text := range rules {
		rule, err := config.ParseOperatorRule(text)
		if err != nil {
			r.t.Fatal(err)
		}
		e.Rules = append(e.Rules, rule)
	}
	r.console.LoginSystem = e
}

// A loginThere is what the other system reports about a login.
type loginThere struct {
	subject, acr, amr, claims string
}

// departs begins a sign-in at the other system. It returns the verifier cookie and its
// challenge.
func (b *browser) departs() (verifier *http.Cookie, challenge string) {
	b.t.Helper()
	session := b.cookie
	w := b.get("/sign-in/elsewhere")
	to, err := url.Parse(w.Header().Get("Location"))
	if challenge = to.Query().Get("code_challenge"); err != nil || w.Code != http.StatusSeeOther || to.Host != "auth.example" {
		b.t.Fatalf("to sign in: %d to %q", w.Code, w.Header().Get("Location"))
	}
	verifier, b.cookie = b.cookie, session
	return verifier, challenge
}

// ticket returns the console's path for a finished login, for the browser with the
// challenge.
func (r *fixture) ticket(challenge string, l loginThere) string {
	r.t.Helper()
	d, address, err := r.console.LoginSystem.Ticket(origin, operator.Ticket{Challenge: challenge, Subject: l.subject, ACR: l.acr, AMR: strings.Fields(l.amr)}, grant.At(r.now), "", l.claims)
	if err == nil {
		err = r.store.Commit(r.t.Context(), store.Change{Documents: []store.Document{d}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimPrefix(address, origin)
}

// arrives presents a ticket and a verifier to the console, and follows the page that
// refreshes itself. It returns the status and the page.
func (b *browser) arrives(path string, verifier *http.Cookie) (int, string) {
	b.t.Helper()
	w := b.get(path)
	_, to, _ := strings.Cut(w.Header().Get("Refresh"), "0; url=")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `href="`+to+`"`) || len(w.Result().Cookies()) > 0 {
		b.t.Fatalf("the arrival: %d, refresh %q, cookies %v", w.Code, to, w.Result().Cookies())
	}
	w = b.do(http.MethodGet, to, nil, func(r *http.Request) {
		if verifier != nil {
			r.AddCookie(verifier)
		}
	})
	return w.Code, w.Body.String()
}

// signsIn signs in at the other system, and returns the status and the page at the console.
func (b *browser) signsIn(l loginThere) (int, string) {
	b.t.Helper()
	verifier, challenge := b.departs()
	return b.arrives(b.ticket(challenge, l), verifier)
}

func TestOperatorsSignInElsewhere(t *testing.T) {
	r := open(t)
	r.elsewhere("admin groups=mintage-admins", "auditor@staff groups=help desk", "auditor sub=auth0|Zoë")
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Auditor}); err != nil {
		t.Fatal(err)
	}
	if w := (&browser{fixture: r}).get("/sign-in"); !strings.Contains(w.Body.String(), `href="/sign-in/elsewhere"`) || strings.Contains(w.Body.String(), "console invite") {
		t.Errorf("the page to sign in: %s", w.Body)
	}
	const admins = `{"groups":["people","mintage-admins"]}`
	for name, c := range map[string]struct {
		login   loginThere
		refused string // the text of the error page
		role    string // the role that the pages show
	}{
		"an admin by a group":             {loginThere{"bob", "", "pwd mfa", admins}, "", "admin"},
		"by an acr":                       {loginThere{"bob", "gold", "", admins}, "", "admin"},
		"by a claim that is no list":      {loginThere{"bob", "gold", "", `{"groups":"mintage-admins"}`}, "", "admin"},
		"by the second rule":              {loginThere{"dora", "", "hwk", `{"groups":["help desk"]}`}, "", "auditor"},
		"by the first that fits":          {loginThere{"dora", "", "hwk", `{"groups":["help desk","mintage-admins"]}`}, "", "admin"},
		"by the subject":                  {loginThere{"auth0|Zoë", "gold", "", ""}, "", "auditor"},
		"added, with a lesser role":       {loginThere{"alice", "gold", "", admins}, "", "auditor"},
		"no operator":                     {loginThere{"eve", "gold", "mfa", `{"groups":["people"]}`}, "You are no operator", ""},
		"a name that only looks the same": {loginThere{"Alice", "gold", "mfa", ""}, "You are no operator", ""},
		"a group that begins so":          {loginThere{"eve", "gold", "", `{"groups":["mintage-admins2","mintage"]}`}, "You are no operator", ""},
		"a list of something else":        {loginThere{"eve", "gold", "", `{"groups":[["mintage-admins"],7]}`}, "You are no operator", ""},
		"a subject among the claims":      {loginThere{"eve", "gold", "", `{"sub":"auth0|Zoë"}`}, "You are no operator", ""},
		"another claim":                   {loginThere{"eve", "gold", "", `{"roles":["mintage-admins"]}`}, "You are no operator", ""},
		"a password alone":                {loginThere{"bob", "", "pwd", admins}, "without a second factor", ""},
		"nothing said of the login":       {loginThere{"bob", "", "", admins}, "without a second factor", ""},
		"a lower acr":                     {loginThere{"bob", "goldish", "", admins}, "without a second factor", ""},
		"an acr that is an amr":           {loginThere{"bob", "mfa", "gold", admins}, "without a second factor", ""},
	} {
		b := &browser{fixture: r}
		status, page := b.signsIn(c.login)
		switch {
		case c.refused != "" && (status != http.StatusForbidden || !strings.Contains(page, c.refused) || b.cookie != nil):
			t.Errorf("%s: %d\n%s", name, status, page)
		case c.refused == "" && (status != http.StatusSeeOther || !strings.Contains(b.get("/").Body.String(), `<span class="role">`+c.role+`</span>`)):
			t.Errorf("%s: %d, not as %s\n%s", name, status, c.role, page)
		}
	}
	if _, page := (&browser{fixture: r}).signsIn(loginThere{"bob", "", "", admins}); !strings.Contains(page, "acr gold") || !strings.Contains(page, "amr hwk") {
		t.Errorf("the page does not name what would do:\n%s", page)
	}
	// Operators by a rule are listed while their sessions exist.
	list, err := r.cases.Console().Operators(t.Context())
	roles := map[string]string{}
	for _, o := range list {
		roles[o.Name] += o.Role + "@" + o.Realm + " by " + o.CreatedBy
	}
	if err != nil || len(list) != 4 || roles["bob"] != "admin@ by console.operators: admin groups=mintage-admins" || !strings.HasPrefix(roles["alice"], "auditor@ by") {
		t.Errorf("operators %v, %v", roles, err)
	}
}

// The ticket of a login is valid once, for a short time, and in the browser that began at
// the console (CWE-352, CWE-294).
func TestATicketIsValidOnceInOneBrowser(t *testing.T) {
	r := open(t)
	r.elsewhere("admin sub=bob")
	bob := loginThere{subject: "bob", acr: "gold"}
	attempt := func(name string, want int, path string, verifier *http.Cookie) {
		t.Helper()
		b := &browser{fixture: r}
		status, page := b.arrives(path, verifier)
		if status != want || (b.cookie != nil) != (want == http.StatusSeeOther) {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
	}
	mine, challenge := (&browser{fixture: r}).departs()
	theirs, other := (&browser{fixture: r}).departs()
	if mine.Name != verifierName || !mine.HttpOnly || !mine.Secure || mine.SameSite != http.SameSiteStrictMode || mine.Value == theirs.Value {
		t.Errorf("the verifier is %v", mine)
	}
	path := r.ticket(challenge, bob)
	attempt("no verifier", http.StatusForbidden, path, nil)
	attempt("after it was tried", http.StatusGone, path, mine)
	attempt("another browser", http.StatusForbidden, r.ticket(challenge, bob), theirs)
	attempt("a challenge as the verifier", http.StatusForbidden, r.ticket(challenge, bob), &http.Cookie{Name: verifierName, Value: challenge})
	attempt("no challenge", http.StatusForbidden, r.ticket("", bob), &http.Cookie{Name: verifierName, Value: ""})
	late := r.ticket(challenge, bob)
	r.now = r.now.Add(time.Minute)
	attempt("a minute later", http.StatusGone, late, mine)
	path = r.ticket(challenge, bob)
	attempt("the browser itself", http.StatusSeeOther, path, mine)
	attempt("once more", http.StatusGone, path, mine)
	attempt("a guess", http.StatusGone, "/signed-in?ticket=guess", mine)
	attempt("an authorization code", http.StatusGone, "/signed-in?ticket="+url.QueryEscape("mintage_ac_x/../y?z#"), mine)
	attempt("the other browser's own", http.StatusSeeOther, r.ticket(other, bob), theirs)
	if w := (&browser{fixture: r}).get("/signed-in?ticket=" + url.QueryEscape("x\r\nSet-Cookie: a=b; url=https://evil.example")); w.Header().Get("Refresh") != "0; url=/signed-in/x%0D%0ASet-Cookie:%20a=b%3B%20url=https:%2F%2Fevil.example" {
		t.Errorf("refresh %q", w.Header().Get("Refresh"))
	}

	r.console.LoginSystem = nil
	for _, path := range []string{"/sign-in/elsewhere", "/signed-in/x"} {
		if w := (&browser{fixture: r}).get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s where nobody signs in elsewhere: %d", path, w.Code)
		}
	}
}

// A fresh sign-in must be of the operator who is signed in. The new session replaces the
// old one.
func TestAFreshSignInElsewhere(t *testing.T) {
	r := open(t)
	r.elsewhere("admin groups=a")
	b := &browser{fixture: r}
	bob, carol := loginThere{subject: "bob", acr: "gold", claims: `{"groups":["a"]}`}, loginThere{subject: "carol", acr: "gold", claims: `{"groups":["a"]}`}
	if status, page := b.signsIn(bob); status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", status, page)
	}
	before := *b.cookie
	if status, page := b.signsIn(carol); status != http.StatusForbidden || !strings.Contains(page, "another operator is signed in") || !strings.Contains(page, "bob") || b.cookie.Value != before.Value {
		t.Errorf("somebody else: %d\n%s", status, page)
	}
	r.now = r.now.Add(20 * time.Minute)
	b.get("/")
	fresh := func() bool {
		list, err := operator.Sessions(t.Context(), r.store, grant.At(r.now))
		if err != nil || len(list) != 1 {
			t.Fatalf("%d sessions, %v", len(list), err)
		}
		return list[0].Fresh(grant.At(r.now))
	}
	if fresh() {
		t.Error("fresh after 20 minutes")
	}
	if status, _ := b.signsIn(bob); status != http.StatusSeeOther || !fresh() {
		t.Errorf("bob again: %d, fresh %t", status, fresh())
	}
	if w := (&browser{fixture: r, cookie: &before}).get("/"); w.Code != http.StatusSeeOther {
		t.Errorf("the cookie of before: %d", w.Code)
	}
}

// Removing or changing a rule takes effect at the next request, and so does removing the
// other system. An added operator's role takes precedence over a rule.
func TestARuleIsReadAtEachRequest(t *testing.T) {
	r := open(t)
	for name, change := range map[string]func(){
		"the rule is removed":      func() { r.elsewhere("admin groups=b") },
		"its role is changed":      func() { r.elsewhere("auditor groups=a") },
		"its realm is changed":     func() { r.elsewhere("admin@staff groups=a") },
		"its value is changed":     func() { r.elsewhere("admin groups=A") },
		"another system has users": func() { r.console.LoginSystem.At = "https://other.example" },
		"nobody comes from there":  func() { r.console.LoginSystem = nil },
		"users are built in":       func() { r.console.LoginSystem, r.console.Users = nil, r.users },
	} {
		r.console.Users = nil
		r.elsewhere("auditor x=y", "admin groups=a")
		b := &browser{fixture: r}
		b.signsIn(loginThere{"bob", "gold", "", `{"groups":["a"]}`})
		r.elsewhere("auditor x=z", "admin groups=a") // other rules have no effect
		if w := b.get("/operators"); w.Code != http.StatusOK {
			t.Fatalf("before %s: %d", name, w.Code)
		}
		change()
		if w := b.get("/operators"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in" {
			t.Errorf("after %s: %d", name, w.Code)
		}
	}
	r.console.Users = nil
	r.elsewhere("admin groups=a")
	b := &browser{fixture: r}
	b.signsIn(loginThere{"bob", "gold", "", `{"groups":["a"]}`})
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "bob", Role: operator.Auditor}); err != nil {
		t.Fatal(err)
	}
	if w := b.get("/new/user"); !strings.Contains(b.get("/").Body.String(), `<span class="role">auditor</span>`) {
		t.Errorf("an operator who was added is one by the rule still: %d", w.Code)
	}
}

// A rule for one realm confines the operator to the realm, like the operator's own entry
// would.
func TestARuleOfOneRealm(t *testing.T) {
	r := open(t)
	r.staff()
	r.handler = r.console.Handler()
	r.elsewhere("admin@staff groups=a")
	b := &browser{fixture: r}
	b.signsIn(loginThere{"bob", "gold", "", `{"groups":["a"]}`})
	if w := b.get("/clients"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "--realm staff") {
		t.Errorf("the own realm: %d", w.Code)
	}
	for _, path := range []string{"/operators", "/keys", "/realms/api/clients"} {
		if w := b.get(path); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	// Sign-ins that begin on a page of a realm go the same way.
	if w := (&browser{fixture: r}).get("/realms/staff/sign-in/elsewhere"); !strings.HasPrefix(w.Header().Get("Location"), "https://auth.example/account/console?code_challenge=") {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
}

// The audit log records sign-ins at the other system.
func TestSignInsElsewhereAreRecorded(t *testing.T) {
	r := open(t)
	r.console.Audit = r.audit
	r.elsewhere("admin groups=a")
	for _, l := range []loginThere{{"eve", "gold", "", ""}, {"bob", "", "pwd otp", `{"groups":["a"]}`}} {
		(&browser{fixture: r}).signsIn(l)
	}
	_, challenge := (&browser{fixture: r}).departs()
	(&browser{fixture: r}).arrives(r.ticket(challenge, loginThere{"bob", "gold", "", `{"groups":["a"]}`}), nil)
	(&browser{fixture: r}).signsIn(loginThere{"bob", "gold", "", `{"groups":["a"]}`})
	if err := r.audit.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range audit.Read(r.auditDirectory, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event == audit.LoginFailed {
			got = append(got, e.Actor+" "+e.Detail)
		}
	}
	want := "console:eve console: no operator|console:bob console: no second factor: acr , amr pwd otp|console:bob console: the login began in another browser"
	if strings.Join(got, "|") != want {
		t.Errorf("recorded %q", got)
	}
	events, err := r.store.Events(t.Context(), "console operators", 1)
	if err != nil || len(events) != 1 || events[0].Actor != "console:bob" || !strings.HasPrefix(events[0].Detail, "by login, from ") || !strings.HasSuffix(events[0].Detail, ", as admin groups=a") {
		t.Errorf("%+v, %v", events, err)
	}
	if _, ok := oauth.ParseChallenge(challenge); !ok {
		t.Errorf("challenge %q", challenge)
	}
}
