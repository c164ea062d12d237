package token

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// device is the device authorization endpoint (RFC 8628 section 3.1). Its phases are
// those of the token endpoint.
func (e *Endpoints) device(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	p, err := r.Begin(false)
	if err != nil {
		return a, rec, err
	}
	asked := oauth.AuthorizationRequest{}
	if asked.ParsePKCE(p["code_challenge"], p["code_challenge_method"]); asked.Defect != nil {
		return a, rec, asked.Defect
	}
	if err = r.EnterFor(r.Route.Class, p); err != nil {
		return a, rec, err
	}
	c, id, err := r.DeviceClient(ctx, p)
	rec.ClientID = id
	if errors.Is(err, client.ErrClient) && !client.IsSelfRegisteredID(id) && p["client_id"] != "" && p["client_secret"] == "" && p["client_assertion"] == "" && len(r.Header["Authorization"]) == 0 {
		err = &missingCredentials{err}
	}
	if err != nil {
		return a, rec, err
	}
	rec.Own = c.SelfRegistered()
	if err = r.CountClient(c); err != nil {
		return a, rec, err
	}
	if !e.mayAsk(c) {
		return a, rec, oauth.ErrClientGrantType
	}
	if c.AudienceParameter && p["audience"] != "" {
		p.AddResource(p["audience"])
	}
	begun := issuer.DeviceRequest{Scope: p["scope"], Resource: p["resource"], Challenge: asked.Challenge, From: r.Address}
	if c.Public() && r.Counted.IsValid() {
		begun.Network = overload.Party(r.Counted)
	}
	d, err := issuer.DeviceCodes{Issuer: e.Issuer}.DeviceAuthorization(ctx, c, begun)
	if err != nil {
		return a, rec, err
	}
	rec.GrantID = d.GrantID
	a.Body, err = json.Marshal(struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
		Page       string `json:"verification_uri"`
		Complete   string `json:"verification_uri_complete"`
		ExpiresIn  int64  `json:"expires_in"`
		Interval   int64  `json:"interval"`
	}{d.DeviceCode, d.UserCode, e.DevicePage, e.DevicePage + "?user_code=" + url.QueryEscape(d.UserCode),
		int64(issuer.DeviceLifetime / time.Second), int64(issuer.DeviceInterval / time.Second)})
	return a, rec, err
}

// mayAsk reports whether a client may request device codes. A sealed id contains the
// metadata of its client. If the id is the address of a metadata document, the document
// is fetched, and the grant type checked, only when the user enters the code.
func (e *Endpoints) mayAsk(c *store.Client) bool {
	if keys.IsRegistration(c.ID) && c.SelfRegistered() {
		registered, err := e.Registrations.Client(c.ID, "")
		return err == nil && registered.MayUse(store.GrantDeviceCode)
	}
	return c.SelfRegistered() || c.MayUse(store.GrantDeviceCode)
}

// missingCredentials is the failed authentication of a client that has sent only its id, as
// golang.org/x/oauth2 does at this endpoint. The answer, ErrDeviceClient, says what to do.
type missingCredentials struct{ error }

func (e *missingCredentials) Unwrap() []error { return []error{e.error, oauth.ErrDeviceClient} }

// poll answers a device (RFC 8628 section 3.4).
func (e *Endpoints) poll(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	return issuer.DeviceCodes{Issuer: e.Issuer}.DeviceToken(ctx, c, issuer.CodeRequest{Code: p["device_code"], Verifier: p["code_verifier"], Resource: p["resource"], JKT: from.JKT, From: from})
}

func countDevice(m *metrics.Metrics, o *server.Outcome) {
	switch {
	case o.Err == nil:
		m.Device(metrics.DeviceAsked)
	case errors.Is(o.Err, issuer.ErrManyDevices):
		m.Throttled(metrics.LimitDeviceCodes)
	}
}
