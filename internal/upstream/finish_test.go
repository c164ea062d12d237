package upstream_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/upstream"
)

func TestAValidLoginIdentifiesTheUser(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	loggedIn := p.now.Add(-time.Minute)
	for name, c := range map[string]struct {
		claims object
		config func(*upstream.Config)
		want   upstream.Identity
	}{
		"the least":               {want: upstream.Identity{Subject: "248289761001"}},
		"all":                     {claims: object{"auth_time": loggedIn.Unix(), "name": "Alice", "at_hash": hash(accessToken), "azp": clientID}, want: upstream.Identity{Subject: "248289761001", AuthTime: loggedIn, Name: "Alice"}},
		"for two, one asked":      {claims: object{"aud": []string{clientID, "other"}, "azp": clientID}, want: upstream.Identity{Subject: "248289761001"}},
		"of another claim":        {claims: object{"oid": "ålice"}, config: func(c *upstream.Config) { c.SubjectClaim, c.SubjectPrefix = "oid", "corp:" }, want: upstream.Identity{Subject: "corp:ålice"}},
		"of a verified address":   {claims: object{"email": "alice@example.com", "email_verified": true}, config: func(c *upstream.Config) { c.SubjectClaim = "email" }, want: upstream.Identity{Subject: "alice@example.com"}},
		"the longest":             {claims: object{"sub": strings.Repeat("s", oauth.MaxSubject-5)}, config: func(c *upstream.Config) { c.SubjectPrefix = "corp:" }, want: upstream.Identity{Subject: "corp:" + strings.Repeat("s", oauth.MaxSubject-5)}},
		"a clock a little ahead":  {claims: object{"iat": p.now.Unix() + 20, "auth_time": p.now.Unix() + 20}, want: upstream.Identity{Subject: "248289761001", AuthTime: p.now}},
		"a name not to be shown":  {claims: object{"name": "Al\nice"}, want: upstream.Identity{Subject: "248289761001"}},
		"a name that is too long": {claims: object{"name": strings.Repeat("A", 200)}, want: upstream.Identity{Subject: "248289761001"}},
		"a name that is none":     {claims: object{"name": 7}, want: upstream.Identity{Subject: "248289761001"}},
	} {
		cfg := p.config()
		if c.config != nil {
			c.config(&cfg)
		}
		before := p.claims
		p.claims = p.claims.with(c.claims)
		got, err := p.login(upstream.New(cfg), upstream.Request{})
		p.claims = before
		if err != nil || got.Subject != c.want.Subject || got.Name != c.want.Name || !got.AuthTime.Equal(c.want.AuthTime) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestAnIDTokenIsBelievedOnlyIfEveryCheckHolds(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	claims := func(changes object) func() {
		return func() {
			p.claims = maps.Clone(p.claims)
			maps.Copy(p.claims, changes) // a nil nonce is omitted, too
		}
	}
	signing := func(alg jose.SignatureAlgorithm, key any) func() {
		return func() { p.signing = jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}} }
	}
	public, err := x509.MarshalPKIXPublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func()
		want   string
	}{
		"signed by a stranger":            {signing(jose.ES256, stranger(t)), "signature"},
		"not signed":                      {func() { p.sign = unsigned }, "none"},
		"signed with the client's secret": {signing(jose.HS256, []byte(strings.Repeat(clientSecret, 3))), "HS256"},
		"signed with the public key":      {signing(jose.HS256, public), "HS256"},
		"signed with one not announced":   {func() { p.metadata["id_token_signing_alg_values_supported"] = []string{"RS256"} }, "ES256"},
		"changed on the way":              {func() { p.sign = func(b []byte) string { return swapPayload(p.signed(b)) } }, "signature"},
		"no JWT":                          {func() { p.sign = func([]byte) string { return "x" } }, "malformed"},
		"none at all":                     {func() { p.tokens = object{"id_token": nil} }, "no id_token"},
		"not even a string":               {func() { p.tokens = object{"id_token": 1} }, "no id_token"},
		"of another issuer":               {claims(object{"iss": "https://evil.example"}), "different provider"},
		"of an issuer with a slash more":  {claims(object{"iss": p.url + "/"}), "different provider"},
		"of no issuer":                    {claims(object{"iss": nil}), "different provider"},
		"for another client":              {claims(object{"aud": "other"}), "audience"},
		"for nobody":                      {claims(object{"aud": nil}), "audience"},
		"for two, nobody asked":           {claims(object{"aud": []string{clientID, "other"}}), "azp"},
		"for two, the other asked":        {claims(object{"aud": []string{clientID, "other"}, "azp": "other"}), "azp"},
		"for us, another asked":           {claims(object{"azp": "other"}), "azp"},
		"an azp that is no string":        {claims(object{"azp": []string{clientID}}), `"azp" is not a string`},
		"expired":                         {claims(object{"exp": p.now.Unix() - 1}), "expired"},
		"without expiry":                  {claims(object{"exp": nil}), "expired"},
		"not yet made":                    {claims(object{"iat": p.now.Unix() + 60}), "iat is in the future"},
		"not yet good":                    {claims(object{"nbf": p.now.Unix() + 3600}), "nbf"},
		"of another login":                {claims(object{"nonce": "another"}), "nonce"},
		"of no login":                     {claims(object{"nonce": nil}), "nonce"},
		"with an empty nonce":             {claims(object{"nonce": ""}), "nonce"},
		"beside another access token":     {claims(object{"at_hash": hash("another token")}), "at_hash"},
		"auth_time in the future":         {claims(object{"auth_time": p.now.Unix() + 60}), "auth_time is in the future"},
		"auth_time that is no number":     {claims(object{"auth_time": "now"}), "auth_time is not a time"},
		"auth_time before all times":      {claims(object{"auth_time": -1}), "auth_time is not a time"},
		"no sub":                          {claims(object{"sub": nil}), "no sub"},
		"an empty sub":                    {claims(object{"sub": ""}), "no sub"},
		"a sub that is a number":          {claims(object{"sub": 7}), "id_token"},
		"a sub that is too long":          {claims(object{"sub": strings.Repeat("s", oauth.MaxSubject+1)}), "too long"},
		"a sub of control characters":     {claims(object{"sub": "alice\x00"}), "control characters"},
		"a sub of C1 control characters":  {claims(object{"sub": "alice\u0085"}), "control characters"},
		"a sub that is not UTF-8": {func() {
			p.sign = func(b []byte) string { return p.signed([]byte(strings.Replace(string(b), "2482", `\ud800`, 1))) }
		}, "not UTF-8"},
		"claims that are no object": {func() { p.sign = func([]byte) string { return p.signed([]byte(`[]`)) } }, "claims"},
	} {
		metadata, before, signing := p.metadata, p.claims, p.signing
		p.metadata = p.metadata.with(nil)
		c.change()
		id, err := p.login(upstream.New(p.config()), upstream.Request{})
		if !errors.Is(err, upstream.ErrInvalid) || errors.Is(err, upstream.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrInvalid with %q", name, err, c.want)
		}
		if id != (upstream.Identity{}) {
			t.Errorf("%s: somebody is logged in", name)
		}
		p.silent(err)
		p.metadata, p.claims, p.signing, p.sign, p.tokens = metadata, before, signing, p.signed, object{}
	}
	if _, err := p.login(upstream.New(p.config()), upstream.Request{}); err != nil {
		t.Errorf("without any of them: %v", err)
	}
	// The prefix counts towards the length.
	cfg := p.config()
	cfg.SubjectPrefix = "corp:"
	p.claims = p.claims.with(object{"sub": strings.Repeat("s", oauth.MaxSubject-4)})
	if _, err := p.login(upstream.New(cfg), upstream.Request{}); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("too long with its prefix: %v, want ErrInvalid", err)
	}
}

