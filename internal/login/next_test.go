package login

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

func TestNext(t *testing.T) {
	const native = "com.example.shop:/cb"
	at := started
	session := func(age time.Duration) *Session {
		return &Session{Identity: Identity{Subject: "alice", AuthTime: at.Add(-age)}}
	}
	alice, bob := session(time.Hour), &Session{Identity: Identity{Subject: "bob", AuthTime: at}}
	none, noMaxAge := (*Consent)(nil), (*int)(nil)
	seconds := func(n int) *int { return &n }
	shop, ours, phone := &store.Client{}, &store.Client{Settings: store.Settings{FirstParty: true}}, &store.Client{Settings: store.Settings{FirstParty: true, Native: true}}
	agreed := func(remembered oauth.Scope) *Consent { return &Consent{Scope: "a b c", Remembered: remembered, At: at} }
	waits := func(s Step) *Interaction { return &Interaction{Step: s} }
	of := func(s *Session) *Interaction { return &Interaction{Step: StepConsent, Identity: &s.Identity} }
	decided := &Interaction{Step: StepAnswered, Decision: &Decision{}}
	var plain, asksNone, asksLogin, asksConsent, asksAccount oauth.Prompt
	asksNone.None, asksLogin.Login, asksConsent.Consent, asksAccount.SelectAccount = true, true, true, true

	for name, c := range map[string]struct {
		prompt  oauth.Prompt
		maxAge  *int
		client  *store.Client
		builtIn bool
		defect  *oauth.Error
		s       *Session
		agreed  *Consent
		it      *Interaction
		want    Step
		err     error
	}{
		// Who the user is.
		"nobody is signed in":                   {plain, noMaxAge, shop, true, nil, nil, none, nil, StepLogin, nil},
		"nobody, and nobody may be asked":       {asksNone, noMaxAge, shop, true, nil, nil, none, nil, "", oauth.ErrLoginRequired},
		"the client asks for a login":           {asksLogin, noMaxAge, shop, true, nil, alice, agreed("a"), nil, StepLogin, nil},
		"a login that is too old":               {plain, seconds(3599), shop, true, nil, alice, agreed("a"), nil, StepLogin, nil},
		"a login that is just not":              {plain, seconds(3600), shop, true, nil, alice, agreed("a"), nil, StepAnswered, nil},
		"too old, and nobody may be asked":      {asksNone, seconds(3599), shop, true, nil, alice, agreed("a"), nil, "", oauth.ErrLoginRequired},
		"built-in users choose an account":      {asksAccount, noMaxAge, shop, true, nil, alice, agreed("a"), nil, StepAccount, nil},
		"other users choose it where they are":  {asksAccount, noMaxAge, shop, false, nil, alice, agreed("a"), nil, StepLogin, nil},
		"nobody is there to be chosen":          {asksAccount, noMaxAge, shop, true, nil, nil, none, nil, StepLogin, nil},
		"a defect comes before the login":       {asksNone, noMaxAge, shop, true, oauth.ErrScope, nil, none, nil, "", oauth.ErrScope},
		"a defect that a question meets":        {plain, noMaxAge, shop, true, oauth.ErrScope, alice, none, of(alice), "", oauth.ErrScope},
		"a password that owes a second factor":  {plain, noMaxAge, shop, true, nil, alice, none, waits(StepSecondFactor), StepSecondFactor, nil},
		"an account that is not chosen":         {asksAccount, noMaxAge, shop, true, nil, alice, none, waits(StepAccount), StepAccount, nil},
		"an account, and the session has ended": {asksAccount, noMaxAge, shop, true, nil, nil, none, waits(StepAccount), "", ErrSignedOut},
		"signed in in another tab":              {plain, noMaxAge, shop, true, nil, alice, agreed(""), waits(StepLogin), StepConsent, nil},
		"in another tab, and agreed":            {plain, noMaxAge, shop, true, nil, alice, agreed("a"), waits(StepLogin), StepAnswered, nil},
		"in another tab, too long ago":          {plain, seconds(3599), shop, true, nil, alice, agreed("a"), waits(StepLogin), StepLogin, nil},
		"in another tab, but not for this":      {plain, noMaxAge, shop, true, nil, alice, agreed("a"), &Interaction{Step: StepLogin, Fresh: true}, StepLogin, nil},
		"in another tab, and may be another":    {asksAccount, noMaxAge, shop, true, nil, alice, agreed("a"), waits(StepLogin), StepLogin, nil},

		// The user's consent.
		"consents decide, and are not read":      {plain, noMaxAge, shop, true, nil, alice, none, nil, StepReadConsents, nil},
		"not read, of a question":                {plain, noMaxAge, shop, true, nil, alice, none, of(alice), StepReadConsents, nil},
		"remembered":                             {plain, noMaxAge, shop, true, nil, alice, agreed("a b"), nil, StepAnswered, nil},
		"given, not remembered":                  {plain, noMaxAge, shop, true, nil, alice, agreed("b"), nil, StepConsent, nil},
		"none given":                             {plain, noMaxAge, shop, true, nil, alice, &Consent{}, nil, StepConsent, nil},
		"remembered, and asked all the same":     {asksConsent, noMaxAge, shop, true, nil, alice, agreed("a"), nil, StepConsent, nil},
		"none, and nobody may be asked":          {asksNone, noMaxAge, shop, true, nil, alice, agreed("b"), nil, "", oauth.ErrConsentRequired},
		"remembered, and nobody may be asked":    {asksNone, noMaxAge, shop, true, nil, alice, agreed("a"), nil, StepAnswered, nil},
		"one of ours, consents not read":         {plain, noMaxAge, ours, true, nil, alice, none, nil, StepAnswered, nil},
		"one of ours that asks for it":           {asksConsent, noMaxAge, ours, true, nil, alice, &Consent{}, nil, StepConsent, nil},
		"any program may pretend to be it":       {plain, noMaxAge, phone, true, nil, alice, agreed("a"), nil, StepConsent, nil},
		"any program, and nobody may be asked":   {asksNone, noMaxAge, phone, true, nil, alice, agreed("a"), nil, "", oauth.ErrInteraction},
		"signed in for it, to be asked":          {plain, noMaxAge, shop, true, nil, alice, agreed(""), of(alice), StepConsent, nil},
		"signed in for it, remembered meanwhile": {asksLogin, seconds(0), shop, true, nil, alice, agreed("a"), of(alice), StepAnswered, nil},
		"signed out since":                       {plain, noMaxAge, shop, true, nil, nil, none, of(alice), "", ErrSignedOut},
		"another user has signed in since":       {plain, noMaxAge, shop, true, nil, bob, none, of(alice), "", ErrSwitched},

		// Decided interactions, and the account pages.
		"decided, whoever is signed in":        {plain, noMaxAge, shop, true, oauth.ErrScope, bob, none, decided, StepAnswered, nil},
		"decided, and nobody is":               {plain, noMaxAge, shop, true, nil, nil, none, decided, StepAnswered, nil},
		"the account pages, to sign in":        {plain, noMaxAge, nil, true, nil, nil, none, waits(StepLogin), StepLogin, nil},
		"the account pages, second factor":     {plain, noMaxAge, nil, true, nil, nil, none, waits(StepSecondFactor), StepSecondFactor, nil},
		"the account pages, signed in":         {plain, noMaxAge, nil, true, nil, alice, none, of(alice), StepAnswered, nil},
		"the account pages, in another tab":    {plain, noMaxAge, nil, true, nil, alice, none, waits(StepLogin), StepAnswered, nil},
		"the account pages, signed out by now": {plain, noMaxAge, nil, true, nil, nil, none, of(alice), "", ErrSignedOut},
	} {
		r := Request{Client: c.client, At: at, BuiltIn: c.builtIn}
		r.Scope, r.RedirectURI, r.Prompt, r.MaxAge, r.Defect = "a", redirectURI, c.prompt, c.maxAge, c.defect
		if c.client == phone {
			r.RedirectURI = native
		}
		if step, err := Next(r, c.s, c.agreed, c.it); err != c.err || err == nil && step != c.want {
			t.Errorf("%s: step %q, %v; want %q, %v", name, step, err, c.want, c.err)
		}
	}
}

