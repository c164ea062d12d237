package resource

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// claims are the claims of a JWT (RFC 9068 section 2.2) or of an introspection
// response (RFC 7662 section 2.2). The decoder compares names exactly and refuses
// duplicates.
type claims struct {
	Issuer       string          `json:"iss"`
	Subject      string          `json:"sub"`
	Audience     audience        `json:"aud"`
	ClientID     string          `json:"client_id"`
	ExpiresAt    numericDate     `json:"exp"`
	IssuedAt     numericDate     `json:"iat"`
	NotBefore    numericDate     `json:"nbf"`
	AuthTime     numericDate     `json:"auth_time"`
	ACR          string          `json:"acr"`
	ID           string          `json:"jti"`
	Scope        string          `json:"scope"`
	Confirmation json.RawMessage `json:"cnf"`
	Nonce        json.RawMessage `json:"nonce"`
	AccessHash   json.RawMessage `json:"at_hash"`
	Actor        *actor          `json:"act"`
	GrantedTo    string          `json:"granted_client_id"` // of a token that was exchanged
}

// An actor is the claim act (RFC 8693 section 4.1).
type actor struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Before  *actor `json:"act"`
}

// maxActors limits a chain of actors.
const maxActors = 16

// actors returns the chain of actors, the present one first, and whether each has a name.
func (c *claims) actors() (list []Actor, ok bool) {
	for a := c.Actor; a != nil; a = a.Before {
		if a.Subject == "" || len(list) == maxActors {
			return nil, false
		}
		list = append(list, Actor{a.Issuer, a.Subject})
	}
	return list, true
}

// key returns the thumbprint of the key to which the token is bound (RFC 9449 section 6),
// "" for none. ok is false if the token is bound in another way (RFC 7800).
func (c *claims) key() (jkt string, ok bool) {
	if len(c.Confirmation) == 0 {
		return "", true
	}
	var all map[string]string
	if json.Unmarshal(c.Confirmation, &all) != nil || len(all) != 1 || all["jkt"] == "" {
		return "", false
	}
	return all["jkt"], true
}

// isIDToken reports whether the token has a claim that access tokens never have, and
// id_tokens do (OpenID Connect Core sections 2 and 3.1.3.6).
func (c *claims) isIDToken() bool { return len(c.Nonce) > 0 || len(c.AccessHash) > 0 }

// principal returns the Principal of c. Its other results are those of key and actors:
// whether the key could be read, and whether each actor has a name.
func (c *claims) principal() (p Principal, ok, named bool) {
	p = Principal{
		ACR: c.ACR, Subject: c.Subject, ClientID: c.ClientID, Scope: strings.Fields(c.Scope), Audience: c.Audience,
		IssuedAt: c.IssuedAt.time(), ExpiresAt: c.ExpiresAt.time(), TokenID: c.ID,
	}
	if c.AuthTime != 0 {
		p.AuthTime = c.AuthTime.time()
	}
	p.KeyThumbprint, ok = c.key()
	p.Actors, named = c.actors()
	return p, ok, named
}

// An audience is one string or a list of them (RFC 7519 section 4.1.3).
type audience []string

// has reports whether an API is in a, with or without a slash at its end.
func (a audience) has(api string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return strings.TrimSuffix(one, "/") == strings.TrimSuffix(api, "/") })
}

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// A numericDate is a time in milliseconds since 1970; 0 is none. In JSON it is a
// number of seconds (RFC 7519 section 2).
type numericDate int64

func (d *numericDate) UnmarshalJSON(b []byte) error {
	const year10000 = 253402300800
	seconds, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(seconds > 0 && seconds < year10000) {
		return errors.New("not an instant")
	}
	*d = numericDate(seconds * 1000)
	return nil
}

func (d numericDate) time() time.Time { return time.UnixMilli(int64(d)).UTC() }

// Types of JWT that are access tokens (RFC 9068 section 4).
var (
	accessTypes = []string{"at+jwt", "application/at+jwt"}
	plainTypes  = append([]string{"JWT"}, accessTypes...)
)

// verifyJWT verifies a JWT as Verify does.
func (v *Verifier) verifyJWT(ctx context.Context, token string) (Principal, error) {
	types := accessTypes
	if v.cfg.AllowPlainJWTType {
		types = plainTypes
	}
	payload, err := v.open(ctx, token, types...)
	if err != nil {
		return Principal{}, err
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return Principal{}, invalid("malformed claims")
	}
	now := time.Now()
	p, ok, named := c.principal()
	text := firstOf(
		fault{c.Issuer != v.cfg.Issuer, "of another issuer"},
		fault{!c.Audience.has(v.cfg.Audience), "for another audience"},
		fault{c.Subject == "" || c.ClientID == "" || c.ID == "" || c.ExpiresAt == 0 || c.IssuedAt == 0, "without sub, client_id, jti, exp or iat"},
		fault{!now.Before(c.ExpiresAt.time().Add(v.cfg.Leeway)), "expired"},
		fault{now.Before(c.IssuedAt.time().Add(-v.cfg.Leeway)) || now.Before(c.NotBefore.time().Add(-v.cfg.Leeway)), "not valid yet"},
		fault{c.isIDToken(), "an id_token, and no access token"},
		fault{!ok, "bound in a way that is not understood"},
		fault{!named, "with an actor that is not understood"},
	)
	if text != "" {
		return Principal{}, invalid(text)
	}
	if v.revocations != nil {
		if err := v.revocations.check(ctx, &c); err != nil {
			return Principal{}, err
		}
	}
	return p, nil
}
