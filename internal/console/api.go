package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/server"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
)

// A problem is an error response of the admin API.
type problem struct{ adminapi.Problem }

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// do sends a request to the admin API as the operator of r, and returns the ETag of the
// response. Except for sign-ins and sessions, the console reaches the deployment only
// through do.
func (c *Console) do(ctx context.Context, r *request, a serveradmin.Ask, out any) (etag string, err error) {
	a.Realm = r.realm()
	hr, err := a.Request(serveradmin.WithActor(ctx, actor(*r.who)), "http://console")
	if err != nil {
		return "", err
	}
	hr.RemoteAddr = r.RemoteAddr
	resp, err := server.InProcess{Handler: c.API}.RoundTrip(hr)
	if err != nil {
		return "", err
	}
	if resp.StatusCode >= 300 {
		p := &problem{}
		if err := json.NewDecoder(resp.Body).Decode(&p.Problem); err != nil {
			return "", err
		}
		return "", p
	}
	if out != nil {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	return resp.Header.Get("ETag"), err
}

// get reads a resource of the admin API.
func (c *Console) get(ctx context.Context, r *request, out any, query url.Values, path ...string) error {
	_, err := c.do(ctx, r, serveradmin.Ask{Method: http.MethodGet, Path: path, Query: query}, out)
	return err
}

// remove removes a resource of the admin API.
func (c *Console) remove(ctx context.Context, r *request, query url.Values, path ...string) error {
	_, err := c.do(ctx, r, serveradmin.Ask{Method: http.MethodDelete, Path: path, Query: query}, nil)
	return err
}

// post sends a body to a resource of the admin API.
func (c *Console) post(ctx context.Context, r *request, in, out any, path ...string) error {
	_, err := c.do(ctx, r, serveradmin.Ask{Method: http.MethodPost, Path: path, In: in}, out)
	return err
}
