package oauth

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// An AuthMethod is a way in which a client authenticates at the token
// endpoint, by its registered name (RFC 7591 section 2).
type AuthMethod string

const (
	AuthBasic AuthMethod = "client_secret_basic"
	AuthPost  AuthMethod = "client_secret_post"
	AuthNone  AuthMethod = "none"
	// AuthPrivateKeyJWT is a client assertion (OpenID Connect Core section 9), which
	// the client or an issuer that it trusts has signed.
	AuthPrivateKeyJWT AuthMethod = "private_key_jwt"
)

// Credentials are the client authentication of a request.
type Credentials struct {
	ClientID string
	Secret   Secret
	// RawSecret is the Basic password before form decoding. Many programs
	// forget the encoding that RFC 6749 section 2.3.1 asks for.
	RawSecret Secret
	// Assertion is a JWT of RFC 7523 section 2.2. Unnamed reports that the form does not
	// name the client, which the assertion may do: until it is read, ClientID is empty.
	Assertion Secret
	Unnamed   bool
	Method    AuthMethod
	// Grant is an assertion that is the grant of the same request (RFC 7523 section 2.1).
	Grant Secret
	// Header reports that the request has an Authorization header, so that a
	// failure is 401 with a challenge (RFC 6749 section 5.2).
	Header bool
}

// jwtBearer is the only accepted type of client assertion (RFC 7523 section 2.2).
const jwtBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// ParseCredentials finds the client in a request's Authorization headers and
// parameters. An unusable header, Basic or not, is ErrClient with Header set;
// every other defect has the status 400.
func ParseCredentials(authorization []string, p Params) (Credentials, error) {
	c := Credentials{ClientID: p["client_id"], Secret: Secret(p["client_secret"]), Method: AuthNone}
	if c.Secret != "" {
		c.Method = AuthPost
	}
	assertion, assertionType := p["client_assertion"], p["client_assertion_type"]

	if len(authorization) > 0 {
		c.Header = true
		scheme, rest, _ := strings.Cut(authorization[0], " ")
		if len(authorization) > 1 || !strings.EqualFold(scheme, "Basic") {
			return c, ErrClient
		}
		if c.Secret != "" || assertion != "" {
			return c, ErrTwoMethods
		}
		id, secret, raw, ok := parseBasic(rest)
		if !ok {
			return c, ErrClient
		}
		if c.ClientID != "" && c.ClientID != id {
			return c, ErrClientDiffer
		}
		if assertionType != "" {
			return c, ErrAssertion
		}
		if raw == "" {
			// Some programs (golang.org/x/oauth2, oidc-agent) send the header
			// for public clients as well: an empty secret counts as none, in the
			// header as in the form (RFC 6749 section 2.3.1).
			return Credentials{ClientID: id, Method: AuthNone, Header: true}, nil
		}
		return Credentials{ClientID: id, Secret: Secret(secret), RawSecret: Secret(raw), Method: AuthBasic, Header: true}, nil
	}

	switch {
	case c.Secret != "" && assertion != "":
		return c, ErrTwoMethods
	case (assertion == "") != (assertionType == ""), assertion != "" && assertionType != jwtBearer:
		return c, ErrAssertion // RFC 7521 section 4.2
	case assertion != "":
		c.Assertion, c.Method, c.Unnamed = Secret(assertion), AuthPrivateKeyJWT, c.ClientID == ""
	case c.ClientID == "":
		return c, ErrNoClient
	}
	return c, nil
}

// parseBasic decodes the credentials of RFC 7617, each half form-encoded (RFC
// 6749 section 2.3.1). The standard library's BasicAuth does not undo that.
func parseBasic(s string) (id, secret, rawSecret string, ok bool) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	// The decoder skips line breaks. A header cannot contain any; check nevertheless.
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return "", "", "", false
	}
	rawID, rawSecret, found := strings.Cut(string(b), ":")
	if !found || !clean(string(b)) {
		return "", "", "", false
	}
	id, err = url.QueryUnescape(rawID)
	if err != nil || id == "" || !clean(id) {
		return "", "", "", false
	}
	secret, err = url.QueryUnescape(rawSecret)
	if err != nil {
		// The program does not encode at all, and the imported secret has a
		// percent sign (100%sure). Compare it as sent.
		secret = rawSecret
	}
	if !clean(secret) {
		return "", "", "", false
	}
	if len(id) > maxLength["client_id"] || len(rawSecret) > maxLength["client_secret"]*3 {
		return "", "", "", false
	}
	return id, secret, rawSecret, true
}

// A Secret is a string that fmt, JSON and logs show as [secret].
type Secret string

func (Secret) String() string               { return "[secret]" }
func (Secret) Format(f fmt.State, _ rune)   { f.Write([]byte("[secret]")) } // whatever the verb
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }
