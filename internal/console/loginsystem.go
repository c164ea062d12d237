package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
)

// Claims returns the claims that the rules name, except for the subject.
func (e *LoginSystem) Claims() (names []string) {
	for _, r := range e.Rules {
		if r.Claim != "sub" && !slices.Contains(names, r.Claim) {
			names = append(names, r.Claim)
		}
	}
	return names
}

// Ticket returns the document of a ticket for a login, and the address to which the
// browser takes it. console is the URL of the console; each of the claims is a JSON object
// or "".
func (e *LoginSystem) Ticket(console string, t operator.Ticket, now grant.Instant, claims ...string) (d store.Document, address string, err error) {
	all := map[string]json.RawMessage{}
	for _, object := range claims {
		if err := json.Unmarshal([]byte(object), &all); object != "" && err != nil {
			return d, "", err
		}
	}
	if all["sub"], err = json.Marshal(t.Subject); err != nil {
		return d, "", err
	}
	if i := slices.IndexFunc(e.Rules, func(r config.OperatorRule) bool { return r.Fits(all) }); i >= 0 {
		t.Rule = e.Rules[i].String()
	}
	text, d, err := t.Document(now)
	return d, console + "/signed-in?ticket=" + text, err
}

// verifierName returns the name of the cookie that holds the verifier of a sign-in (see
// leave).
func (c *Console) verifierName() string { return c.cookieName() + "_login" }

// leave redirects a browser to the login system. A cookie holds the verifier of the
// challenge, so that the ticket of the login is invalid in another browser (CWE-352).
func (c entrance) leave(context.Context, *request) (reply, error) {
	if c.LoginSystem == nil {
		return reply{}, errNotFound
	}
	verifier := operator.NewVerifier()
	cookie := c.cookie(verifier)
	cookie.Name = c.verifierName()
	return reply{to: c.LoginSystem.URL + "?code_challenge=" + oauth.ChallengeOf(verifier), cookie: cookie}, nil
}

// An arrivedPage opens the next page at once. Browsers send a SameSite=Strict cookie with
// a request from this page, but not with the redirect from the login system.
type arrivedPage struct{ To string }

func (c entrance) arrived(_ context.Context, r *request) (reply, error) {
	to := "/signed-in/" + url.PathEscape(r.URL.Query().Get("ticket"))
	return reply{page: arrivedPage{to}, refresh: to}, nil
}

// A refusedPage says why a login elsewhere does not open the console.
type refusedPage struct {
	Why      string // ticket, operator, factor or other
	Subject  string
	ACR, AMR []string // any of these suffices
	Present  string   // who is signed in in this browser
}

// enter begins a session for an operator who has signed in elsewhere.
func (c entrance) enter(ctx context.Context, r *request) (reply, error) {
	if c.LoginSystem == nil {
		return reply{}, errNotFound
	}
	t, err := operator.SpendTicket(ctx, c.Store, r.PathValue("ticket"), c.now())
	if errors.Is(err, operator.ErrNoTicket) {
		return reply{status: http.StatusGone, page: refusedPage{Why: "ticket"}}, nil
	}
	if err != nil {
		return reply{}, err
	}
	refused := func(why, detail string) (reply, error) {
		c.record(r, audit.LoginFailed, t.Subject, "console: "+detail)
		p := refusedPage{Why: why, Subject: t.Subject, ACR: c.LoginSystem.ACR, AMR: c.LoginSystem.AMR}
		if r.who != nil {
			p.Present = r.who.Name
		}
		return reply{status: http.StatusForbidden, page: p}, nil
	}
	challenge, _ := oauth.ParseChallenge(t.Challenge)
	if list := r.CookiesNamed(c.verifierName()); len(list) != 1 || !oauth.VerifyS256(list[0].Value, challenge) {
		return refused("ticket", "the login began in another browser")
	}
	_, byRule, err := c.operatorOf(ctx, t.Subject, t.Rule)
	switch strong := slices.Contains(c.LoginSystem.ACR, t.ACR) || slices.ContainsFunc(t.AMR, func(m string) bool { return slices.Contains(c.LoginSystem.AMR, m) }); {
	case errors.Is(err, operator.ErrUnknown):
		return refused("operator", "no operator")
	case err != nil:
		return reply{}, err
	case !strong:
		return refused("factor", "no second factor: acr "+t.ACR+", amr "+strings.Join(t.AMR, " "))
	case r.who != nil && r.who.Name != t.Subject:
		return refused("other", r.who.Name+" is signed in in this browser")
	}
	s := operator.Session{Operator: t.Subject, How: operator.ByLogin, At: c.LoginSystem.At}
	if byRule {
		s.Rule = t.Rule
	}
	return c.begin(ctx, r, s)
}