// A client may name the user whom it expects (OpenID Connect Core section 3.1.2.1,
// id_token_hint), and the acr that the login must have (section 5.5.1.1).
func TestNextWithAnExpectedUser(t *testing.T) {
	at := started
	user := func(name string) *Session { return &Session{Identity: Identity{Subject: name, AuthTime: at}} }
	alice, bob := user("alice"), user("bob")
	of := func(s *Session) *Interaction { return &Interaction{Step: StepConsent, Identity: &s.Identity} }
	waits := &Interaction{Step: StepLogin}
	none, account := oauth.Prompt{None: true}, oauth.Prompt{SelectAccount: true}
	for name, c := range map[string]struct {
		prompt oauth.Prompt
		s      *Session
		it     *Interaction
		want   Step
		err    error
	}{
		"the user":                               {oauth.Prompt{}, bob, nil, StepAnswered, nil},
		"another one":                            {oauth.Prompt{}, alice, nil, StepLogin, nil},
		"nobody":                                 {oauth.Prompt{}, nil, nil, StepLogin, nil},
		"the user, and nobody may be asked":      {none, bob, nil, StepAnswered, nil},
		"another one, and nobody may be asked":   {none, alice, nil, "", oauth.ErrLoginRequired},
		"another one, to be chosen":              {account, alice, nil, StepLogin, nil},
		"another one in another tab":             {oauth.Prompt{}, alice, waits, StepLogin, nil},
		"the user in another tab":                {oauth.Prompt{}, bob, waits, StepAnswered, nil},
		"the user has logged in":                 {oauth.Prompt{}, bob, of(bob), StepAnswered, nil},
		"another one has logged in all the same": {oauth.Prompt{}, alice, of(alice), "", oauth.ErrLoginRequired},
	} {
		r := Request{Client: &store.Client{Settings: store.Settings{FirstParty: true}}, At: at, BuiltIn: true}
		r.RedirectURI, r.Prompt, r.Subjects = redirectURI, c.prompt, []string{"bob"}
		if step, err := Next(r, c.s, nil, c.it); err != c.err || err == nil && step != c.want {
			t.Errorf("%s: step %q, %v; want %q, %v", name, step, err, c.want, c.err)
		}
	}
	weak, strong := user("bob"), user("bob")
	weak.Login, strong.Login = openid.Password, openid.PasswordAndOTP
	for name, c := range map[string]struct {
		prompt oauth.Prompt
		s      *Session
		it     *Interaction
		want   Step
		err    error
	}{
		"strong enough":                      {none, strong, nil, StepAnswered, nil},
		"too weak":                           {oauth.Prompt{}, weak, nil, StepLogin, nil},
		"too weak, and nobody may be asked":  {none, weak, nil, "", oauth.ErrLoginRequired},
		"unknown":                            {oauth.Prompt{}, bob, nil, StepLogin, nil},
		"strong enough after the login":      {oauth.Prompt{}, strong, of(strong), StepAnswered, nil},
		"too weak after the login":           {oauth.Prompt{}, weak, of(weak), "", oauth.ErrUnmet},
		"another user, and nobody signed in": {oauth.Prompt{}, nil, of(weak), "", ErrSignedOut},
	} {
		r := Request{Client: &store.Client{Settings: store.Settings{FirstParty: true}}, At: at, BuiltIn: true}
		r.RedirectURI, r.Prompt, r.Classes = redirectURI, c.prompt, []string{openid.Classes[1]}
		if step, err := Next(r, c.s, nil, c.it); err != c.err || err == nil && step != c.want {
			t.Errorf("%s: step %q, %v; want %q, %v", name, step, err, c.want, c.err)
		}
	}
}

