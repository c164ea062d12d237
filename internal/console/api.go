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

// A problem is an error answer of the admin API.
type problem struct{ adminapi.Problem }

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// do makes a request of the admin API as the operator of r, and returns the entity tag of
// the answer. Only this function reaches the deployment beyond sign-ins and sessions.
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
