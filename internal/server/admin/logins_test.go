package admin_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const browser = "a browser's cookie"

// wanted returns an authorization request of the client billing.
func wanted() oauth.AuthorizationRequest {
	return oauth.AuthorizationRequest{ClientID: "billing", RedirectURI: "https://client.example/cb", State: []byte("s1"),
		Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"} // the example of RFC 7636 appendix B
}

// challenge begins a login in a browser.
func (a *adminAPI) challenge(t *testing.T, r oauth.AuthorizationRequest) string {
	t.Helper()
	st, err := a.logins.Authorize(t.Context(), r, login.Visitor{Browser: browser})
	if err != nil || st.Interaction == nil {
		t.Fatalf("Authorize: %+v, %v", st, err)
	}
	return st.Interaction.ID
}

// ask sends a request about a login and returns the response, and what was logged.
func (a *adminAPI) ask(t *testing.T, method, below, body string) (*httptest.ResponseRecorder, string) {
	t.Helper()
	a.log.Reset()
	r := httptest.NewRequest(method, "/admin/v1/logins/"+below, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w, a.log.String()
}

// verifier returns the verifier in a continue_url, which must be the interaction's page.
func (a *adminAPI) verifier(t *testing.T, w *httptest.ResponseRecorder, challenge string) string {
	t.Helper()
	var answer adminapi.ContinueAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	verifier, ok := strings.CutPrefix(answer.ContinueURL, a.logins.ContinueURL+challenge+"&verifier=")
	if !ok || len(verifier) < 22 {
		t.Fatalf("continue_url %.60s...", answer.ContinueURL)
	}
	return verifier
}

// taken returns what the browser's return completes.
func (a *adminAPI) taken(t *testing.T, challenge, verifier string) (*login.Outcome, error) {
	t.Helper()
	it, err := a.logins.Interaction(t.Context(), challenge, login.Visitor{Browser: browser})
	if err != nil {
		t.Fatal(err)
	}
	return a.logins.TakeLogin(it, verifier)
}

func TestAHandedOffLoginShowsItsRequirements(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	age := 3600
	full := wanted()
	full.Scope, full.Prompt, full.MaxAge = "read", oauth.Prompt{Login: true, Consent: true, SelectAccount: true}, &age
	full.LoginHint, full.UILocales = "alice@example.com", "ja en"
	demanding := wanted()
	demanding.Scope, demanding.ACRValues = "openid", "ignored"
	demanding.Claims = `{"id_token":{"sub":{"value":"u-1"},"acr":{"essential":true,"values":["gold","silver"]}}}`
	wishing := wanted()
	wishing.Scope, wishing.ACRValues = "openid", "gold silver"
	for name, c := range map[string]struct {
		request oauth.AuthorizationRequest
		want    adminapi.Login
	}{
		"the least": {wanted(), adminapi.Login{Scope: "openid read"}},
		"all": {full, adminapi.Login{Prompt: []string{"login", "consent", "select_account"}, MaxAge: &age,
			LoginHint: "alice@example.com", UILocales: "ja en", Fresh: true}},
		"a user and an acr are demanded": {demanding, adminapi.Login{Scope: "openid", Subjects: []string{"u-1"}, ACRValues: []string{"gold", "silver"}}},
		"an acr is wished for":           {wishing, adminapi.Login{Scope: "openid", ACRValues: []string{"gold", "silver"}}},
	} {
		w, _ := a.ask(t, "GET", a.challenge(t, c.request), "")
		var got adminapi.Login
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		if got.ClientID != "billing" || got.ClientName != "Billing" || got.RedirectHost != "client.example" || got.Scope != cmp.Or(c.want.Scope, "read") {
			t.Errorf("%s: the client is %+v", name, got)
		}
		if !got.RequestedAt.Equal(a.now) || !got.ExpiresAt.Equal(a.now.Add(10*time.Minute)) {
			t.Errorf("%s: from %s to %s", name, got.RequestedAt, got.ExpiresAt)
		}
		if !slices.Equal(got.Subjects, c.want.Subjects) || !slices.Equal(got.ACRValues, c.want.ACRValues) {
			t.Errorf("%s: whom it expects is %+v", name, got)
		}
		if !slices.Equal(got.Prompt, c.want.Prompt) || got.LoginHint != c.want.LoginHint || got.UILocales != c.want.UILocales ||
			got.Fresh != c.want.Fresh || (got.MaxAge == nil) != (c.want.MaxAge == nil) || got.MaxAge != nil && *got.MaxAge != age {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	// The account pages have no client.
	it, err := a.logins.BeginAccount(t.Context(), login.Visitor{Browser: browser})
	if err != nil {
		t.Fatal(err)
	}
	if w, _ := a.ask(t, "GET", it.ID, ""); w.Code != 200 || strings.Contains(w.Body.String(), "client") {
		t.Errorf("of the account pages: %d %s", w.Code, w.Body)
	}
}

func TestTheBrowserWithTheContinueURLCompletesTheLogin(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	loggedIn := a.now.Add(-30 * time.Second).UTC()
	accepted := `{"subject":"alice@example.com","name":"Alice","auth_time":"` + loggedIn.Format(time.RFC3339) + `","claims":{"tenant": "t1"}}`
	c := a.challenge(t, wanted())
	w, log := a.ask(t, "POST", c+"/accept", accepted)
	verifier := a.verifier(t, w, c)
	said, err := a.taken(t, c, verifier)
	if err != nil || said == nil || said.Identity == nil {
		t.Fatalf("taken: %+v, %v", said, err)
	}
	if who := *said.Identity; who.Subject != "alice@example.com" || who.Name != "Alice" || who.Claims != `{"tenant":"t1"}` || !who.AuthTime.Time().Equal(loggedIn) {
		t.Errorf("it is %+v", who)
	}
	// Neither the user nor the values that complete the login may be in the log.
	for _, text := range []string{"alice", "Alice", "t1", c, verifier} {
		if strings.Contains(log, text) {
			t.Errorf("the log holds %.5s...", text)
		}
	}
	if !strings.Contains(log, "login accepted") {
		t.Errorf("logged %q", log)
	}
	for name, other := range map[string]string{"another verifier": verifier[1:] + "A", "the verifier of another login": func() string {
		c2 := a.challenge(t, wanted())
		w, _ := a.ask(t, "POST", c2+"/accept", accepted)
		return a.verifier(t, w, c2)
	}()} {
		if said, err := a.taken(t, c, other); !errors.Is(err, login.ErrInteraction) || said != nil {
			t.Errorf("%s: %+v, %v", name, said, err)
		}
	}
	if said, err := a.taken(t, c, ""); said != nil || err != nil {
		t.Errorf("no verifier: %+v, %v", said, err)
	}

	for body, want := range map[string]oauth.ErrorCode{
		`{}`: "access_denied", `{"error":"login_required"}`: "login_required",
		`{"error":"temporarily_unavailable","reason":"directory away"}`: "temporarily_unavailable",
	} {
		c := a.challenge(t, wanted())
		w, log := a.ask(t, "POST", c+"/reject", body)
		login, err := a.taken(t, c, a.verifier(t, w, c))
		if err != nil || login == nil || login.Identity != nil || login.Refused != want {
			t.Errorf("%s: %+v, %v; want %s", body, login, err, want)
		}
		if !strings.Contains(log, `"error":"`+string(want)+`"`) || strings.Contains(body, "reason") != strings.Contains(log, "directory away") || strings.Contains(log, c) {
			t.Errorf("%s: logged %q", body, log)
		}
	}
}

func TestALoginMayBeAnsweredAgainOnlyInTheSameWay(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	const alice, bob = `{"subject":"alice","claims":{"tenant":"t1"}}`, `{"subject":"bob"}`
	c := a.challenge(t, wanted())
	first, _ := a.ask(t, "POST", c+"/accept", alice)
	verifier := a.verifier(t, first, c)
	a.now = a.now.Add(time.Minute)
	again, _ := a.ask(t, "POST", c+"/accept", `{ "claims": {"tenant" :"t1"}, "subject": "alice" }`)
	if again.Code != 200 || a.verifier(t, again, c) != verifier {
		t.Errorf("the same once more: %d %s", again.Code, again.Body)
	}
	for name, other := range map[string][2]string{"another user": {"/accept", bob}, "no user": {"/reject", `{}`}} {
		w, line := a.ask(t, "POST", c+other[0], other[1])
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "start again") || strings.Contains(line, c) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if login, err := a.taken(t, c, verifier); err != nil || login == nil || login.Identity.Subject != "alice" {
		t.Errorf("what was said first: %+v, %v", login, err)
	}

	c = a.challenge(t, wanted())
	first, _ = a.ask(t, "POST", c+"/reject", `{"reason":"twice"}`)
	if again, _ = a.ask(t, "POST", c+"/reject", `{}`); again.Code != 200 || a.verifier(t, again, c) != a.verifier(t, first, c) {
		t.Errorf("rejected once more: %d %s", again.Code, again.Body)
	}
	if w, _ := a.ask(t, "POST", c+"/accept", alice); w.Code != http.StatusConflict {
		t.Errorf("accepted after all: %d %s", w.Code, w.Body)
	}
}

func TestInvalidAnswersToALogin(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	fresh := wanted()
	fresh.Prompt.Login = true
	age := 60
	young := wanted()
	young.MaxAge = &age
	hourAgo := a.now.Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		of         oauth.AuthorizationRequest
		verb, body string
		status     int
		field      string
	}{
		"nobody":                {wanted(), "/accept", `{}`, 422, "subject"},
		"an empty subject":      {wanted(), "/accept", `{"subject":""}`, 422, "subject"},
		"a subject too long":    {wanted(), "/accept", `{"subject":"` + strings.Repeat("s", 256) + `"}`, 422, "subject"},
		"a control character":   {wanted(), "/accept", `{"subject":"a\u0000"}`, 422, "subject"},
		"a name too long":       {wanted(), "/accept", `{"subject":"alice","name":"` + strings.Repeat("A", 101) + `"}`, 422, "name"},
		"a registered claim":    {wanted(), "/accept", `{"subject":"alice","claims":{"sub":"bob"}}`, 422, "claims"},
		"claims of no object":   {wanted(), "/accept", `{"subject":"alice","claims":["t1"]}`, 422, "claims"},
		"too many claims":       {wanted(), "/accept", `{"subject":"alice","claims":{"t":"` + strings.Repeat("t", 128) + `"}}`, 422, "claims"},
		"an acr of two words":   {wanted(), "/accept", `{"subject":"alice","acr":"a b"}`, 422, "acr"},
		"an acr too long":       {wanted(), "/accept", `{"subject":"alice","acr":"` + strings.Repeat("a", 81) + `"}`, 422, "acr"},
		"an acr with quotes":    {wanted(), "/accept", `{"subject":"alice","acr":"go\"ld"}`, 422, "acr"},
		"an acr with backslash": {wanted(), "/accept", `{"subject":"alice","acr":"go\\ld"}`, 422, "acr"},
		"an amr with quotes":    {wanted(), "/accept", `{"subject":"alice","amr":["pwd","\""]}`, 422, "amr"},
		"an amr of two words":   {wanted(), "/accept", `{"subject":"alice","amr":["pwd otp"]}`, 422, "amr"},
		"tomorrow":              {wanted(), "/accept", `{"subject":"alice","auth_time":"` + a.now.AddDate(0, 0, 1).UTC().Format(time.RFC3339) + `"}`, 422, "auth_time"},
		"before all times":      {wanted(), "/accept", `{"subject":"alice","auth_time":"1969-01-01T00:00:00Z"}`, 422, "auth_time"},
		"the first instant":     {wanted(), "/accept", `{"subject":"alice","auth_time":"1970-01-01T00:00:00Z"}`, 422, "auth_time"}, // 0 would mean now
		"seconds":               {wanted(), "/accept", `{"subject":"alice","auth_time":1700000000}`, 400, ""},
		"an old login":          {fresh, "/accept", `{"subject":"alice","auth_time":"` + hourAgo + `"}`, 422, "auth_time"},
		"older than max_age":    {young, "/accept", `{"subject":"alice","auth_time":"` + hourAgo + `"}`, 422, "auth_time"},
		"another member":        {wanted(), "/accept", `{"subject":"alice","user":"alice"}`, 400, ""},
		"no JSON":               {wanted(), "/accept", `subject=alice`, 400, ""},
		"nothing":               {wanted(), "/accept", ``, 400, ""},
		"two values":            {wanted(), "/accept", `{"subject":"alice"}{"subject":"bob"}`, 400, ""},
		"far too much":          {wanted(), "/accept", `{"subject":"` + strings.Repeat("s", 20<<10) + `"}`, 400, ""},
		"an error of no kind":   {wanted(), "/reject", `{"error":"because"}`, 422, "error"},
		"another's error":       {wanted(), "/reject", `{"error":"invalid_client"}`, 422, "error"},
		"a reason too long":     {wanted(), "/reject", `{"reason":"` + strings.Repeat("r", 201) + `"}`, 422, "reason"},
		"a reason of two lines": {wanted(), "/reject", `{"reason":"a\nb"}`, 422, "reason"},
		"a user with a refusal": {wanted(), "/reject", `{"subject":"alice"}`, 400, ""},
	} {
		challenge := a.challenge(t, c.of)
		w, log := a.ask(t, "POST", challenge+c.verb, c.body)
		var problem adminapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != c.status || problem.Status != c.status || problem.Field != c.field ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d about %q", name, w.Code, w.Body, c.status, c.field)
		}
		var line logLine
		if err := json.Unmarshal([]byte(log), &line); err != nil || line.Status != c.status || line.Field != c.field || line.RequestID != w.Header().Get("X-Request-Id") {
			t.Errorf("%s: logged %q", name, log)
		}
		if strings.Contains(log, challenge) || strings.Contains(log, "alice") {
			t.Errorf("%s: the log holds the challenge or the user", name)
		}
		// The login can still be accepted.
		if w, _ := a.ask(t, "POST", challenge+"/accept", `{"subject":"alice"}`); w.Code != 200 {
			t.Errorf("%s: and then %d %s", name, w.Code, w.Body)
		}
	}
}

// A back end that signs operators in must be an actor of the whole deployment: an actor
// of one realm could otherwise sign in to the console as anybody.
func TestAnActorOfOneRealmSignsNoOperatorIn(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	a.logins.Console = &login.Console{Admit: func(string, login.Identity) (store.Document, string, error) {
		return store.Document{}, "https://console.example/", nil
	}}
	it, err := a.logins.BeginConsole(t.Context(), login.Visitor{Browser: browser}, "of the console")
	if err != nil {
		t.Fatal(err)
	}
	of := func(realm, challenge string) (int, adminapi.Problem) {
		r := httptest.NewRequest("POST", "/admin/v1/logins/"+challenge+"/accept", strings.NewReader(`{"subject":"alice"}`))
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "page", Role: cases.RoleAdmin, Realm: realm})))
		var p adminapi.Problem
		json.Unmarshal(w.Body.Bytes(), &p)
		return w.Code, p
	}
	if w, _ := a.ask(t, "GET", it.ID, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"client_name":"Console"`) || strings.Contains(w.Body.String(), "client_id") {
		t.Errorf("whom an operator's login is for: %d %s", w.Code, w.Body)
	}
	if status, p := of(testkit.Realm, it.ID); status != http.StatusForbidden || p.Type != "urn:mintage:problem:realm" {
		t.Errorf("an operator's login: %d %+v", status, p)
	}
	if status, p := of(testkit.Realm, a.challenge(t, wanted())); status != http.StatusOK {
		t.Errorf("a user's login: %d %+v", status, p)
	}
	if status, p := of("", it.ID); status != http.StatusOK {
		t.Errorf("an operator's login, by one of the deployment: %d %+v", status, p)
	}
}

func TestUnavailableLogins(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	c := a.challenge(t, wanted())
	unknown := strings.Repeat("A", len(c))
	for name, q := range map[string]struct {
		method, below string
		status        int
		allow         string
	}{
		"unknown":             {"GET", unknown, 404, ""},
		"unknown, to accept":  {"POST", unknown + "/accept", 404, ""},
		"unknown, to reject":  {"POST", unknown + "/reject", 404, ""},
		"none":                {"GET", "", 404, ""},
		"cut off":             {"GET", c[1:], 404, ""},
		"another verb":        {"POST", c + "/forget", 404, ""},
		"a verb and a slash":  {"POST", c + "/accept/", 404, ""},
		"a slash":             {"GET", c + "/", 404, ""},
		"posted":              {"POST", c, 405, "GET"},
		"accepted by reading": {"GET", c + "/accept", 405, "POST"},
		"rejected by reading": {"GET", c + "/reject", 405, "POST"},
	} {
		body := `{}`
		if strings.HasSuffix(q.below, "/accept") {
			body = `{"subject":"alice"}`
		}
		w, log := a.ask(t, q.method, q.below, body)
		if w.Code != q.status || w.Header().Get("Allow") != q.allow || strings.Contains(log, c[1:]) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for _, below := range []string{c, c + "/accept", c + "/reject"} {
		method, body := "POST", `{"subject":"alice"}`
		switch {
		case below == c:
			method = "GET"
		case strings.HasSuffix(below, "reject"):
			body = `{}`
		}
		a.faulty.Inject(storetest.Document, 1, storetest.Lost)
		if w, log := a.ask(t, method, below, body); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("%s without a store: %d %s", method, w.Code, w.Body)
		}
	}
	a.now = a.now.Add(10 * time.Minute)
	for _, below := range []string{c, c + "/accept", c + "/reject"} {
		method, body := "POST", `{"subject":"alice"}`
		switch {
		case below == c:
			method = "GET"
		case strings.HasSuffix(below, "reject"):
			body = `{}`
		}
		if w, _ := a.ask(t, method, below, body); w.Code != 410 || !strings.Contains(w.Body.String(), "start again") {
			t.Errorf("%s after its time: %d %s", method, w.Code, w.Body)
		}
	}
}

func TestWithoutHandoffThereAreNoLogins(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	c := a.challenge(t, wanted())
	a.handler = admin.NewAPI(a.cases(), a.iss, nil, admin.Access{Configured: adminToken}, slog.New(slog.NewJSONHandler(&a.log, nil))).Handler()
	for _, q := range [][2]string{{"GET", c}, {"POST", c + "/accept"}, {"POST", c + "/reject"}} {
		if w, _ := a.ask(t, q[0], q[1], `{"subject":"alice"}`); w.Code != 404 || !strings.Contains(w.Body.String(), "login.mode") {
			t.Errorf("%s %s: %d %s", q[0], q[1][len(c):], w.Code, w.Body)
		}
	}
}
