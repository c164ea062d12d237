package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// consoleSessionKind is the Error.Kind of a session of the console.
const consoleSessionKind = "console session"

// Console has the use cases of operators, invitations and sessions of the console.
type Console struct{ *Admin }

// Console returns the use cases of the console.
func (a *Admin) Console() Console { return Console{a} }

// Operators returns the operators of the console, sorted by name, and then those who are
// signed in by a rule of the configuration (console.operators), from their sessions.
func (a Console) Operators(ctx context.Context) ([]adminapi.Operator, error) {
	list, err := operator.List(ctx, a.whole())
	views := []adminapi.Operator{}
	for _, o := range list {
		views = append(views, viewOperator(o))
	}
	if err != nil {
		return views, err
	}
	sessions, err := operator.Sessions(ctx, a.whole(), a.now())
	for _, s := range sessions {
		named := func(o adminapi.Operator) bool { return o.Name == s.Operator }
		if r, bad := config.ParseOperatorRule(s.Rule); bad == nil && !slices.ContainsFunc(views, named) {
			views = append(views, adminapi.Operator{Name: s.Operator, Role: r.Role, Realm: r.Realm, CreatedBy: "console.operators: " + s.Rule, CreatedAt: show.JSONInstant(s.BeganAt), SeenAt: show.JSONInstant(s.BeganAt)})
		}
	}
	return views, err
}

func viewOperator(o operator.Operator) adminapi.Operator {
	return adminapi.Operator{Name: o.Name, Role: o.Role, Realm: strings.TrimPrefix(o.Realm, "/"), CreatedBy: o.CreatedBy, CreatedAt: show.JSONInstant(o.CreatedAt), SeenAt: show.JSONInstant(o.SeenAt)}
}

// AddOperator adds an operator of the console. The caller has checked that the realm of r
// exists.
func (a Console) AddOperator(ctx context.Context, r adminapi.OperatorRequest) (adminapi.Operator, error) {
	o := operator.Operator{Name: operator.Fold(r.Name), Role: r.Role, Realm: realmOf(r.Realm), CreatedBy: show.Bounded(a.Actor.String()), CreatedAt: a.now()}
	switch {
	case !operator.ValidName(o.Name):
		return adminapi.Operator{}, &oauth.Invalid{Field: "name", Message: "is 1 to 64 letters, digits and . _ @ + -, the first a letter or a digit"}
	case o.Role != operator.Auditor && o.Role != operator.Admin:
		return adminapi.Operator{}, &oauth.Invalid{Field: "role", Message: fmt.Sprintf("%q is neither auditor nor admin", r.Role)}
	}
	if err := a.signsIn(ctx, "name", o.Name); err != nil {
		return adminapi.Operator{}, err
	}
	return viewOperator(o), operatorError(o.Name, operator.Add(ctx, a.whole(), o))
}

// signsIn returns an oauth.Invalid about a field if an operator with a name could not sign
// in: if OperatorRealm is set, an enabled built-in user of that name must exist.
func (a Console) signsIn(ctx context.Context, field, name string) error {
	if a.OperatorRealm == "" {
		return nil
	}
	u, err := account.Find(ctx, a.whole(), a.OperatorRealm, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &oauth.Invalid{Field: field, Message: fmt.Sprintf("there is no user %q: create one first (mintage user create %s)", name, name)}
	case err == nil && u.State != account.Enabled:
		return &oauth.Invalid{Field: field, Message: fmt.Sprintf("user %q is disabled: enable it first (mintage user enable %s)", name, name)}
	}
	return err
}

// keepsAdmin returns an error if u, who is to be disabled, is the last admin who can sign
// in. The caller commits the returned documents with the change, so that two concurrent
// changes conflict: each has read that the other admin can still sign in (write skew).
func (a Console) keepsAdmin(ctx context.Context, u account.User) ([]store.Document, error) {
	if u.Realm != a.OperatorRealm || u.State != account.Enabled {
		return nil, nil
	}
	list, held, err := operator.Hold(ctx, a.whole())
	if err != nil || !slices.ContainsFunc(list, func(o operator.Operator) bool { return o.Name == u.Username }) {
		return nil, err
	}
	absent, err := a.absent(ctx, list)
	if err == nil && operator.Last(list, u.Username, absent) {
		err = operatorError(u.Username, operator.ErrLastAdmin)
	}
	return held, err
}

