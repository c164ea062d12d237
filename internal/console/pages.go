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

func (c *Console) operators(ctx context.Context, r *request) (reply, error) {
	p := operatorsPage{Admin: r.who.Role == "admin", Present: r.session.ID(), Ended: r.URL.Query().Has("ended"), BuiltIn: c.Users != nil && !c.Dev}
	for _, path := range [][]string{{"operators"}, {"admin-tokens"}, {"console", "sessions"}} {
		if err := c.get(ctx, r, &p, nil, path...); err != nil {
			return reply{}, err
		}
	}
	return reply{page: p}, nil
}

func (c *Console) askEndSession(ctx context.Context, r *request) (askPage, act, error) {
	var answer struct{ Sessions []adminapi.ConsoleSession }
	if err := c.get(ctx, r, &answer, nil, "console", "sessions"); err != nil {
		return askPage{}, nil, err
	}
	i := slices.IndexFunc(answer.Sessions, func(s adminapi.ConsoleSession) bool { return s.ID == r.PathValue("session") })
	if i < 0 {
		return askPage{}, nil, errNotFound
	}
	s := answer.Sessions[i]
	return askPage{question: sessionQuestion, Back: "/operators", Command: "mintage console session end " + s.ID,
			Facts: []fact{{Name: "Operator", Value: s.Operator}, {Name: "Address", Value: s.Address, Code: true}, {Name: "Began", At: s.BeganAt}}},
		func() (string, error) { return "/operators?ended", c.remove(ctx, r, nil, "console", "sessions", s.ID) }, nil
}