// The sub of an id_token is ASCII (OpenID Connect Core section 2). For a client with
// id_tokens, such a login fails here and not when the code is made.
func TestASubjectThatNoIDTokenCanName(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for _, c := range []struct {
		sub, prefix string
		openID      bool
		refused     bool
	}{
		{"ålice", "", false, false},
		{"ålice", "", true, true},
		{"alice", "å:", true, true},
		{"alice b~", "corp:", true, false},
	} {
		cfg, before := p.config(), p.claims
		cfg.SubjectPrefix = c.prefix
		p.claims = p.claims.with(object{"sub": c.sub})
		id, err := p.login(upstream.New(cfg), upstream.Request{OpenID: c.openID})
		p.claims = before
		if c.refused && (!errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "login.upstream.subject_claim") || id != (upstream.Identity{})) {
			t.Errorf("%+v: %+v, %v; want ErrInvalid", c, id, err)
		}
		if !c.refused && (err != nil || id.Subject != c.prefix+c.sub) {
			t.Errorf("%+v: %+v, %v", c, id, err)
		}
	}
}

// swapPayload replaces the user's name in a signed token.
func swapPayload(token string) string {
	parts := strings.Split(token, ".")
	forged := strings.Split(unsigned([]byte(`{"sub":"bob"}`)), ".")
	return parts[0] + "." + forged[1] + "." + parts[2]
}

