package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
)

// userPages are the pages about built-in users.
type userPages struct{ *Console }

// A usersPage lists built-in users.
type usersPage struct {
	Match, State string
	Users        []adminapi.User
	pager
	view
}

func (c userPages) users(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := usersPage{Match: strings.TrimSpace(q.Get("match")), State: q.Get("state"), view: r.view(r.mintage("user list"))}
	query, flags := filtered(q.Get("after"), p.Match, p.State)
	p.Command += flags
	err := c.get(ctx, r, &p, query, "users")
	p.pager = r.pages("/users", p.Next)
	return reply{page: p}, err
}

// A newUserPage is the form that creates a user.
type newUserPage struct {
	form
	Username, Name string
	Command        string
}

func (c userPages) newUser(_ context.Context, r *request) (reply, error) {
	return reply{page: newUserPage{form: newForm(), Command: r.mintage("user create", "NAME")}}, nil
}

// A passwordPage answers the POST that created a password. No other page shows the
// password.
type passwordPage struct {
	adminapi.NewPassword
	New     bool // the user was created with it
	Own     bool // it is the operator's, whose session has ended
	Command string
}

func (c userPages) createUser(ctx context.Context, r *request) (reply, error) {
	p := newUserPage{form: sentForm(r), Username: strings.TrimSpace(r.PostFormValue("username")), Name: strings.TrimSpace(r.PostFormValue("name")), Command: r.mintage("user create") + " "}
	if p.Name != "" {
		p.Command += "--name " + quoteValue(p.Name) + " "
	}
	if p.Command += quote(cmp.Or(p.Username, "NAME")); p.Shown {
		return reply{page: p}, nil
	}
	var made adminapi.NewPassword
	if again, err := p.refused(c.post(ctx, r, adminapi.UserDocument{Username: p.Username, Name: p.Name}, &made, "users")); again || err != nil {
		return reply{status: http.StatusUnprocessableEntity, page: p}, err
	}
	return reply{page: passwordPage{NewPassword: made, New: true, Command: p.Command}}, nil
}

// A userPage shows a built-in user.
type userPage struct {
	adminapi.User
	Once   string
	Invite string // the command that invites the user, if it is an operator
	view
}

func (c userPages) user(ctx context.Context, r *request) (reply, error) {
	p := userPage{Once: newForm().Once, view: r.view(r.mintage("user show", quote(r.PathValue("user"))))}
	err := c.get(ctx, r, &p.User, nil, "users", r.PathValue("user"))
	if p.holds(p.State); p.Done == "factor" && p.SecondFactor {
		p.Done = "" // another one is set up
	}
	p.Invite = "mintage console invite " + quote(p.Username)
	if did := map[string]string{"disabled": "disable", "enabled": "enable", "factor": "totp --remove"}[p.Done]; did != "" {
		p.Command = r.mintage("user "+did, quote(p.Username))
	}
	return reply{page: p}, err
}

// setPassword replaces a password by a generated one.
func (c userPages) setPassword(ctx context.Context, r *request) (reply, error) {
	name := r.PathValue("user")
	p := passwordPage{Command: r.mintage("user password") + " "}
	in := adminapi.PasswordRequest{EndGrants: r.PostFormValue("grants") != ""}
	if in.EndGrants {
		p.Command += "--end-grants "
	}
	p.Command += quote(name)
	err := c.post(ctx, r, in, &p.NewPassword, "users", name, "password")
	p.Own = c.Users != nil && !c.Dev && r.realm() == "" && r.who.Name == p.User.Username
	return reply{page: p}, err
}

func (c userPages) askDisableUser(ctx context.Context, r *request) (askPage, act, error) {
	var u adminapi.User
	if err := c.get(ctx, r, &u, nil, "users", r.PathValue("user")); err != nil {
		return askPage{}, nil, err
	}
	n, err := c.countGrants(ctx, r, u.Subject, "")
	p := askPage{question: disableUserQuestion, N: &n, Facts: userFacts(u), Back: "/users/" + url.PathEscape(u.Username), Command: r.mintage("user disable", quote(u.Username))}
	return p, func() (string, error) {
		return p.Back + "?done=disabled", c.post(ctx, r, nil, nil, "users", u.Username, "disable")
	}, err
}

func userFacts(u adminapi.User) []fact {
	return []fact{{Name: "Name", Value: u.Name}, {Name: "Username", Value: u.Username, Code: true}}
}

func (c userPages) enableUser(ctx context.Context, r *request) (to string, err error) {
	name := r.PathValue("user")
	return "/users/" + url.PathEscape(name) + "?done=enabled", c.post(ctx, r, nil, nil, "users", name, "enable")
}

func (c userPages) askResetFactor(ctx context.Context, r *request) (askPage, act, error) {
	var u adminapi.User
	err := c.get(ctx, r, &u, nil, "users", r.PathValue("user"))
	p := askPage{question: resetFactorQuestion, Fresh: true, Facts: userFacts(u), Back: "/users/" + url.PathEscape(u.Username), Command: r.mintage("user totp", "--remove", quote(u.Username))}
	return p, func() (string, error) {
		return p.Back + "?done=factor", c.remove(ctx, r, nil, "users", u.Username, "totp")
	}, err
}
