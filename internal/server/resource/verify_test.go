package resource

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

func TestHeaderTextIsVisibleASCIIAndComesBackWhole(t *testing.T) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	for text, want := range map[string]string{
		"": "", "alice": "alice", "a b": "a%20b", "100%": "100%25", "%41": "%2541", "\u00fc": "%C3%BC", "a\r\nX: y": "a%0D%0AX:%20y",
		"\x00\x7f\xff": "%00%7F%FF", "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~\"": "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~\"", string(every): "",
	} {
		got := headerText(text)
		if want != "" && got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		for _, c := range []byte(got) {
			if c <= 0x20 || c >= 0x7f {
				t.Errorf("%q holds byte %#x", got, c)
			}
		}
		if back, err := url.PathUnescape(got); err != nil || back != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}

// An ambiguous requirement about actors is an error.
func TestDemandedActors(t *testing.T) {
	var got demand
	var err error
	s := server.New(nil, server.Options{Site: server.Site{Realm: "/api"}}, slog.New(slog.DiscardHandler))
	s.Mount(server.Route{Paths: []string{"verify", "verify/{rest...}"}, Unadmitted: true, Handle: func(_ context.Context, r *server.Request) (server.Answer, server.Report, error) {
		got, err = demands(r)
		return server.Answer{}, server.Report{}, err
	}})
	for _, c := range []struct {
		path, query string
		header      []string
		want        string
		err         error
	}{
		{"", "", nil, "", nil},
		{"", "actor=required", nil, "required", nil},
		{"", "actor=refused", []string{"refused"}, "refused", nil},
		{"", "", []string{"required", "required"}, "required", nil},
		{"/a", "actor=x", []string{"required"}, "required", nil},
		{"/a", "actor=required", nil, "", nil}, // the query of the client's own request

		{"", "actor=", nil, "", oauth.ErrMalformedValue},
		{"", "actor", nil, "", oauth.ErrMalformedValue},
		{"", "actor=gateway", nil, "", oauth.ErrMalformedValue},
		{"", "", []string{""}, "", oauth.ErrMalformedValue},
		{"", "actor=required", []string{""}, "", oauth.ErrMalformedValue},
		{"", "actor=required", []string{"refused"}, "", oauth.ErrRepeated},
		{"", "", []string{"refused", "required"}, "", oauth.ErrRepeated},
	} {
		r := httptest.NewRequest(http.MethodGet, "/oauth2/verify"+c.path, nil)
		r.URL.RawQuery, r.Header["X-Required-Actor"] = c.query, c.header
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got.actor != c.want || err != c.err {
			t.Errorf("%s?%s %q: %q, %v; want %q, %v", c.path, c.query, c.header, got.actor, err, c.want, c.err)
		}
	}
	for want, a := range map[string]grant.Actor{
		"gateway": {Subject: "gateway"}, "a%20b": {Subject: "a b"}, "https://idp.example agent": {Issuer: "https://idp.example", Subject: "agent"},
	} {
		if text := actorText(a); text != want {
			t.Errorf("%+v is %q, want %q", a, text, want)
		}
	}
}

// A proxy's requirements add up; contradictory ones refuse every request.
func TestDemandsAddUpAndAreNeverGuessed(t *testing.T) {
	var scope oauth.Scope
	var audience string
	var err error
	s := server.New(nil, server.Options{Site: server.Site{Realm: "/api"}}, slog.New(slog.DiscardHandler))
	s.Mount(server.Route{Paths: []string{"verify", "verify/{rest...}"}, Unadmitted: true, Handle: func(_ context.Context, r *server.Request) (server.Answer, server.Report, error) {
		var got demand
		got, err = demands(r)
		scope, audience = got.scope, got.audience
		return server.Answer{}, server.Report{}, err
	}})
	for _, c := range []struct {
		query     string
		scope     []string
		audience  []string
		below     bool
		wantScope oauth.Scope
		wantAud   string
		err       error
	}{
		{"", nil, nil, false, "", "", nil},
		{"scope=a+b&aud=x", nil, nil, false, "a b", "x", nil},
		{"scope=a%20a%20b", nil, nil, false, "a b", "", nil},
		{"scope=a", []string{"b c", "a d"}, nil, false, "a b c d", "", nil},
		{"aud=x", nil, []string{"x", "x"}, false, "", "x", nil},
		{"", nil, []string{"x"}, false, "", "x", nil},
		{"realm=api", nil, nil, false, "", "", nil},
		{"scope=a&aud=y&realm=/other&a;b", []string{"b"}, []string{"x"}, true, "b", "x", nil},

		{"aud=x", nil, []string{"y"}, false, "", "", oauth.ErrRepeated},
		{"aud=x", nil, []string{""}, false, "", "", oauth.ErrMalformedValue},
		{"aud=", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"scope", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"scope=a", []string{" "}, nil, false, "", "", oauth.ErrMalformedValue},
		{"realm=api&x=y", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"audience=x", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"", nil, []string{"x", "y"}, false, "", "", oauth.ErrRepeated},
		{"", nil, []string{"x", ""}, false, "", "", oauth.ErrMalformedValue},
		{"scope=a&scope=a", nil, nil, false, "", "", oauth.ErrRepeated},
		{"scope=%22", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"", []string{"\u00fc"}, nil, false, "", "", oauth.ErrMalformedValue},
		{"", []string{"a", `"`}, nil, true, "", "", oauth.ErrMalformedValue},
		{"resource_metadata=https://api.example/%22,x=%22", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"resource_metadata=https://api.example/%5C", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"resource_metadata=api.example", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"acr=%22", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"acr=%5C", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"acr=%C3%BC", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"max_age=0", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"max_age=2147483648", nil, nil, false, "", "", oauth.ErrMalformedValue},
		{"scope=%zz", nil, nil, false, "", "", oauth.ErrMalformedBody},
		{"realm=/other", nil, nil, false, "", "", oauth.ErrRealm},
	} {
		r := httptest.NewRequest(http.MethodGet, "/oauth2/verify", nil)
		r.URL.RawQuery = c.query
		r.Header["X-Required-Scope"], r.Header["X-Required-Audience"] = c.scope, c.audience
		if c.below {
			r.URL.Path += "/a/b"
		}
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if scope != c.wantScope || audience != c.wantAud || !errors.Is(err, c.err) {
			t.Errorf("%s %q %q: %q, %q, %v; want %q, %q, %v", c.query, c.scope, c.audience, scope, audience, err, c.wantScope, c.wantAud, c.err)
		}
	}
}