// absent returns the names of the operators of a list who cannot sign in.
func (a Console) absent(ctx context.Context, list []operator.Operator) (names []string, err error) {
	for _, o := range list {
		var invalid *oauth.Invalid
		switch err := a.signsIn(ctx, "", o.Name); {
		case errors.As(err, &invalid):
			names = append(names, o.Name)
		case err != nil:
			return nil, err
		}
	}
	return names, nil
}

// RemoveOperator removes an operator of the console, and ends the sessions.
func (a Console) RemoveOperator(ctx context.Context, name string) error {
	name = operator.Fold(name)
	absent := func(list []operator.Operator) ([]string, error) { return a.absent(ctx, list) }
	if err := operator.Remove(ctx, a.whole(), name, a.Actor.String(), a.now(), absent); err != nil {
		return operatorError(name, err)
	}
	_, err := operator.EndByID(ctx, a.whole(), name, "", a.Actor.String(), a.now())
	return err
}

// InviteOperator makes an invitation, and returns the text that its link ends with.
func (a Console) InviteOperator(ctx context.Context, r adminapi.InvitationRequest) (v adminapi.NewInvitation, text string, err error) {
	name := operator.Fold(r.Operator)
	if _, err := operator.Find(ctx, a.whole(), name); err != nil {
		return v, "", operatorError(name, err)
	}
	if err := a.signsIn(ctx, "operator", name); err != nil {
		return v, "", err
	}
	text, expires, err := operator.Invite(ctx, a.whole(), name, a.Actor.String(), a.now())
	return adminapi.NewInvitation{Operator: name, ExpiresAt: show.JSONInstant(expires)}, text, operatorError(name, err)
}

// ConsoleSessions returns the sessions of the console, the latest first.
func (a Console) ConsoleSessions(ctx context.Context) ([]adminapi.ConsoleSession, error) {
	list, err := operator.Sessions(ctx, a.whole(), a.now())
	views := []adminapi.ConsoleSession{}
	for _, s := range list {
		views = append(views, adminapi.ConsoleSession{ID: s.ID(), Operator: s.Operator, How: s.How, Address: s.Address,
			BeganAt: show.JSONInstant(s.BeganAt), UsedAt: show.JSONInstant(s.UsedAt), EndsAt: show.JSONInstant(s.EndsAt())})
	}
	return views, err
}

// EndConsoleSession ends a session of the console.
func (a Console) EndConsoleSession(ctx context.Context, id string) error {
	_, err := operator.EndByID(ctx, a.whole(), "", id, a.Actor.String(), a.now())
	if errors.Is(err, operator.ErrNoSession) {
		err = &Error{NotFound, consoleSessionKind, id, fmt.Sprintf("there is no console session %q", show.Bounded(id))}
	}
	return err
}

// operatorError turns an error of package operator into an Error or an oauth.Invalid.
func operatorError(name string, err error) error {
	code, message := Conflict, ""
	switch {
	case errors.Is(err, operator.ErrUnknown):
		code, message = NotFound, fmt.Sprintf("there is no operator %q", show.Bounded(name))
	case errors.Is(err, operator.ErrTaken):
		code, message = Taken, fmt.Sprintf("there is an operator %q already", name)
	case errors.Is(err, operator.ErrLastAdmin):
		code, message = InUse, fmt.Sprintf("operator %q is the last admin", name)
	case errors.Is(err, operator.ErrFull):
		return &oauth.Invalid{Field: "name", Message: err.Error()}
	default:
		return err
	}
	return &Error{code, operatorKind, name, message}
}
