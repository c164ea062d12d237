package resource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4/json"
)

const maxIntrospection = 64 << 10 // bytes

// introspect introspects a token (RFC 7662). Its errors are ErrInvalidToken, if the
// server says so, and ErrUnavailable.
func (v *Verifier) introspect(ctx context.Context, token string) (Principal, error) {
	c, err := v.askAbout(ctx, token)
	if err != nil {
		err = unavailable(fmt.Errorf("introspection: %w", err))
		v.introspection.note(err)
		return Principal{}, err
	}
	v.introspection.note(nil)
	p, ok, named := c.principal()
	kind := "Bearer"
	if p.KeyThumbprint != "" {
		kind = "DPoP"
	}
	text := firstOf(
		fault{!*c.Active, "not active"},
		fault{!ok || !strings.EqualFold(c.TokenType, kind), "neither a bearer token nor bound to a key"}, // refresh tokens have no type
		fault{!c.Audience.has(v.cfg.Audience), "for another audience"},
		fault{!named, "with an actor that is not understood"},
	)
	if text != "" {
		return Principal{}, invalid(text)
	}
	// The server has checked the expiry by its own clock.
	return p, nil
}

// An introspection is the server's response.
type introspection struct {
	Active    *bool  `json:"active"`
	TokenType string `json:"token_type"`
	claims
}

// askAbout sends the request. It fails for every response that does not say whether
// the token is active.
func (v *Verifier) askAbout(ctx context.Context, token string) (c introspection, err error) {
	m, err := v.metadata.get(ctx)
	if err != nil {
		return c, err
	}
	if m.Introspection == "" {
		return c, errors.New("the server's metadata has no introspection_endpoint")
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequest(http.MethodPost, m.Introspection, strings.NewReader(form.Encode()))
	if err != nil {
		return c, err
	}
	// RFC 6749 section 2.3.1: id and secret are form-encoded for Basic.
	r.SetBasicAuth(url.QueryEscape(v.cfg.ClientID), url.QueryEscape(v.cfg.ClientSecret))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// An empty value sends no header. It lets net/http repeat the request if the
	// server has just closed an idle connection.
	r.Header["Idempotency-Key"] = nil

	resp, body, err := fetch(ctx, v.client, r, maxIntrospection)
	switch {
	case err != nil:
		return c, err
	case resp.StatusCode == http.StatusUnauthorized:
		return c, fmt.Errorf("the server refuses the credentials of client %q", v.cfg.ClientID)
	case resp.StatusCode != http.StatusOK:
		return c, fmt.Errorf("status %d", resp.StatusCode)
	case json.Unmarshal(body, &c) != nil || c.Active == nil:
		return c, errors.New("the answer is not what RFC 7662 describes")
	case *c.Active && (c.Subject == "" || c.ClientID == "" || c.ExpiresAt == 0):
		return c, errors.New("the answer lacks sub, client_id or exp")
	case *c.Active && c.Issuer != v.cfg.Issuer && c.Issuer != "":
		return c, errors.New("the answer names another issuer")
	}
	return c, nil
}
