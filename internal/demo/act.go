package demo

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// A stage is how far the demo has come. It decides what the page offers next.
type stage string

const (
	atStart    stage = "start"
	atCode     stage = "code"     // to be redeemed
	atPair     stage = "pair"     // the first pair
	atRefresh  stage = "refresh"  // the pair of one refresh
	atRepeat   stage = "repeat"   // the same pair again
	atOlder    stage = "older"    // the pair of a second refresh: the first token is old now
	atReplay   stage = "replay"   // the old token was sent, and the grant has ended
	atMistaken stage = "mistaken" // an answer that the demo did not expect
)

// A responseFault is a problem with the response of the authorization endpoint.
type responseFault string

const (
	wrongError   responseFault = "error"
	wrongState   responseFault = "state"
	wrongNothing responseFault = "nothing"
)

// A page holds the data of a page of the demo.
type page struct {
	Base  string // path of the demo
	Stage stage
	User  string // who signs in

	Wrong       responseFault
	Detail      string
	Code, From  string     // of the authorization endpoint
	Sent        *message   // to the token endpoint
	Called      *message   // to the API
	Same        bool       // the repeated refresh has returned the same pair
	Access      *read      // what the tokens say
	Refresh     *read      //
	Claims      string     // of the id_token
	Tokens      hidden     // for the next step
	Explanation string     // of a refused token
	GrantID     string     //
	Steps       []progress //
}

// hidden holds the tokens in hidden fields of the forms, for the next step.
type hidden struct {
	Access, Refresh string // the present pair
	Spent, Old      string // the refresh token before it, and the one before that
}

// A message is a request and its answer.
type message struct {
	Method, Path string
	Fields       []field
	Status       int
	Challenge    string
	Body         string // for people
	body         []byte
}

// OK reports whether the request succeeded.
func (m *message) OK() bool { return m.Status == http.StatusOK }

// A field is a parameter of a request.
type field struct{ Name, value string }

// Shown returns the value, or the beginning of a long value.
func (f field) Shown() string {
	const shown = 28
	if len(f.value) > 2*shown && !strings.HasPrefix(f.value, "https://") {
		return f.value[:shown] + "…"
	}
	return f.value
}

// A read is a token with what it contains.
type read struct {
	Text string
	issuer.Token
	JWT bool
}

// A progress is a step of the demo, for the progress line at the top of the page.
type progress struct {
	Name    string
	Current bool
	Done    bool
}

var steps = []struct {
	name string
	at   []stage
}{
	{"Sign in", []stage{atStart}}, {"Code", []stage{atCode}}, {"Tokens", []stage{atPair}}, {"Refresh", []stage{atRefresh}},
	{"Repeat", []stage{atRepeat, atOlder}}, {"Replay", []stage{atReplay}},
}

// Progress returns the steps of the demo.
func (p page) Progress() (list []progress) {
	done := p.Stage != atMistaken
	for _, s := range steps {
		current := false
		for _, at := range s.at {
			current = current || at == p.Stage
		}
		if current {
			done = false
		}
		list = append(list, progress{Name: s.name, Current: current, Done: done})
	}
	return list
}

// act performs the action that a form of the demo requests.
func (d *Demo) act(ctx context.Context, r *server.Request) (server.Answer, error) {
	// Only pages of the demo send tokens here. Refuse another origin, "null", and a request
	// without an Origin.
	if r.Header.Get("Origin") != d.Site.PublicURL {
		return server.Answer{}, oauth.ErrNotFound
	}
	body, err := r.FormBody()
	if err != nil {
		return server.Answer{}, err
	}
	form, err := url.ParseQuery(body)
	if err != nil {
		return server.Answer{}, oauth.ErrMalformedBody
	}
	if err := r.Early(); err != nil {
		return server.Answer{}, err
	}
	p := page{Stage: stage(form.Get("stage")), User: d.Client().Username,
		Tokens: hidden{Access: form.Get("access"), Refresh: form.Get("refresh"), Spent: form.Get("spent"), Old: form.Get("old")}}
	if form.Get("do") == "call" {
		if p.Called, err = d.send(r, http.MethodGet, apiPath, "Bearer "+p.Tokens.Access, nil); err != nil {
			return server.Answer{}, err
		}
		return d.render(p)
	}
	if err := d.exchange(ctx, r, &p, form); err != nil {
		return server.Answer{}, err
	}
	return d.render(p)
}

// exchange sends a request to the token endpoint, and sets the next stage.
func (d *Demo) exchange(ctx context.Context, r *server.Request, p *page, form url.Values) (err error) {
	token := ""
	send := func(form ...field) error {
		p.Sent, err = d.send(r, http.MethodPost, "/oauth2/access_token?realm="+oauth.DefaultRealm, d.basic(), form)
		return err
	}
	refresh := func(text string) error {
		token = text
		return send(field{"grant_type", "refresh_token"}, field{"refresh_token", text})
	}
	before := p.Tokens
	switch form.Get("do") {
	case "redeem":
		_, verifier := begun(r.Request)
		token = form.Get("code")
		err = send(field{"grant_type", "authorization_code"}, field{"code", token}, field{"redirect_uri", d.Callback()}, field{"code_verifier", verifier})
		p.Stage = atPair
	case "refresh":
		err = refresh(before.Refresh)
		p.Stage = atRefresh
		if before.Spent != "" {
			p.Stage = atOlder
		}
		p.Tokens.Spent, p.Tokens.Old = before.Refresh, before.Spent
	case "repeat":
		err = refresh(before.Spent)
		p.Stage = atRepeat
	case "replay":
		err = refresh(before.Old)
		p.Stage = atReplay
	default:
		return oauth.ErrNotFound
	}
	if err != nil {
		return err
	}
	if !p.Sent.OK() {
		if p.Stage != atReplay {
			p.Stage = atMistaken
		}
		var text strings.Builder
		if err := d.Explain(ctx, &text, token); err != nil {
			return err
		}
		p.Explanation = text.String()
		return nil
	}
	return d.take(p, before)
}

// take reads the token pair of a response.
func (d *Demo) take(p *page, before hidden) error {
	var pair struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		ID      string `json:"id_token"`
	}
	if err := json.Unmarshal(p.Sent.body, &pair); err != nil {
		return err
	}
	p.Same = pair.Refresh == before.Refresh && pair.Access == before.Access
	p.Tokens.Access, p.Tokens.Refresh = pair.Access, pair.Refresh
	view, err := d.Directory.View()
	if err != nil {
		return err
	}
	for _, t := range []struct {
		text string
		to   **read
	}{{pair.Access, &p.Access}, {pair.Refresh, &p.Refresh}} {
		says, err := d.Issuer.Read(view, t.text)
		if err != nil {
			return err
		}
		*t.to = &read{Text: t.text, Token: says, JWT: says.Form == issuer.JWT}
	}
	p.Claims = claimsOf(pair.ID)
	return nil
}

// claimsOf returns the claims of an id_token as indented JSON. It does not verify the
// signature, because the token comes directly from this server.
func claimsOf(idToken string) string {
	parts := strings.Split(idToken, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims map[string]any
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	pretty, err := json.MarshalIndent(claims, "", "  ")
	if err != nil {
		return ""
	}
	return string(pretty)
}
