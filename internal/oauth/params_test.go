package oauth_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestParseParams(t *testing.T) {
	for _, tt := range []struct {
		name        string
		body, query string
		allow       bool // parameters in the query
		want        oauth.Params
		realm       string
		err         error
	}{
		{name: "nothing", want: oauth.Params{}},
		{name: "form and realm", body: "grant_type=refresh_token&refresh_token=x", query: "realm=/api", realm: "/api",
			want: oauth.Params{"grant_type": "refresh_token", "refresh_token": "x"}},
		{name: "realm percent-encoded", query: "realm=%2Fapi", realm: "/api", want: oauth.Params{}},
		{name: "plus is a space, %2B a plus", body: "scope=read+write%2B", want: oauth.Params{"scope": "read write+"}},
		{name: "second equals sign belongs to the value", body: "code=a=b", want: oauth.Params{"code": "a=b"}},
		{name: "UTF-8", body: "username=%C3%BC%E2%82%AC", want: oauth.Params{"username": "ü€"}},
		{name: "empty value is omitted (TG-11)", body: "scope=&code=x&state", want: oauth.Params{"code": "x"}},
		{name: "empty pairs", body: "&&code=x&", want: oauth.Params{"code": "x"}},
		{name: "pair without a name", body: "=x&code=y", want: oauth.Params{"code": "y"}},
		{name: "unknown parameter is carried and ignored (P5)", body: "foo=bar&code=x", want: oauth.Params{"foo": "bar", "code": "x"}},
		{name: "unknown parameter in the query is not taken over", body: "code=x", query: "foo=bar", want: oauth.Params{"code": "x"}},
		{name: "names are compared with their case", body: "Code=x&code=y", want: oauth.Params{"Code": "x", "code": "y"}},
		{name: "64 pairs", body: many(64), want: manyParams(64)},

		{name: "F3 bad percent escape in a value", body: "code=%zz", err: oauth.ErrMalformedBody},
		{name: "F3 bad percent escape in a name", body: "co%zzde=x", err: oauth.ErrMalformedBody},
		{name: "F3 percent escape cut off", body: "code=x%4", err: oauth.ErrMalformedBody},
		{name: "F3 lone percent", body: "code=%", err: oauth.ErrMalformedBody},
		{name: "F3 semicolon", body: "code=x;scope=y", err: oauth.ErrMalformedBody},
		{name: "F3 bad escape after good pairs", body: "grant_type=refresh_token&refresh_token=x&z=%", err: oauth.ErrMalformedBody},
		{name: "F3 65 pairs", body: many(65), err: oauth.ErrMalformedBody},
		{name: "F3 65 empty pairs", body: strings.Repeat("&", 65), err: oauth.ErrMalformedBody},
		{name: "F3 in the query", query: "realm=%zz", err: oauth.ErrMalformedBody},
		{name: "F3 semicolon in the query", query: "realm=/api;x=y", err: oauth.ErrMalformedBody},

		{name: "F4 NUL", body: "code=a%00b", err: oauth.ErrMalformedValue},
		{name: "F4 line feed", body: "code=a%0Ab", err: oauth.ErrMalformedValue},
		{name: "F4 raw carriage return", body: "code=a\rb", err: oauth.ErrMalformedValue},
		{name: "F4 tab", body: "code=%09", err: oauth.ErrMalformedValue},
		{name: "F4 delete", body: "code=%7F", err: oauth.ErrMalformedValue},
		{name: "F4 C1 control", body: "code=%C2%85", err: oauth.ErrMalformedValue},
		{name: "F4 C1 control after other text", body: "code=%C3%BC%C2%9F", err: oauth.ErrMalformedValue},
		{name: "F4 invalid UTF-8", body: "code=%FF", err: oauth.ErrMalformedValue},
		{name: "F4 overlong UTF-8", body: "code=%C0%AF", err: oauth.ErrMalformedValue},
		{name: "F4 surrogate", body: "code=%ED%A0%80", err: oauth.ErrMalformedValue},
		{name: "F4 control in a name", body: "co%00de=x", err: oauth.ErrMalformedValue},
		{name: "F4 byte order mark before the first name", body: "\xef\xbb\xbfgrant_type=x", err: oauth.ErrMalformedValue},
		{name: "F4 byte order mark in a value", body: "code=%EF%BB%BFx", err: oauth.ErrMalformedValue},
		{name: "F4 in the query", query: "realm=%00", err: oauth.ErrMalformedValue},

		{name: "P1 twice", body: "code=a&code=b&scope=c", want: oauth.Params{"scope": "c"}, err: oauth.ErrRepeated},
		{name: "P1 twice with equal values", body: "code=a&code=a", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 twice, one empty", body: "code=&code=a", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 twice, differently spelled", body: "code=a&c%6Fde=b", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 thrice", body: "code=a&code=b&code=c", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 unknown parameter", body: "foo=a&foo=b", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 body and query", body: "code=a", query: "code=a", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 body and query, where the query may", body: "code=a", query: "code=a", allow: true, want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 before P2", body: "code=a&code=a&state=s", query: "scope=x", want: oauth.Params{"state": "s"}, err: oauth.ErrRepeated},
		{name: "P1 twice in the query", query: "foo=a&foo=b", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 realm in body and query", body: "realm=/api", query: "realm=/api", want: oauth.Params{}, err: oauth.ErrRepeated},
		{name: "P1 exception: resource (RFC 8707 section 2)", body: "resource=a&resource=b", want: oauth.Params{"resource": " b"}},
		{name: "the same resource twice", body: "resource=a&resource=a", want: oauth.Params{"resource": "a"}},

		{name: "P2 code in the query", query: "realm=/api&code=x", want: oauth.Params{}, err: oauth.ErrQuery},
		{name: "P2 secret in the query (CA-17)", body: "code=x", query: "client_secret=s", want: oauth.Params{"code": "x"}, err: oauth.ErrQuery},
		{name: "P2 empty parameter in the query", query: "client_id=", want: oauth.Params{}, err: oauth.ErrQuery},
		{name: "P2 before P3", query: "realm=a&realm=b&code=x", want: oauth.Params{}, err: oauth.ErrQuery},
		{name: "compatibility takes known parameters from the query", body: "code=x", query: "realm=/api&client_id=c&foo=bar", allow: true,
			realm: "/api", want: oauth.Params{"code": "x", "client_id": "c"}},

		{name: "P3 realm twice", query: "realm=/api&realm=/api", want: oauth.Params{}, err: oauth.ErrRealm},
		{name: "P3 realm in the body is no realm", body: "realm=/api", want: oauth.Params{"realm": "/api"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, realm, err := oauth.ParseParams(tt.body, tt.query, tt.allow)
			if !errors.Is(err, tt.err) || realm != tt.realm || !maps.Equal(got, tt.want) {
				t.Errorf("ParseParams = %q, realm %q, %v\nwant %q, realm %q, %v", got, realm, err, tt.want, tt.realm, tt.err)
			}
		})
	}
}

// The log must say which parameter is wrong, because the answer does not. A name that no
// endpoint knows may be a secret.
func TestDefectsNameTheParameter(t *testing.T) {
	for form, want := range map[string]string{
		"code=x&client_secret=s%0A":         "invalid_request: malformed parameter value: client_secret",
		"code=x&s%0Aecret=x":                "invalid_request: malformed parameter value",
		"code=x&code=y":                     "invalid_request: parameter repeated: code",
		"secret=x&secret=y":                 "invalid_request: parameter repeated",
		"code=" + strings.Repeat("x", 2049): "invalid_request: parameter too long: code",
	} {
		p, _, err := oauth.ParseParams(form, "", false)
		if err == nil {
			err = p.CheckLengths()
		}
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", form, err, want)
		}
	}
	if _, _, err := oauth.ParseParams("", "client_secret=s", false); err == nil || err.Error() != "invalid_request: parameters belong in the request body: client_secret" {
		t.Error(err)
	}
}

func many(n int) string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("n%d=v", i))
	}
	return strings.Join(pairs, "&")
}

