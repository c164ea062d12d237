package console

import (
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
	Admin   bool
	Command string
}

func (c userPages) users(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := usersPage{Match: strings.TrimSpace(q.Get("match")), State: q.Get("state"), Admin: r.admin(), Command: "mintage user list"}
	query, flags := filtered(q.Get("after"), p.Match, p.State)
	p.Command += flags
	var answer struct {
		Users []adminapi.User
		Next  string
	}
	err := c.get(ctx, r, &answer, query, "users")
	p.Users, p.pager = answer.Users, r.pages("/users", answer.Next)
	return reply{page: p}, err
}

// A newUserPage asks for what a user needs.
type newUserPage struct {
	form
	Username, Name string
	Command        string
}

func (c userPages) newUser(context.Context, *request) (reply, error) {
	return reply{page: newUserPage{form: newForm(), Command: "mintage user create NAME"}}, nil
}

// A passwordPage is the answer to the POST that made a password, and the only one that has
// it.
type passwordPage struct {
	adminapi.NewPassword
	New     bool // the user is
	Command string
}

func (c userPages) createUser(ctx context.Context, r *request) (reply, error) {
	p := newUserPage{form: newForm(), Username: strings.TrimSpace(r.PostFormValue("username")), Name: strings.TrimSpace(r.PostFormValue("name")), Command: "mintage user create "}
	if p.Name != "" {
		p.Command += "--name " + quoteValue(p.Name) + " "
	}
	p.Command += quote(p.Username)
	if again, err := c.once(ctx, r, "/users"); again != nil || err != nil {
		return orError(again, err)
	}
	var made adminapi.NewPassword
	if err := c.post(ctx, r, adminapi.UserDocument{Username: p.Username, Name: p.Name}, &made, "users"); p.refused(err) {
		return reply{status: http.StatusUnprocessableEntity, page: p}, nil
	} else if err != nil {
		return reply{}, err
	}
	return reply{page: passwordPage{made, true, p.Command}}, nil
}

// A userPage shows a built-in user.
type userPage struct {
	adminapi.User
	Admin   bool
	Done    string
	Once    string
	Command string
}

func (c userPages) user(ctx context.Context, r *request) (reply, error) {
	p := userPage{Admin: r.admin(), Done: r.URL.Query().Get("done"), Once: newForm().Once, Command: "mintage user show " + quote(r.PathValue("user"))}
	err := c.get(ctx, r, &p.User, nil, "users", r.PathValue("user"))
	return reply{page: p}, err
}

// setPassword replaces a password by a generated one.
func (c userPages) setPassword(ctx context.Context, r *request) (reply, error) {
	name := r.PathValue("user")
	if again, err := c.once(ctx, r, "/users/"+url.PathEscape(name)); again != nil || err != nil {
		return orError(again, err)
	}
	p := passwordPage{Command: "mintage user password "}
	in := adminapi.PasswordRequest{EndGrants: r.PostFormValue("grants") != ""}
	if in.EndGrants {
		p.Command += "--end-grants "
	}
	p.Command += quote(name)
	err := c.post(ctx, r, in, &p.NewPassword, "users", name, "password")
	return reply{page: p}, err
}

// A disableUserPage asks whether a user is to be disabled.
type disableUserPage struct {
	adminapi.User
	N       count
	More    bool // there are more than when it was asked
	Command string
}

func (c userPages) disableQuestion(ctx context.Context, r *request) (p disableUserPage, err error) {
	p.Command = "mintage user disable " + quote(r.PathValue("user"))
	if err := c.get(ctx, r, &p.User, nil, "users", r.PathValue("user")); err != nil {
		return p, err
	}
	p.N, err = c.countGrants(ctx, r, p.Subject, "")
	return p, err
}

func (c userPages) askDisableUser(ctx context.Context, r *request) (reply, error) {
	p, err := c.disableQuestion(ctx, r)
	return reply{page: p}, err
}

func (c userPages) disableUser(ctx context.Context, r *request) (reply, error) {
	p, err := c.disableQuestion(ctx, r)
	if err != nil {
		return reply{}, err
	}
	if p.More = p.N.grew(r.PostFormValue("counted")); p.More {
		return reply{status: http.StatusConflict, page: p}, nil
	}
	err = c.post(ctx, r, nil, nil, "users", p.Username, "disable")
	return reply{to: "/users/" + url.PathEscape(p.Username) + "?done=disabled"}, err
}

func (c userPages) enableUser(ctx context.Context, r *request) (reply, error) {
	name := r.PathValue("user")
	err := c.post(ctx, r, nil, nil, "users", name, "enable")
	return reply{to: "/users/" + url.PathEscape(name) + "?done=enabled"}, err
}

// A resetFactorPage asks whether a second factor is to be removed.
type resetFactorPage struct {
	adminapi.User
	Command string
}

func (c userPages) askResetFactor(ctx context.Context, r *request) (reply, error) {
	p := resetFactorPage{Command: "mintage user totp --remove " + quote(r.PathValue("user"))}
	err := c.get(ctx, r, &p.User, nil, "users", r.PathValue("user"))
	return reply{page: p}, err
}

// A stalePage asks for a new sign-in.
type stalePage struct{}

// resetFactor removes a second factor. Whoever finds an open browser cannot.
func (c userPages) resetFactor(ctx context.Context, r *request) (reply, error) {
	if !r.session.Fresh(c.now()) && r.admin() {
		return reply{status: http.StatusForbidden, page: stalePage{}}, nil
	}
	name := r.PathValue("user")
	err := c.remove(ctx, r, "users", name, "totp")
	return reply{to: "/users/" + url.PathEscape(name) + "?done=factor"}, err
}
