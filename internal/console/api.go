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

// call makes a request of the admin API as the operator of r. Only this function reaches
// the deployment beyond sign-ins and sessions.
func (c *Console) call(ctx context.Context, r *request, method string, in, out any, query url.Values, path ...string) error {
	address := "http://console/admin/v1"
	for _, part := range path {
		address += "/" + url.PathEscape(part)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	hr, err := http.NewRequestWithContext(serveradmin.WithActor(ctx, actor(*r.who)), method, address, body)
	if err != nil {
		return err
	}
	hr.RemoteAddr = r.RemoteAddr
	if in != nil {
		hr.Header.Set("Content-Type", "application/json")
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
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// get reads a resource of the admin API.
func (c *Console) get(ctx context.Context, r *request, out any, query url.Values, path ...string) error {
	return c.call(ctx, r, http.MethodGet, nil, out, query, path...)
}
