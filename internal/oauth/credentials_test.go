package oauth_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

const jwtBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

func basic(userinfo string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userinfo))
}

func TestParseCredentials(t *testing.T) {
	fromBasic := func(id, secret, raw string) oauth.Credentials {
		return oauth.Credentials{ClientID: id, Secret: oauth.Secret(secret), RawSecret: oauth.Secret(raw), Method: oauth.AuthBasic, Header: true}
	}
	for _, tt := range []struct {
		name   string
		header []string
		p      oauth.Params
		want   oauth.Credentials
		err    error
	}{
		{name: "C1 nothing", err: oauth.ErrNoClient},
		{name: "C1 secret without an id", p: oauth.Params{"client_secret": "s"}, err: oauth.ErrNoClient},
		{name: "C2 id without a credential", p: oauth.Params{"client_id": "shop"},
			want: oauth.Credentials{ClientID: "shop", Method: oauth.AuthNone}},
		{name: "secret in the form", p: oauth.Params{"client_id": "shop", "client_secret": "s"},
			want: oauth.Credentials{ClientID: "shop", Secret: "s", Method: oauth.AuthPost}},
		{name: "Basic", header: []string{basic("shop:s")}, want: fromBasic("shop", "s", "s")},

		{name: "CA-09 form-encoded halves", header: []string{basic("a%3Ab+c:%25%2B%2F%C3%BC%26+%3A")},
			want: fromBasic("a:b c", "%+/ü& :", "%25%2B%2F%C3%BC%26+%3A")},
		{name: "CA-09 raw colon in the secret", header: []string{basic("shop:a:b:c")}, want: fromBasic("shop", "a:b:c", "a:b:c")},
		{name: "CA-09 raw plus is kept beside its decoding", header: []string{basic("shop:a+b")}, want: fromBasic("shop", "a b", "a+b")},
		{name: "CA-19 an empty secret is none", header: []string{basic("shop:")}, want: oauth.Credentials{ClientID: "shop", Method: oauth.AuthNone, Header: true}},
		{name: "CA-19 an empty secret beside the same id", header: []string{basic("shop:")}, p: oauth.Params{"client_id": "shop"},
			want: oauth.Credentials{ClientID: "shop", Method: oauth.AuthNone, Header: true}},
		{name: "CA-19 an empty secret beside another id", header: []string{basic("shop:")}, p: oauth.Params{"client_id": "bank"}, err: oauth.ErrClientDiffer},
		{name: "CA-12 lower case scheme", header: []string{"basic" + basic("shop:s")[5:]}, want: fromBasic("shop", "s", "s")},
		{name: "CA-12 upper case scheme", header: []string{"BASIC" + basic("shop:s")[5:]}, want: fromBasic("shop", "s", "s")},
		{name: "CA-14 equal client_id in the form", header: []string{basic("shop:s")}, p: oauth.Params{"client_id": "shop"}, want: fromBasic("shop", "s", "s")},
		{name: "CA-14 equal after decoding", header: []string{basic("sh%6Fp:s")}, p: oauth.Params{"client_id": "shop"}, want: fromBasic("shop", "s", "s")},

		{name: "C5 CA-10 bad escape in the id", header: []string{basic("sh%zzop:s")}, err: oauth.ErrClient},
		{name: "CA-10 a secret that is not encoded at all is this client's or nobody's", header: []string{basic("shop:100%")}, want: fromBasic("shop", "100%", "100%")},
		{name: "C5 CA-11 no colon", header: []string{basic("shop")}, err: oauth.ErrClient},
		{name: "C5 CA-11 encoded colon only", header: []string{basic("shop%3As")}, err: oauth.ErrClient},
		{name: "C5 CA-11 empty id", header: []string{basic(":s")}, err: oauth.ErrClient},
		{name: "C5 CA-11 nothing encoded", header: []string{basic("")}, err: oauth.ErrClient},
		{name: "C5 CA-11 scheme alone", header: []string{"Basic"}, err: oauth.ErrClient},
		{name: "C5 CA-11 scheme and a space", header: []string{"Basic "}, err: oauth.ErrClient},
		{name: "C5 CA-11 two spaces", header: []string{"Basic  c2hvcDpz"}, err: oauth.ErrClient},
		{name: "C5 CA-11 embedded space", header: []string{"Basic c2hv cDpz"}, err: oauth.ErrClient},
		{name: "C5 CA-11 trailing space", header: []string{"Basic c2hvcDpz "}, err: oauth.ErrClient},
		{name: "C5 CA-11 line break inside", header: []string{"Basic c2hv\r\ncDpz"}, err: oauth.ErrClient},
		{name: "C5 CA-11 missing padding", header: []string{"Basic c2hvcDpzcw"}, err: oauth.ErrClient},
		{name: "C5 CA-11 too much padding", header: []string{"Basic c2hvcDpz===="}, err: oauth.ErrClient},
		{name: "C5 CA-11 stray bits after the last byte", header: []string{"Basic c2hvcDpzcx=="}, err: oauth.ErrClient},
		{name: "C5 CA-11 base64url alphabet", header: []string{"Basic c2hvcDp-fn4_"}, err: oauth.ErrClient},
		{name: "C5 empty header", header: []string{""}, err: oauth.ErrClient},
		{name: "C5 control character", header: []string{basic("shop:a\x00")}, err: oauth.ErrClient},
		{name: "C5 encoded control character", header: []string{basic("shop:a%0A")}, err: oauth.ErrClient},
		{name: "C5 encoded control character in the id", header: []string{basic("sh%00op:a")}, err: oauth.ErrClient},
		{name: "C5 invalid UTF-8", header: []string{basic("shop:\xff")}, err: oauth.ErrClient},
		{name: "C5 encoded invalid UTF-8", header: []string{basic("shop:%FF")}, err: oauth.ErrClient},
		{name: "C5 id too long", header: []string{basic(strings.Repeat("x", 256) + ":s")}, err: oauth.ErrClient},
		{name: "C5 secret too long", header: []string{basic("shop:" + strings.Repeat("x", 3*1024+1))}, err: oauth.ErrClient},
		{name: "longest id", header: []string{basic(strings.Repeat("x", 255) + ":s")}, want: fromBasic(strings.Repeat("x", 255), "s", "s")},

		{name: "C6 CA-16 Bearer", header: []string{"Bearer x"}, err: oauth.ErrClient},
		{name: "C6 CA-16 Digest", header: []string{`Digest username="shop"`}, err: oauth.ErrClient},
		{name: "C6 CA-16 Negotiate", header: []string{"Negotiate YII="}, err: oauth.ErrClient},
		{name: "C6 scheme that begins like Basic", header: []string{"Basic2 c2hvcDpz"}, err: oauth.ErrClient},
		{name: "C6 tab after the scheme", header: []string{"Basic\tc2hvcDpz"}, err: oauth.ErrClient},
		{name: "C6 CA-16 two headers", header: []string{basic("shop:s"), basic("shop:s")}, err: oauth.ErrClient},
		{name: "C6 other scheme beside good form credentials", header: []string{"Bearer x"}, p: oauth.Params{"client_id": "shop", "client_secret": "s"}, err: oauth.ErrClient},
		{name: "C6 before C7: two headers and a secret", header: []string{basic("a:b"), "x"}, p: oauth.Params{"client_secret": "s"}, err: oauth.ErrClient},

		{name: "C7 CA-13 Basic and the same secret", header: []string{basic("shop:s")}, p: oauth.Params{"client_secret": "s"}, err: oauth.ErrTwoMethods},
		{name: "C7 CA-13 Basic and another secret", header: []string{basic("shop:s")}, p: oauth.Params{"client_id": "shop", "client_secret": "t"}, err: oauth.ErrTwoMethods},
		{name: "C7 CA-13 malformed Basic and a secret", header: []string{"Basic !"}, p: oauth.Params{"client_secret": "s"}, err: oauth.ErrTwoMethods},
		{name: "C7 CA-15 Basic and an assertion", header: []string{basic("shop:s")}, p: oauth.Params{"client_assertion": "j"}, err: oauth.ErrTwoMethods},
		{name: "C7 CA-15 secret and an assertion", err: oauth.ErrTwoMethods,
			p: oauth.Params{"client_id": "shop", "client_secret": "s", "client_assertion": "j", "client_assertion_type": "t"}},
		{name: "C7 before C11", p: oauth.Params{"client_secret": "s", "client_assertion": "j"}, err: oauth.ErrTwoMethods},

		{name: "C8 CA-14 other client_id in the form", header: []string{basic("shop:s")}, p: oauth.Params{"client_id": "bank"}, err: oauth.ErrClientDiffer},
		{name: "C8 client_id in another case", header: []string{basic("shop:s")}, p: oauth.Params{"client_id": "Shop"}, err: oauth.ErrClientDiffer},

		{name: "C11 assertion without its type", p: oauth.Params{"client_id": "shop", "client_assertion": "j"}, err: oauth.ErrAssertion},
		{name: "C11 type without an assertion", p: oauth.Params{"client_id": "shop", "client_assertion_type": "t"}, err: oauth.ErrAssertion},
		{name: "C11 assertion of another type", p: oauth.Params{"client_assertion": "j", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"}, err: oauth.ErrAssertion},
		{name: "C11 type beside Basic", header: []string{basic("shop:s")}, p: oauth.Params{"client_assertion_type": jwtBearer}, err: oauth.ErrAssertion},
		{name: "C7 before C11: Basic, an assertion and its type", header: []string{basic("shop:s")}, err: oauth.ErrTwoMethods,
			p: oauth.Params{"client_assertion": "j", "client_assertion_type": jwtBearer}},
		{name: "assertion", p: oauth.Params{"client_id": "shop", "client_assertion": "j", "client_assertion_type": jwtBearer},
			want: oauth.Credentials{ClientID: "shop", Assertion: "j", Method: oauth.AuthPrivateKeyJWT}},
		{name: "assertion that alone names the client", p: oauth.Params{"client_assertion": "j", "client_assertion_type": jwtBearer},
			want: oauth.Credentials{Assertion: "j", Unnamed: true, Method: oauth.AuthPrivateKeyJWT}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.p == nil {
				tt.p = oauth.Params{}
			}
			got, err := oauth.ParseCredentials(tt.header, tt.p)
			if err != tt.err {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			// A failed header leads to 401, so Header must be right in every case.
			if got.Header != (tt.header != nil) {
				t.Errorf("Header = %t", got.Header)
			}
			if err == nil && got != tt.want {
				t.Errorf("credentials of %q by %q, want %q by %q, or their secrets differ", got.ClientID, got.Method, tt.want.ClientID, tt.want.Method)
			}
		})
	}
}

func TestSecretNeverPrints(t *testing.T) {
	const text = "s3cr3t-of-shop"
	s := oauth.Secret(text)
	whole := oauth.Credentials{ClientID: "shop", Secret: s, RawSecret: s}
	encoded := fmt.Sprintf("%x", text)
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		printed = append(printed, fmt.Sprintf(verb, s), fmt.Sprintf(verb, whole), fmt.Sprintf(verb, &whole), fmt.Sprintf(verb, []oauth.Secret{s}))
	}
	for _, v := range []any{s, whole, map[string]oauth.Secret{"a": s}, []oauth.Secret{s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		printed = append(printed, string(b))
	}
	var b strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("message", "secret", s, "credentials", whole, "error", fmt.Errorf("secret %v: %w", s, oauth.ErrClient))
	}
	for _, out := range append(printed, b.String(), fmt.Sprint(s), fmt.Errorf("%v", whole).Error()) {
		if strings.Contains(out, text) || strings.Contains(strings.ToLower(out), encoded) {
			t.Errorf("the secret is in an output of %d characters that begins %.20q", len(out), out)
		}
	}
}