func manyParams(n int) oauth.Params {
	p := oauth.Params{}
	for i := range n {
		p[fmt.Sprintf("n%d", i)] = "v"
	}
	return p
}

// P4: the maximal length is accepted, and one byte more is not.
func TestCheckLengths(t *testing.T) {
	for name, most := range map[string]int{
		"grant_type": 255, "code": 2048, "redirect_uri": 2048, "client_id": 255, "client_secret": 1024, "refresh_token": 2048,
		"code_verifier": 1024, "scope": 1024, "state": 2048, "client_assertion": 8192, "client_assertion_type": 255,
		"resource": 2048, "username": 255, "password": 1024, "access_token": 8192, "token": 8192,
	} {
		if err := (oauth.Params{name: strings.Repeat("x", most)}).CheckLengths(); err != nil {
			t.Errorf("%s of %d bytes: %v", name, most, err)
		}
		if err := (oauth.Params{name: strings.Repeat("x", most+1)}).CheckLengths(); !errors.Is(err, oauth.ErrTooLong) {
			t.Errorf("%s of %d bytes: %v, want too long", name, most+1, err)
		}
		if err := (oauth.Params{name: strings.Repeat("ü", most)}).CheckLengths(); !errors.Is(err, oauth.ErrTooLong) {
			t.Errorf("%s of %d characters of two bytes: %v, want too long", name, most, err)
		}
		if _, _, err := oauth.ParseParams("", name+"=x", false); !errors.Is(err, oauth.ErrQuery) {
			t.Errorf("%s in the query: %v", name, err)
		}
	}
	if err := (oauth.Params{"foo": strings.Repeat("x", 10_000)}).CheckLengths(); err != nil {
		t.Errorf("unknown parameters have no maximum of their own: %v", err)
	}
}