func TestAnAddressNamesAUserOnlyIfTheProviderHasVerifiedIt(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	cfg := p.config()
	cfg.SubjectClaim = "email"
	u := upstream.New(cfg)
	for name, c := range map[string]struct {
		claims object
		want   string
	}{
		"not verified":            {object{"email": "alice@example.com", "email_verified": false}, "email_verified"},
		"nothing said":            {object{"email": "alice@example.com"}, "email_verified"},
		"verified, says a string": {object{"email": "alice@example.com", "email_verified": "true"}, "email_verified"},
		"no address":              {object{"email_verified": true}, "subject_claim"},
		"an empty address":        {object{"email": "", "email_verified": true}, "subject_claim"},
		"several addresses":       {object{"email": []string{"alice@example.com"}, "email_verified": true}, "not a string"},
	} {
		before := p.claims
		p.claims = p.claims.with(c.claims)
		_, err := p.login(u, upstream.Request{})
		p.claims = before
		if !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrInvalid with %q", name, err, c.want)
		}
	}
}

// kept returns a pending login after it was stored and read again.
func kept(t *testing.T, pending upstream.Pending) (again upstream.Pending) {
	t.Helper()
	text, err := json.Marshal(pending)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again.URL != pending.URL {
		t.Fatalf("a pending login is stored as %d bytes: %v", len(text), err)
	}
	return again
}

func TestALoginThatHasToBeFreshIsProvedByAuthTime(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	seconds := func(n int) *int { return &n }
	begun := p.now
	for name, c := range map[string]struct {
		request  upstream.Request
		authTime any
		want     string // the error; "" for none
	}{
		"any age, none said":           {upstream.Request{}, nil, ""},
		"any age, a year":              {upstream.Request{}, begun.AddDate(-1, 0, 0).Unix(), ""},
		"an hour, none said":           {upstream.Request{MaxAge: seconds(3600)}, nil, "no auth_time"},
		"an hour, just":                {upstream.Request{MaxAge: seconds(3600)}, begun.Add(-time.Hour).Unix(), ""},
		"an hour, too old":             {upstream.Request{MaxAge: seconds(3600)}, begun.Add(-time.Hour - time.Minute).Unix(), "too long ago"},
		"now, none said":               {upstream.Request{ForceLogin: true}, nil, "no auth_time"},
		"now, a text":                  {upstream.Request{ForceLogin: true}, "now", "not a time"},
		"now, a session":               {upstream.Request{ForceLogin: true}, begun.Add(-time.Minute).Unix(), "too long ago"},
		"now, logged in since":         {upstream.Request{ForceLogin: true}, begun.Add(time.Minute).Unix(), ""},
		"now goes before an hour":      {upstream.Request{ForceLogin: true, MaxAge: seconds(3600)}, begun.Add(-time.Minute).Unix(), "too long ago"},
		"an age beyond all measure":    {upstream.Request{MaxAge: seconds(1 << 62)}, begun.AddDate(-1, 0, 0).Unix(), ""},
		"an account, a session of old": {upstream.Request{SelectAccount: true}, begun.AddDate(0, 0, -1).Unix(), ""},
	} {
		pending := p.begin(u, c.request)
		// The user takes some time at the provider.
		p.now = begun.Add(5 * time.Minute)
		before := p.claims
		p.claims = p.claims.with(object{"auth_time": c.authTime, "exp": p.now.Add(time.Minute).Unix()})
		_, err := u.Finish(t.Context(), upstream.Answer{Code: code}, kept(t, pending))
		p.claims, p.now = before, begun
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAnAnswerOfAnotherIssuerIsRefusedBeforeTheCodeIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		announced bool
		answer    upstream.Answer
		iss       string // "own" is the provider's issuer
		accepted  bool
	}{
		"announced and right":            {true, upstream.Answer{Code: code}, "own", true},
		"announced and absent":           {true, upstream.Answer{Code: code}, "", false},
		"announced, another":             {true, upstream.Answer{Code: code}, "https://evil.example", false},
		"announced, an error without it": {true, upstream.Answer{Error: "access_denied"}, "", false},
		"announced, another's error":     {true, upstream.Answer{Error: "access_denied"}, "https://evil.example", false},
		"not announced and absent":       {false, upstream.Answer{Code: code}, "", true},
		"not announced and right":        {false, upstream.Answer{Code: code}, "own", true},
		"not announced, another":         {false, upstream.Answer{Code: code}, "https://evil.example", false},
	} {
		p := newProvider(t)
		p.metadata["authorization_response_iss_parameter_supported"] = c.announced
		u := upstream.New(p.config())
		c.answer.Issuer = strings.Replace(c.iss, "own", p.url, 1)
		_, err := u.Finish(t.Context(), c.answer, p.begin(u, upstream.Request{}))
		if c.accepted && err != nil || !c.accepted && (!errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "iss")) {
			t.Errorf("%s: %v", name, err)
		}
		if n := p.asked["/token"].Load(); !c.accepted && n != 0 {
			t.Errorf("%s: the code was sent", name)
		}
	}
}

