package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	// maxChanges limits the changes that run at once, because hashing a password or an
	// imported secret takes 19 MiB.
	maxChanges = 4

	defaultPage = 100 // items, unless limit says otherwise
)

// as returns the use cases for an actor, who is named in events.
func (a *API) as(actor admin.Actor) *admin.Admin {
	cases := a.cases
	cases.Actor = actor
	return &cases
}

type (
	actorKey struct{}
	causeKey struct{}
)

// WithActor returns a context with the actor of requests that need no token: the operating
// system names the caller of a socket, or the caller is this process.
func WithActor(ctx context.Context, actor admin.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// WithCause returns the context of a request within this process, whose caller
// receives the cause of a problem.
func WithCause(ctx context.Context, cause *error) context.Context {
	return context.WithValue(ctx, causeKey{}, cause)
}

// isCommand reports whether a request comes from the command line.
func (x *call) isCommand() bool { return strings.HasPrefix(x.UserAgent(), adminapi.Agent) }

// An action calls a use case, and returns the body of the answer.
type action func(x *call, u *admin.Admin) (any, error)

// A handler returns the status and the body of a success, or an error.
type handler func(x *call) (int, any, error)

// do returns a handler that runs an action. A success has the status, and the query may
// have the parameters params.
func (a *API) do(status int, act action, params ...string) handler {
	return func(x *call) (int, any, error) {
		if err := x.readQuery(params); err != nil {
			return 0, nil, err
		}
		if x.changes {
			slots := a.slots(Route{Path: x.path})
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-x.Context().Done():
				return 0, nil, &store.ExternalFault{Cause: fmt.Errorf("wait for another change: %w", x.Context().Err())}
			}
		}
		u := a.as(x.actor)
		var err error
		if u.DryRun, err = x.option("dry_run"); err != nil {
			return 0, nil, err
		}
		body, err := act(x, u)
		if t, ok := body.(tagged); ok && t.location != "" {
			if len(a.realms) > 0 && a.Realm.Name != a.realms[0].Name { // the same id may exist in the default realm
				t.location = realmsPath + "/" + a.Realm.Name + strings.TrimPrefix(t.location, "/admin/v1")
			}
			return http.StatusCreated, t, err
		}
		return status, body, err
	}
}

// slots returns the concurrency slots of the changes of a route. Changes that would conflict
// have one slot: those of APIs and trusts, each of which requires an unchanged directory,
// and those of lists that are one document.
func (a *API) slots(rt Route) chan struct{} {
	switch {
	case rt.about("apis", "trusts"):
		return a.rows
	case rt.about("admin-tokens", "operators", "console"):
		return a.lists
	}
	return a.changes
}

// direct returns a handler that runs an action which calls no use case. It needs no slot of
// changes, and the query has no parameters.
func direct(status int, act action) handler {
	return func(x *call) (int, any, error) {
		if err := x.readQuery(nil); err != nil {
			return 0, nil, err
		}
		body, err := act(x, nil)
		return status, body, err
	}
}

// with returns an action that decodes the body and passes it to act.
func with[In any](act func(x *call, u *admin.Admin, in In) (any, error)) action {
	return func(x *call, u *admin.Admin) (any, error) {
		var in In
		if p := x.read(&in); p != nil {
			return nil, p
		}
		return act(x, u, in)
	}
}

// may is with for a body that is optional: act receives the zero In in its place.
func may[In any](act func(x *call, u *admin.Admin, in In) (any, error)) action {
	return func(x *call, u *admin.Admin) (any, error) {
		if len(x.text) == 0 {
			return act(x, u, *new(In))
		}
		return with(act)(x, u)
	}
}

// bare returns an action that accepts no body, or an empty object.
func bare(act action) action {
	return may(func(x *call, u *admin.Admin, _ struct{}) (any, error) { return act(x, u) })
}

