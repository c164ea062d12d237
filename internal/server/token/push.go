package token

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// A Pusher checks and stores the authorization request of a client (RFC 9126), and returns
// its request_uri. Known reports whether the client's credentials were verified.
type Pusher func(ctx context.Context, r *server.Request, req oauth.AuthorizationRequest, form string, known bool) (requestURI string, err error)

// push is the endpoint for pushed authorization requests (RFC 9126 section 2). The
// order of its phases is that of the token endpoint.
func (e *Endpoints) push(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	p, err := r.Begin(false)
	if err != nil {
		return a, rec, err
	}
	if p["request_uri"] != "" {
		return a, rec, oauth.ErrPushedURI
	}
	if err = r.EnterFor(r.Route.Class, p); err != nil {
		return a, rec, err
	}
	if err = r.AskNonce(p); err != nil {
		return a, rec, err
	}
	c, id, err := r.ClientOrNew(ctx, p)
	rec.ClientID = id
	if err != nil {
		return a, rec, err
	}
	known := c != nil && !c.Public()
	if c != nil {
		if err = r.CountClient(c); err != nil {
			return a, rec, err
		}
	}
	form := oauth.PushedForm(r.Posted(), id)
	if r.HasProof() && (c == nil || c.DPoP != store.DPoPOff) {
		// The proof's key is the one to bind the code to (RFC 9449 section 10.1).
		key, err := r.OwnProof(ctx, c == nil || c.Public())
		switch {
		case err != nil:
			return a, rec, err
		case p["dpop_jkt"] == "":
			form += "&dpop_jkt=" + key.String()
		case p["dpop_jkt"] != key.String():
			return a, rec, fmt.Errorf("%w: it was made by another key than dpop_jkt", oauth.ErrProof)
		}
	}
	req, _, err := oauth.ParseAuthorization(form, "")
	if err != nil {
		return a, rec, err
	}
	uri, err := e.Push(ctx, r, req, form, known)
	if err != nil {
		return a, rec, err
	}
	a.Status = http.StatusCreated
	a.Body, err = json.Marshal(struct {
		RequestURI string `json:"request_uri"`
		ExpiresIn  int    `json:"expires_in"`
	}{uri, int(e.PushedLifetime / time.Second)})
	return a, rec, err
}