func TestWhatAnErrorOfTheProviderMeans(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	for code, want := range map[string]error{
		"access_denied": upstream.ErrDenied, "temporarily_unavailable": upstream.ErrUnavailable, "server_error": upstream.ErrUnavailable,
		"invalid_request": upstream.ErrInvalid, "unauthorized_client": upstream.ErrInvalid, "made_up": upstream.ErrInvalid,
		"<script>": upstream.ErrInvalid, strings.Repeat("a", 65): upstream.ErrInvalid,
	} {
		_, err := u.Finish(t.Context(), upstream.Answer{Error: code}, p.begin(u, upstream.Request{}))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
		if strings.ContainsAny(err.Error(), "<>") || strings.Contains(err.Error(), "aaaa") {
			t.Errorf("%s: the browser writes into the log: %v", code, err)
		}
	}
	for _, code := range []string{"login_required", "consent_required", "interaction_required", "account_selection_required", "unmet_authentication_requirements"} {
		_, err := u.Finish(t.Context(), upstream.Answer{Error: code}, p.begin(u, upstream.Request{}))
		var required *upstream.InteractionRequired
		if !errors.As(err, &required) || string(required.Code) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	if _, err := u.Finish(t.Context(), upstream.Answer{}, p.begin(u, upstream.Request{})); !errors.Is(err, upstream.ErrInvalid) {
		t.Errorf("neither code nor error: %v, want ErrInvalid", err)
	}
	if n := p.asked["/token"].Load(); n != 0 {
		t.Errorf("%d requests at the token endpoint", n)
	}
}

func TestACodeIsPresentedOnceAndNeverPrinted(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	pending := p.begin(u, upstream.Request{})
	if _, err := u.Finish(t.Context(), upstream.Answer{Code: code}, pending); err != nil {
		t.Fatal(err)
	}
	_, err := u.Finish(t.Context(), upstream.Answer{Code: code}, pending)
	if !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "400: invalid_grant") {
		t.Errorf("a code that was used: %v, want ErrInvalid", err)
	}
	p.silent(err)

	// The provider's authentication method is not found by trying it with the code.
	pending = p.begin(u, upstream.Request{})
	pending.Verifier = "another verifier, of another browser, by somebody"
	before := p.asked["/token"].Load()
	if _, err = u.Finish(t.Context(), upstream.Answer{Code: code}, pending); !errors.Is(err, upstream.ErrInvalid) {
		t.Errorf("a wrong verifier: %v, want ErrInvalid", err)
	}
	if n := p.asked["/token"].Load() - before; n != 1 {
		t.Errorf("the code was presented %d times", n)
	}
}

func TestAnswersOfTheTokenEndpointThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	send := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", p.url+"/elsewhere")
			w.WriteHeader(status)
			w.Write([]byte(strings.ReplaceAll(body, "CODE", r.PostFormValue("code"))))
		}
	}
	elsewhere := 0
	p.answers["/elsewhere"] = func(http.ResponseWriter, *http.Request) { elsewhere++ }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"a fault":                      {send(500, "text/html", "CODE"), upstream.ErrUnavailable},
		"too many requests":            {send(429, "application/json", `{"error":"slow_down"}`), upstream.ErrUnavailable},
		"unavailable, says so":         {send(400, "application/json", `{"error":"temporarily_unavailable"}`), upstream.ErrUnavailable},
		"no JSON":                      {send(200, "application/json", "CODE"), upstream.ErrInvalid},
		"no token":                     {send(200, "application/json", `{"token_type":"Bearer","id_token":"CODE"}`), upstream.ErrInvalid},
		"a page of error":              {send(403, "text/html", "<h1>CODE</h1>"), upstream.ErrInvalid},
		"the client is unknown":        {send(401, "application/json", `{"error":"invalid_client","error_description":"CODE"}`), upstream.ErrInvalid},
		"an error with the code in it": {send(400, "application/json", `{"error":"CODE"}`), upstream.ErrInvalid},
		"a success that is none":       {send(200, "application/json", `{"error":"invalid_grant"}`), upstream.ErrInvalid},
		"moved":                        {send(307, "text/plain", ""), upstream.ErrInvalid},
		"far too much":                 {send(200, "application/json", `{"access_token":"`+strings.Repeat("x", 1<<20)+`"}`), upstream.ErrInvalid},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Write([]byte("{"))
		}, upstream.ErrUnavailable},
	} {
		p.answers["/token"] = c.answer
		_, err := p.login(u, upstream.Request{})
		if !errors.Is(err, c.want) || errors.Is(err, upstream.ErrInvalid) && errors.Is(err, upstream.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if name == "a page of error" && !strings.Contains(err.Error(), "answered 403 without an OAuth error code") {
			t.Errorf("%s: %v", name, err)
		}
		if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		p.silent(err)
	}
	if elsewhere != 0 {
		t.Error("the code went where the provider redirects")
	}
}
