// Package adminclient calls the admin API for commands. The API is that of the server on
// the data directory or of a server on another machine. If no server runs, it is a handler
// in this process, with the store open.
package adminclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server/admin"
)

// A Client calls one admin API.
type Client struct {
	at      string // where the API is, for people
	url     string
	token   string
	file    string // that contains the token
	version string // of the command; "" of other callers
	realm   string // whose API is called; "": the default one
	client  http.Client
	local   bool   // the handler is in this process
	close   func() // nil: there is nothing to close
}

// At describes for people where the admin API is.
func (a *Client) At() string { return a.at }

// InRealm makes the client call the API of a realm.
func (a *Client) InRealm(name string) { a.realm = name }

// Close closes what the client has opened.
func (a *Client) Close() {
	if a.close != nil {
		a.close()
	}
}

// Get reads a resource.
func (a *Client) Get(ctx context.Context, out any, query url.Values, path ...string) (etag string, err error) {
	return a.do(ctx, admin.Ask{Method: http.MethodGet, Path: path, Query: query}, out)
}

// Post sends a body, which may be nil, and reads the answer.
func (a *Client) Post(ctx context.Context, in, out any, path ...string) error {
	_, err := a.do(ctx, admin.Ask{Method: http.MethodPost, Path: path, In: in}, out)
	return err
}

// Update reads a resource, changes it, and writes it with If-Match. If somebody else has
// changed the resource meanwhile, it begins again. It calls confirm after a successful dry
// run, and writes nothing if confirm fails. It returns the resource before and after.
func Update[T any](ctx context.Context, a *Client, change func(*T) error, confirm func() error, path ...string) (old, next T, err error) {
	for n := 1; ; n++ {
		var text json.RawMessage
		var was, in, is T
		etag, err := a.Get(ctx, &text, nil, path...)
		if err != nil {
			return was, is, err
		}
		if err := errors.Join(json.Unmarshal(text, &was), json.Unmarshal(text, &in)); err != nil {
			return was, is, a.notUnderstood(err)
		}
		if err := change(&in); err != nil {
			return was, is, err
		}
		r := admin.Ask{Method: http.MethodPut, Path: path, Query: url.Values{"dry_run": {"true"}}, IfMatch: etag, In: in}
		if _, err = a.do(ctx, r, nil); err == nil {
			err = confirm()
		}
		if r.Query = nil; err == nil {
			_, err = a.do(ctx, r, &is)
		}
		if n == updateAttempts || !errors.As(err, new(changed)) {
			return was, is, err
		}
	}
}

// updateAttempts is how often Update tries a change while others change the resource.
const updateAttempts = 5

// A changed error refuses a write to a resource that no longer has the ETag.
type changed struct{ error }

// Patch changes a resource.
func (a *Client) Patch(ctx context.Context, in, out any, path ...string) error {
	_, err := a.do(ctx, admin.Ask{Method: http.MethodPatch, Path: path, In: in}, out)
	return err
}

// Delete removes a resource.
func (a *Client) Delete(ctx context.Context, query url.Values, path ...string) error {
	_, err := a.do(ctx, admin.Ask{Method: http.MethodDelete, Path: path, Query: query}, nil)
	return err
}

// List reads the items of a list up to the limit of a page, which may take several
// answers, and returns the key of the last item if more follow.
func List[T any](ctx context.Context, a *Client, name string, p adminapi.Page, filter url.Values) (list []T, next string, err error) {
	list, next = []T{}, p.After
	for {
		query := maps.Clone(filter)
		if query == nil {
			query = url.Values{}
		}
		for name, value := range map[string]string{"match": p.Match, "state": p.State, "after": next, "limit": strconv.Itoa(min(p.Limit-len(list), adminapi.MaxPage))} {
			if value != "" {
				query.Set(name, value)
			}
		}
		items, after, err := Items[T](ctx, a, name, query, name)
		if err != nil {
			return nil, "", err
		}
		list, next = append(list, items...), after
		if next == "" || len(list) >= p.Limit {
			return list, next, nil
		}
	}
}

// Items reads one answer, and returns its member name, which is a list, and the key of the
// list's last item if more follow.
func Items[T any](ctx context.Context, a *Client, name string, query url.Values, path ...string) (list []T, next string, err error) {
	var answer map[string]json.RawMessage
	if _, err := a.Get(ctx, &answer, query, path...); err != nil {
		return nil, "", err
	}
	list = []T{}
	err = json.Unmarshal(answer[name], &list)
	if text, more := answer["next"]; more && err == nil {
		err = json.Unmarshal(text, &next)
	}
	if err != nil {
		return nil, "", a.notUnderstood(err)
	}
	return list, next, nil
}

