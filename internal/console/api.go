package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/server"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
)

// A problem is an error answer of the admin API.
type problem struct{ adminapi.Problem }

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// An ask is a request of the admin API.
type ask struct {
	method  string
	path    []string
	query   url.Values
	in, out any     // nil: nothing
	ifMatch string  // the entity tag that the resource must have; "": any
	etag    *string // receives that of the answer; nil: nobody wants it
}

// do makes a request of the admin API as the operator of r. Only this function reaches
// the deployment beyond sign-ins and sessions.
func (c *Console) do(ctx context.Context, r *request, a ask) error {
	address := "http://console/admin/v1"
	if name := r.realm(); name != "" {
		address += "/realms/" + name
	}
	for _, part := range a.path {
		address += "/" + url.PathEscape(part)
	}
	if len(a.query) > 0 {
		address += "?" + a.query.Encode()
	}
	var body io.Reader
	if a.in != nil {
		text, err := json.Marshal(a.in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	hr, err := http.NewRequestWithContext(serveradmin.WithActor(ctx, actor(*r.who)), a.method, address, body)
	if err != nil {
		return err
	}
	hr.RemoteAddr = r.RemoteAddr
	if a.in != nil {
		hr.Header.Set("Content-Type", "application/json")
	}
	if a.ifMatch != "" {
		hr.Header.Set("If-Match", a.ifMatch)
	}
	resp, err := server.InProcess{Handler: c.API}.RoundTrip(hr)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		p := &problem{}
		if err := json.NewDecoder(resp.Body).Decode(&p.Problem); err != nil {
			return err
		}
		return p
	}
	if a.etag != nil {
		*a.etag = resp.Header.Get("ETag")
	}
	if a.out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(a.out)
}

// get reads a resource of the admin API.
func (c *Console) get(ctx context.Context, r *request, out any, query url.Values, path ...string) error {
	return c.do(ctx, r, ask{method: http.MethodGet, path: path, query: query, out: out})
}

// remove removes a resource of the admin API.
func (c *Console) remove(ctx context.Context, r *request, path ...string) error {
	return c.do(ctx, r, ask{method: http.MethodDelete, path: path})
}

// post sends a body to a resource of the admin API.
func (c *Console) post(ctx context.Context, r *request, in, out any, path ...string) error {
	return c.do(ctx, r, ask{method: http.MethodPost, path: path, in: in, out: out})
}
