package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

// An overviewPage says what needs attention, and what there is.
type overviewPage struct {
	Realms    []adminapi.Realm
	Attention []attention
	Counts    []count
}

// An attention is something that an operator should look at.
type attention struct {
	Kind    string // a text of the template
	Name    string
	At      *time.Time
	Command string
}

// A count is how many there are of something; More: of which it was not counted further.
type count struct {
	Kind string
	N    int
	More bool
}

// soon is how long before an end the overview names it.
const soon = 30 * 24 * time.Hour

func (c *Console) overview(ctx context.Context, r *request) (reply, error) {
	var p overviewPage
	var realms adminapi.Realms
	if err := c.get(ctx, r, &realms, nil, "realms"); err != nil {
		return reply{}, err
	}
	p.Realms = realms.Realms
	var operators struct{ Operators []adminapi.Operator }
	if err := c.get(ctx, r, &operators, nil, "operators"); err != nil {
		return reply{}, err
	}
	admins := 0
	for _, o := range operators.Operators {
		if o.Role == "admin" {
			admins++
		}
		if o.SeenAt == nil {
			p.Attention = append(p.Attention, attention{"never", o.Name, o.CreatedAt, "mintage console invite " + quote(o.Name)})
		}
	}
	if admins < 2 && !c.Dev {
		p.Attention = append(p.Attention, attention{"alone", "", nil, "mintage operator add NAME --role admin"})
	}
	clients, err := c.secretsThatEnd(ctx, r, &p)
	if err != nil {
		return reply{}, err
	}
	var tokens struct {
		Tokens []adminapi.Token `json:"admin_tokens"`
	}
	if err := c.get(ctx, r, &tokens, nil, "admin-tokens"); err != nil {
		return reply{}, err
	}
	for _, t := range tokens.Tokens {
		if t.ExpiresAt != nil && t.ExpiresAt.Sub(c.Now()) < soon {
			p.Attention = append(p.Attention, attention{"token", t.Name, t.ExpiresAt, tokenCommand(t)})
		}
	}
	p.Counts = []count{clients, {Kind: "operators", N: len(operators.Operators)}, {Kind: "tokens", N: len(tokens.Tokens)}}
	return reply{page: p}, nil
}

// secretsThatEnd adds clients whose only secrets end soon, and counts the clients of the
// first page.
func (c *Console) secretsThatEnd(ctx context.Context, r *request, p *overviewPage) (count, error) {
	var answer struct {
		Clients []adminapi.Client
		Next    string
	}
	query := url.Values{"limit": {strconv.Itoa(adminapi.MaxPage)}, "state": {"enabled"}}
	if err := c.get(ctx, r, &answer, query, "clients"); err != nil {
		return count{}, err
	}
	for _, k := range answer.Clients {
		var last *time.Time
		for _, s := range k.Secrets {
			if s.ExpiresAt == nil {
				last = nil
				break
			}
			if last == nil || s.ExpiresAt.After(*last) {
				last = s.ExpiresAt
			}
		}
		if last != nil && last.Sub(c.Now()) < soon {
			p.Attention = append(p.Attention, attention{"secret", cmp.Or(k.Name, k.ID), last, "mintage client secret add " + quote(k.ID)})
		}
	}
	return count{Kind: "clients", N: len(answer.Clients), More: answer.Next != ""}, nil
}

// A keysPage shows the keys, those of one purpose together.
type keysPage struct{ Keys []adminapi.Key }

func (c *Console) keys(ctx context.Context, r *request) (reply, error) {
	var p keysPage
	err := c.get(ctx, r, &p, nil, "keys")
	slices.SortStableFunc(p.Keys, func(a, b adminapi.Key) int { return cmp.Compare(a.Purpose, b.Purpose) })
	return reply{page: p}, err
}

// An operatorsPage shows who can get in, and who is in.
type operatorsPage struct {
	Operators []adminapi.Operator
	Tokens    []adminapi.Token
	Sessions  []adminapi.ConsoleSession
	Admin     bool   // who looks can change something
	Present   string // session of who looks
	Ended     bool   // a session was ended
}

func (c *Console) operators(ctx context.Context, r *request) (reply, error) {
	p := operatorsPage{Admin: r.who.Role == "admin", Present: r.session.ID(), Ended: r.URL.Query().Has("ended")}
	var operators struct{ Operators []adminapi.Operator }
	if err := c.get(ctx, r, &operators, nil, "operators"); err != nil {
		return reply{}, err
	}
	var tokens struct {
		Tokens []adminapi.Token `json:"admin_tokens"`
	}
	if err := c.get(ctx, r, &tokens, nil, "admin-tokens"); err != nil {
		return reply{}, err
	}
	sessions, err := c.sessions(ctx, r)
	p.Operators, p.Tokens, p.Sessions = operators.Operators, tokens.Tokens, sessions
	return reply{page: p}, err
}

func (c *Console) sessions(ctx context.Context, r *request) ([]adminapi.ConsoleSession, error) {
	var answer struct{ Sessions []adminapi.ConsoleSession }
	err := c.get(ctx, r, &answer, nil, "console", "sessions")
	return answer.Sessions, err
}

func (c *Console) askEndSession(ctx context.Context, r *request) (askPage, act, error) {
	list, err := c.sessions(ctx, r)
	if err != nil {
		return askPage{}, nil, err
	}
	i := slices.IndexFunc(list, func(s adminapi.ConsoleSession) bool { return s.ID == r.PathValue("session") })
	if i < 0 {
		return askPage{}, nil, errNotFound
	}
	s := list[i]
	return askPage{question: sessionQuestion, Back: "/operators", Command: "mintage console session end " + s.ID,
			Facts: []fact{{Name: "Operator", Value: s.Operator}, {Name: "Address", Value: s.Address, Code: true}, {Name: "Began", At: s.BeganAt}}},
		func() (string, error) { return "/operators?ended", c.remove(ctx, r, "console", "sessions", s.ID) }, nil
}

// tokenCommand is the command that creates a token like t.
func tokenCommand(t adminapi.Token) string {
	command := "mintage admin token create NAME --role " + t.Role
	if t.Realm != "" {
		command += " --realm " + t.Realm
	}
	return command
}