func (a *Client) do(ctx context.Context, r admin.Ask, out any) (etag string, err error) {
	var cause error
	if a.local {
		ctx = admin.WithCause(admin.WithActor(ctx, cases.ByUser(deployment.User())), &cause)
	}
	resp, err := a.send(ctx, r)
	if err != nil {
		return "", a.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		if cause != nil {
			return "", cause
		}
		return "", a.problem(resp)
	}
	if out != nil {
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			return "", a.notUnderstood(err)
		}
	}
	return resp.Header.Get("ETag"), nil
}

func (a *Client) send(ctx context.Context, r admin.Ask) (*http.Response, error) {
	r.Realm = a.realm
	req, err := r.Request(ctx, a.url)
	if err != nil {
		return nil, err
	}
	if a.version != "" {
		req.Header.Set("User-Agent", adminapi.Agent+a.version)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.client.Do(req)
}

// problem returns the error of a problem document.
func (a *Client) problem(resp *http.Response) error {
	var p adminapi.Problem
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&p); err != nil || p.Title == "" {
		return fmt.Errorf("admin API: status %s", resp.Status)
	}
	text := strings.TrimSuffix(fmt.Sprintf("admin API at %s: %s: %s", a.at, p.Title, p.Detail), ": ")
	switch {
	case p.Status == http.StatusUnauthorized && a.token != "":
		return deployment.Hint(fmt.Errorf("the admin API at %s refuses the token: %s", a.at, cmp.Or(p.Detail, "it is wrong, or no longer valid")),
			"it is that of "+a.file+"; an admin makes another: mintage admin token create NAME --role ROLE")
	case p.Field != "":
		if versions := a.versions(resp); versions != "" { // which may differ in what they accept
			p.Detail += "; " + versions
		}
		return &oauth.Invalid{Field: p.Field, Message: p.Detail}
	case p.Type != "":
		err := errors.New(p.Detail)
		if p.Status == http.StatusPreconditionFailed {
			err = changed{err}
		}
		if p.Advice == "" {
			return err
		}
		return deployment.Hint(err, p.Advice)
	case p.Status < 500:
		return a.otherVersion(errors.New(text), resp)
	case p.Status == http.StatusServiceUnavailable:
		// The log counts the failures of an outage, and does not name their requests.
		return deployment.Hint(errors.New(text), "give the same command again; if that fails, too: mintage doctor")
	}
	return deployment.Hint(errors.New(text), "see the server's log, request "+resp.Header.Get("X-Request-Id"))
}

// otherVersion adds advice to the error of a rejected request if the server's version
// differs. The server has changed nothing: it rejects requests that it does not know.
func (a *Client) otherVersion(err error, resp *http.Response) error {
	versions := a.versions(resp)
	if versions == "" {
		return err
	}
	return deployment.Hint(fmt.Errorf("%w; nothing was changed", err), versions+": restart the server, or use a command of its version")
}

// versions says how the versions of the server and of the command differ; "" if they do not.
func (a *Client) versions(resp *http.Response) string {
	theirs := resp.Header.Get(adminapi.Version)
	if a.local || a.version == "" || theirs == a.version {
		return ""
	}
	return fmt.Sprintf("the server's version is %s, and this command's %s", cmp.Or(theirs, "an earlier one"), a.version)
}

func (a *Client) notUnderstood(err error) error {
	return deployment.Hint(fmt.Errorf("admin API at %s: cannot read the answer: %w", a.at, err), "the server may be of another version than this command")
}

// Call sends a request without a body to a path, and decodes the answer into out.
func (a *Client) Call(ctx context.Context, method, path string, out any) error {
	_, err := a.do(ctx, admin.Ask{Method: method, Path: strings.Split(strings.TrimPrefix(path, "/admin/v1/"), "/")}, out)
	return err
}

func (a *Client) explain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return deployment.Hint(fmt.Errorf("no server answers on %s: %w", a.at, op.Err), "start it with `mintage serve`, and give this command the same --data")
	}
	err = fmt.Errorf("admin API: %w", err)
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return deployment.Hint(fmt.Errorf("the server at %s does not answer: %w", a.at, err), "look whether it runs well (mintage doctor); what this command changes may have been changed, or not")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return deployment.Hint(fmt.Errorf("the server at %s ended before it answered: %w", a.at, err), "what this command changes may have been changed, or not: look, and repeat it if not")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return deployment.Hint(err, "name its authority with --ca-file, and a host of its certificate with --admin-listen HOST:PORT")
	}
	return err
}