// RFC 6749 section 5.2: error_description contains only %x20-21 %x23-5B %x5D-7E.
func TestErrorTextsAreConstantAndPrintable(t *testing.T) {
	for _, e := range []*oauth.Error{
		oauth.ErrMethod, oauth.ErrHTTPS, oauth.ErrTooLarge, oauth.ErrIncompleteBody, oauth.ErrTooManyRequests, oauth.ErrNotFound,
		oauth.ErrContentType, oauth.ErrContentEncoding, oauth.ErrMalformedBody, oauth.ErrMalformedValue, oauth.ErrRepeated,
		oauth.ErrQuery, oauth.ErrRealm, oauth.ErrTooLong, oauth.ErrNoGrantType, oauth.ErrGrantType, oauth.ErrNoCode,
		oauth.ErrNoRedirect, oauth.ErrNoRefresh, oauth.ErrNoClient, oauth.ErrTwoMethods, oauth.ErrClientDiffer, oauth.ErrAssertion,
		oauth.ErrClient, oauth.ErrClientGrantType, oauth.ErrGrant, oauth.ErrDeadRefreshToken, oauth.ErrScope,
		oauth.ErrUnavailable, oauth.ErrInternal,
		oauth.ErrNotGet, oauth.ErrNotGetOrPost, oauth.ErrMetadataType, oauth.ErrNoToken, oauth.ErrTokenInQuery, oauth.ErrTokenType, oauth.ErrBearer, oauth.ErrInvalidToken, oauth.ErrInsufficientScope,
	} {
		if e.Description == "" || strings.ContainsFunc(e.Description, func(r rune) bool {
			return r < 0x20 || r > 0x7e || r == '"' || r == '\\'
		}) {
			t.Errorf("description %q", e.Description)
		}
		if got := e.Error(); got != string(e.Code)+": "+e.Description {
			t.Errorf("text %q", got)
		}
	}
	if oauth.ErrGrant.Description != oauth.ErrDeadRefreshToken.Description {
		t.Error("the texts of two invalid_grant errors differ")
	}
}