// readQuery reads the query, which may have the named parameters, each once.
func (x *call) readQuery(names []string) (err error) {
	if x.params, err = url.ParseQuery(x.URL.RawQuery); err != nil {
		return &oauth.Invalid{Message: "malformed query"}
	}
	for name, values := range x.params {
		if !slices.Contains(names, name) || len(values) > 1 {
			return &oauth.Invalid{Field: name, Message: "is not a parameter of this resource, or occurs twice", Unknown: true}
		}
	}
	return nil
}

// option reads a parameter that is true or false.
func (x *call) option(name string) (bool, error) {
	text := x.params.Get(name)
	if x.params.Has(name) && text != "true" && text != "false" {
		return false, &oauth.Invalid{Field: name, Message: "is neither true nor false"}
	}
	return text == "true", nil
}

// page reads the parameters of a list.
func (x *call) page() (adminapi.Page, error) {
	p := adminapi.Page{Match: x.params.Get("match"), State: x.params.Get("state"), After: x.params.Get("after"), Limit: defaultPage}
	if text := x.params.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > adminapi.MaxPage {
			return p, &oauth.Invalid{Field: "limit", Message: "is not 1 to " + strconv.Itoa(adminapi.MaxPage)}
		}
		p.Limit = n
	}
	return p, nil
}

// A list is a page of items, and the name of the JSON member that contains them.
type list struct {
	name  string
	items any
	next  string // the value of after for the next page; "" on the last one
}

// all returns an action that lists everything that a use case reads, under a name.
func all[U, V any](name string, of func(*admin.Admin) U, read func(U, context.Context) ([]V, error)) action {
	return func(x *call, u *admin.Admin) (any, error) {
		items, err := read(of(u), x.Context())
		return list{name: name, items: items}, err
	}
}

// named returns an action that passes the name in the path to act.
func named[U any](of func(*admin.Admin) U, act func(U, context.Context, string) error) action {
	return func(x *call, u *admin.Admin) (any, error) { return nil, act(of(u), x.Context(), x.names[0]) }
}

// shown returns an action that reads the resource named in the path, and views it.
func shown[U, T any](of func(*admin.Admin) U, read func(U, context.Context, string) (T, error), view func(T, error) (any, error)) action {
	return func(x *call, u *admin.Admin) (any, error) { return view(read(of(u), x.Context(), x.names[0])) }
}

// changed returns an action that changes the resource named in the path, unless the
// request's If-Match names another entity tag, and views the result.
func changed[U, T any](of func(*admin.Admin) U, act func(U, context.Context, string, string) (T, error), view func(T, error) (any, error)) action {
	return func(x *call, u *admin.Admin) (any, error) {
		return view(act(of(u), x.Context(), x.names[0], x.ifMatch()))
	}
}

// gone is the view of a removed resource: the answer has no body.
func gone[T any](_ T, err error) (any, error) { return nil, err }

// pageOf returns the page of a list that the request asks for.
func pageOf[T, V any](x *call, name string, read func(adminapi.Page) ([]T, bool, error), key func(T) string, view func(T) V) (any, error) {
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	page, more, err := read(p)
	if err != nil {
		return nil, err
	}
	l, items := list{name: name}, []V{}
	for _, item := range page {
		items = append(items, view(item))
	}
	if more {
		l.next = key(page[len(page)-1])
	}
	l.items = items
	return l, nil
}

// MarshalJSON writes an object with the items and, if there is one, the next page.
func (l list) MarshalJSON() ([]byte, error) {
	items, err := json.Marshal(l.items)
	text := fmt.Appendf(nil, "{%q:%s", l.name, items)
	if l.next != "" {
		next, _ := json.Marshal(l.next)
		text = fmt.Appendf(text, `,"next":%s`, next)
	}
	return append(text, '}'), err
}

// A tagged body has the ETag of the resource that it shows.
type tagged struct {
	body     any
	etag     string
	location string // of a new resource; otherwise ""
}