// With serve --dev, a first-party client on this machine needs no consent: all programs on
// the machine belong to the developer.
func TestNextOnADevelopersMachine(t *testing.T) {
	alice := &Session{Identity: Identity{Subject: "alice", AuthTime: started}}
	ours, others := &store.Client{Settings: store.Settings{FirstParty: true, Native: true}}, &store.Client{Settings: store.Settings{Native: true}}
	for name, c := range map[string]struct {
		development bool
		client      *store.Client
		redirectURI string
		prompt      oauth.Prompt
		want        Step
	}{
		"our own":                    {true, ours, "http://127.0.0.1:5173/callback", oauth.Prompt{}, StepAnswered},
		"our own, by name":           {true, ours, "http://localhost:3000/callback", oauth.Prompt{None: true}, StepAnswered},
		"our own, and it wants it":   {true, ours, "http://127.0.0.1/callback", oauth.Prompt{Consent: true}, StepReadConsents},
		"a scheme that any app has":  {true, ours, "com.example.app:/callback", oauth.Prompt{}, StepReadConsents},
		"a client of others":         {true, others, "http://127.0.0.1/callback", oauth.Prompt{}, StepReadConsents},
		"not a developer's machine":  {false, ours, "http://127.0.0.1/callback", oauth.Prompt{}, StepReadConsents},
		"elsewhere, and not for dev": {false, ours, redirectURI, oauth.Prompt{}, StepAnswered},
	} {
		r := Request{Client: c.client, At: started, BuiltIn: true, Development: c.development}
		r.RedirectURI, r.Prompt = c.redirectURI, c.prompt
		if step, err := Next(r, alice, nil, nil); err != nil || step != c.want {
			t.Errorf("%s: step %q, %v; want %q", name, step, err, c.want)
		}
	}
}
