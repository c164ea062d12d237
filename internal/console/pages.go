package console

import (
	"context"
	"slices"

	"github.com/mintage/mintage/internal/adminapi"
)

// A realmsPage lists the realms.
type realmsPage struct {
	Realms  []adminapi.Realm
	Command string
}

func (c overviewPages) realms(ctx context.Context, r *request) (reply, error) {
	p := realmsPage{Command: "mintage realm list"}
	err := c.get(ctx, r, &p, nil, "realms")
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
	BuiltIn   bool   // operators are built-in users
}

func (c *Console) operators(ctx context.Context, r *request) (reply, error) {
	p := operatorsPage{Admin: r.who.Role == "admin", Present: r.session.ID(), Ended: r.URL.Query().Has("ended"), BuiltIn: c.Users != nil && !c.Dev}
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
		func() (string, error) { return "/operators?ended", c.remove(ctx, r, nil, "console", "sessions", s.ID) }, nil
}