// ifMatch returns the entity tag that the resource must still have (RFC 9110
// section 13.1.1); "" if it may have any. A text that is no strong tag matches nothing.
func (x *call) ifMatch() string {
	return strings.Trim(strings.TrimSpace(strings.Join(x.Header.Values("If-Match"), ",")), `"`)
}

// condition returns an error if the request's If-Match is empty, or if the change would
// ignore it.
func (x *call) condition(rt Route) error {
	switch {
	case !x.changes || x.Header.Values("If-Match") == nil:
		return nil
	case x.ifMatch() == "": // the caller has lost the tag, and does not mean every tag
		return &oauth.Invalid{Field: "If-Match", Message: "is empty: send the ETag of an earlier answer, or leave the header out"}
	case !rt.tagged():
		return &oauth.Invalid{Field: "If-Match", Message: "is ignored by this change, because what it changes has no ETag: leave the header out"}
	}
	return nil
}

// tagged reports whether the route is about one resource that has an ETag.
func (rt Route) tagged() bool {
	return rt.about("clients", "apis", "trusts", "users") && strings.Contains(rt.Path, "{") && !strings.Contains(rt.Path, "/secrets")
}

// problem returns the problem of an error of a use case.
func (x *call) problem(err error) *Problem {
	var own *Problem
	var failed *admin.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &failed):
		return x.failure(failed)
	}
	p := problem(err)
	// The use cases name settings by their flags.
	if i := slices.IndexFunc(client.Settings, func(s client.Setting) bool { return s.Flag == p.Field }); i >= 0 {
		p.Field = client.Settings[i].Member
	}
	switch {
	case strings.HasPrefix(p.Field, "secret"):
		p.Field = "client_secret"
	case p.Field == "key" || p.Field == "purpose":
		p.Field += "s"
	}
	return p
}

// failures are the titles and statuses of the errors of use cases. The types are made of
// the codes, and do not change.
var failures = map[admin.Code]struct {
	title  string
	status int
}{
	admin.NotFound: {"no such %s", http.StatusNotFound},
	admin.Deleted:  {"no such %s", http.StatusNotFound},
	admin.Taken:    {"the %s is taken", http.StatusConflict},
	admin.Changed:  {"the %s has changed", http.StatusConflict},
	admin.Full:     {"the %s cannot have another secret", http.StatusConflict},
	admin.InUse:    {"the %s is in use", http.StatusConflict},
	admin.Conflict: {"the %s is in use elsewhere", http.StatusConflict},
}

func (x *call) failure(e *admin.Error) *Problem {
	code, kind := e.Code, e.Kind
	conditional := x.Header.Get("If-Match") != ""
	if conditional && code == admin.NotFound {
		code = admin.Changed
	}
	f := failures[code]
	if code == admin.Deleted && x.Method == http.MethodPut {
		f = failures[admin.Taken]
	}
	if f == failures[admin.Taken] {
		kind = cmp.Or(map[string]string{"client": "client id", "user": "username", "api": "API's id", "admin token": "name", "operator": "name"}[kind], kind)
	}
	if conditional && code == admin.Changed {
		f.status = http.StatusPreconditionFailed
	}
	return &Problem{Problem: adminapi.Problem{
		Type:  "urn:mintage:problem:" + strings.ReplaceAll(string(code), " ", "-"),
		Title: fmt.Sprintf(f.title, kind), Status: f.status, Detail: e.Message, Advice: e.Advice(),
	}}
}

// A call is one request, and what is known of it for the log.
type call struct {
	*http.Request
	id    string
	actor admin.Actor // the zero value: nobody
	path  string      // the path of the route, because a name in it may be a secret

	names   []string   // the parts of the path that braces in the route's path match
	changes bool       // the route changes something
	params  url.Values // of the query
	log     *slog.Logger
	w       http.ResponseWriter
	text    []byte // the body
}
