//go:build e2e

package resource

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Traefik, Envoy and Spring do not run here. Instead the tests send the requests that
// these programs document for the configuration on their pages.

// replay sends a request for any host name to the server under test.
func (w *world) replay(t *testing.T, method, address, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+w.host()+strings.TrimPrefix(address, "https://auth.example.com"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	client := *w.post
	client.CheckRedirect = asIs
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func readYAML(t *testing.T, text string, v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
}

// wantAnswer checks the response to a proxy, and that it has each header that the proxy's
// configuration passes on.
func wantAnswer(t *testing.T, resp *http.Response, status int, challenge string, passedOn []string) {
	t.Helper()
	if resp.StatusCode != status || resp.Header.Get("WWW-Authenticate") != challenge {
		t.Errorf("%s %s: status %d, challenge %q; want %d, %q", resp.Request.Method, resp.Request.URL.Path, resp.StatusCode, resp.Header.Get("WWW-Authenticate"), status, challenge)
	}
	names := []string{"X-Auth-Subject", "X-Auth-Client", "X-Auth-Scope", "X-Auth-Expires"}
	for _, name := range append(names, "X-Auth-Actor") {
		if !slices.ContainsFunc(passedOn, func(p string) bool { return strings.EqualFold(p, name) }) {
			t.Errorf("the page's configuration does not pass %s on", name)
		}
	}
	for _, name := range names {
		if got := resp.Header.Get(name) != ""; got != (status == http.StatusOK) {
			t.Errorf("status %d, and %s is there: %t", status, name, got)
		}
	}
}

// traefikStatic and traefikDynamic are the parts of the page's files that Traefik reads.
type traefikStatic struct {
	EntryPoints map[string]struct {
		Address string
		HTTP    struct {
			Alias string `yaml:"aliasHeadersStrategy"`
		}
	} `yaml:"entryPoints"`
}

type traefikDynamic struct {
	HTTP struct {
		Routers map[string]struct {
			EntryPoints []string `yaml:"entryPoints"`
			Rule        string
			Priority    int
			Middlewares []string
		}
		Middlewares map[string]struct {
			Headers struct {
				Request map[string]string `yaml:"customRequestHeaders"`
			}
			ForwardAuth *struct {
				Address             string
				AuthRequestHeaders  []string `yaml:"authRequestHeaders"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
		}
	}
}

func readTraefik(t *testing.T) (static traefikStatic, page traefikDynamic) {
	t.Helper()
	readYAML(t, shown(t, proxies, "/etc/traefik/traefik.yml"), &static)
	readYAML(t, shown(t, proxies, "/etc/traefik/dynamic/api.yml"), &page)
	return static, page
}

// checkTraefik replays ForwardAuth: it sends a GET without a body to the address, with
// the headers of authRequestHeaders, and with data about the original request in
// X-Forwarded-* headers.
func (w *world) checkTraefik(t *testing.T) {
	_, page := readTraefik(t)
	reading := w.pair(t, w.jwt, "read").AccessToken
	for _, test := range []struct {
		middleware, method, token string
		status                    int
		challenge                 string
	}{
		{"may-read", "GET", reading, http.StatusOK, ""},
		{"may-write", "POST", reading, http.StatusForbidden, narrowText},
		{"may-write", "POST", w.pair(t, w.opaque, "read write").AccessToken, http.StatusOK, ""},
		{"may-read", "GET", forge(reading), http.StatusUnauthorized, badToken},
		{"may-read", "GET", w.pair(t, w.others[0], "read").AccessToken, http.StatusUnauthorized, badToken},
		{"may-read", "GET", "", http.StatusUnauthorized, noToken},
	} {
		auth := page.HTTP.Middlewares[test.middleware].ForwardAuth
		header := http.Header{
			"X-Forwarded-Method": {test.method}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"api.example.com"},
			"X-Forwarded-Uri": {"/reports/?scope=x&scope=y"}, "X-Forwarded-For": {"192.0.2.7"}, "Accept-Encoding": {"gzip"},
		}
		if test.challenge != "" {
			test.challenge += `, resource_metadata="` + audience + metadataPath + `"`
		}
		if test.token != "" && slices.Contains(auth.AuthRequestHeaders, "Authorization") {
			header.Set("Authorization", "Bearer "+test.token)
		}
		resp, _ := w.replay(t, "GET", auth.Address, "", header)
		wantAnswer(t, resp, test.status, test.challenge, auth.AuthResponseHeaders)
	}
}

// envoyManager and envoyHost are the parts of the page that Envoy reads.
type envoyManager struct {
	Options struct {
		Underscores string `yaml:"headers_with_underscores_action"`
	} `yaml:"common_http_protocol_options"`
	Early []struct {
		Config struct {
			Mutations []struct{ Remove string }
		} `yaml:"typed_config"`
	} `yaml:"early_header_mutation_extensions"`
	LocalReply struct {
		Mappers []struct {
			Filter struct {
				StatusCode struct {
					Comparison struct {
						Op    string
						Value struct {
							Default int `yaml:"default_value"`
						}
					}
				} `yaml:"status_code_filter"`
			}
			Add []envoyHeader `yaml:"headers_to_add"`
		}
	} `yaml:"local_reply_config"`
	Filters []struct {
		Config struct {
			FailureModeAllow bool `yaml:"failure_mode_allow"`
			Allowed          struct {
				Patterns []struct {
					Safe struct{ Regex string } `yaml:"safe_regex"`
				}
			} `yaml:"allowed_headers"`
			HTTPService struct {
				PathPrefix string `yaml:"path_prefix"`
				Request    struct {
					Add []struct{ Key, Value string } `yaml:"headers_to_add"`
				} `yaml:"authorization_request"`
				Response struct {
					Upstream struct{ Patterns []struct{ Exact string } } `yaml:"allowed_upstream_headers"`
				} `yaml:"authorization_response"`
			} `yaml:"http_service"`
		} `yaml:"typed_config"`
	} `yaml:"http_filters"`
}

type envoyHost struct {
	Hosts []struct {
		Remove []string `yaml:"request_headers_to_remove"`
		Routes []envoyRoute
	} `yaml:"virtual_hosts"`
}

type envoyRoute struct {
	Match  struct{ Path, Prefix string }
	Direct *struct {
		Status int
		Body   struct {
			Inline string `yaml:"inline_string"`
		}
	} `yaml:"direct_response"`
	Add     []envoyHeader                      `yaml:"response_headers_to_add"`
	Filters map[string]struct{ Disabled bool } `yaml:"typed_per_filter_config"`
}

type envoyHeader struct{ Header struct{ Key, Value string } }

func readEnvoy(t *testing.T) (page envoyManager, host envoyHost) {
	t.Helper()
	readYAML(t, shown(t, proxies, "the HTTP connection manager"), &page)
	readYAML(t, shown(t, proxies, "the cluster of Mintage"), &host)
	return page, host
}

// checkEnvoy replays ext_authz: it sends the request's method, its path and query after
// path_prefix, its Host and Authorization, no body, and the headers of headers_to_add.
func (w *world) checkEnvoy(t *testing.T) {
	page, _ := readEnvoy(t)
	service := page.Filters[0].Config.HTTPService
	if page.Filters[0].Config.FailureModeAllow {
		t.Error("the page's configuration allows requests while Mintage does not answer")
	}
	var passedOn []string
	for _, p := range service.Response.Upstream.Patterns {
		passedOn = append(passedOn, p.Exact)
	}
	reading, writing := w.pair(t, w.jwt, "read").AccessToken, w.pair(t, w.opaque, "write").AccessToken
	narrow := strings.Replace(narrowText, `"write"`, `"read"`, 1)
	for _, path := range []string{
		"", "/", "/reports", "/reports/", "/reports/7?month=5&month=6", "/reports?scope=write&aud=x&realm=other", "/a%20b", "/a%2Fb", "//a", "/a/../introspect",
		"/a//b/./c", "/?%zz", "/verify", "/oauth2/verify",
	} {
		for _, test := range []struct {
			method, token string
			status        int
			challenge     string
		}{
			{"GET", reading, http.StatusOK, ""},
			{"POST", reading, http.StatusOK, ""},
			{"DELETE", reading, http.StatusOK, ""},
			{"OPTIONS", reading, http.StatusOK, ""},
			{"PURGE", reading, http.StatusOK, ""},
			{"GET", writing, http.StatusForbidden, narrow},
			{"GET", forge(reading), http.StatusUnauthorized, badToken},
			{"HEAD", "", http.StatusUnauthorized, noToken},
		} {
			header := http.Header{"Host": {"api.example.com"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Envoy-Internal": {"true"}}
			if test.token != "" {
				header.Set("Authorization", "Bearer "+test.token)
			}
			for _, h := range service.Request.Add {
				header.Set(h.Key, h.Value)
			}
			resp, _ := w.replay(t, test.method, service.PathPrefix+path, "", header)
			wantAnswer(t, resp, test.status, test.challenge, passedOn)
		}
	}
	header := http.Header{}
	for _, h := range service.Request.Add {
		header.Set(h.Key, h.Value)
	}
	header.Set("Authorization", "Bearer "+w.pair(t, w.others[1], "read").AccessToken)
	resp, _ := w.replay(t, "GET", service.PathPrefix+"/reports?aud=https://other.example.com", "", header)
	wantAnswer(t, resp, http.StatusUnauthorized, badToken, passedOn)
}

// TestTheJavaOfTheSpringPageParsesAndNamesTheMetadata only parses the Java of the page:
// Spring is not installed here.
func TestTheJavaOfTheSpringPageParsesAndNamesTheMetadata(t *testing.T) {
	for version, wants := range map[string][]string{
		"7": {`.resource("` + audience + `")`, `.authorizationServer("` + issuer + `")`, `.tlsClientCertificateBoundAccessTokens(false)`},
		"6": {`"` + metadataPath + `"`, `"Bearer resource_metadata=\"` + audience + `" + METADATA + "\""`, `.requestMatchers(HttpMethod.GET, METADATA).permitAll()`},
	} {
		text := shown(t, "spring.md", "ApiSecurity.java, for Spring Security "+version)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("Spring Security %s: no %s", version, want)
			}
		}
		file := write(t, filepath.Join(t.TempDir(), "ApiSecurity.java"), text)
		if out, err := exec.CommandContext(t.Context(), "javac", "-XDshould-stop.ifNoError=PARSE", file).CombinedOutput(); err != nil {
			t.Errorf("Spring Security %s: %v\n%s", version, err, out)
		}
		if _, document, ok := strings.Cut(text, `"""`); ok {
			document, _, _ = strings.Cut(document, `"""`)
			checkMetadataText(t, document)
		} else if version == "6" {
			t.Error("the page's controller has no document")
		}
	}
}

// checkSpring replays Spring Security: it reads the metadata behind the issuer and the
// keys, or posts the token with Basic authentication.
func (w *world) checkSpring(t *testing.T) {
	var page struct {
		Spring struct {
			Security struct {
				OAuth2 struct {
					Server struct {
						JWT struct {
							Issuer     string `yaml:"issuer-uri"`
							JWKS       string `yaml:"jwk-set-uri"`
							Algorithms string `yaml:"jws-algorithms"`
							Audiences  string
						}
						Opaque struct {
							URI string `yaml:"introspection-uri"`
						} `yaml:"opaquetoken"`
					} `yaml:"resourceserver"`
				} `yaml:"oauth2"`
			}
		}
	}
	readYAML(t, shown(t, "spring.md", "application.yml"), &page)
	jwt := page.Spring.Security.OAuth2.Server.JWT
	readYAML(t, shown(t, "spring.md", "application-opaque.yml"), &page)
	introspection := page.Spring.Security.OAuth2.Server.Opaque.URI

	accept := http.Header{"Accept": {"application/json, application/*+json"}}
	for _, location := range []string{jwt.Issuer + "/.well-known/openid-configuration",
		"https://auth.example.com/.well-known/openid-configuration/oauth2/api", "https://auth.example.com/.well-known/oauth-authorization-server/oauth2/api"} {
		resp, body := w.replay(t, "GET", location, "", accept)
		var metadata struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		if err := json.Unmarshal([]byte(body), &metadata); err != nil || resp.StatusCode != http.StatusOK || metadata.Issuer != jwt.Issuer ||
			mustParse(t, metadata.JWKS).Path != mustParse(t, jwt.JWKS).Path {
			t.Errorf("%s: status %d, issuer %q, jwks_uri %q, %v", location, resp.StatusCode, metadata.Issuer, metadata.JWKS, err)
		}
	}
	token := w.pair(t, register(t, w.Server, "Spring", "--access-token-format", "jwt", "--jwt-type", "JWT", "--audience", audience), "read").AccessToken
	var header struct{ Alg, Typ, Kid string }
	first, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil || json.Unmarshal(text, &header) != nil || header.Typ != "JWT" || header.Alg != jwt.Algorithms || jwt.Audiences != audience {
		t.Errorf("header %s, which the page's configuration refuses (%v)", text, err)
	}
	resp, body := w.replay(t, "GET", jwt.JWKS, "", http.Header{"Accept": {"application/json, application/jwk-set+json"}})
	var set struct {
		Keys []struct{ Kty, Crv, Kid, Alg, Use string }
	}
	if err := json.Unmarshal([]byte(body), &set); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("keys: status %d, %v", resp.StatusCode, err)
	}
	if !slices.ContainsFunc(set.Keys, func(k struct{ Kty, Crv, Kid, Alg, Use string }) bool {
		return k.Kid == header.Kid && k.Kty == "EC" && k.Crv == "P-256" && (k.Use == "" || k.Use == "sig") && (k.Alg == "" || k.Alg == "ES256")
	}) {
		t.Errorf("the key %s is not in the set", header.Kid)
	}

	basic := base64.StdEncoding.EncodeToString([]byte(w.api.ID + ":" + w.api.Secret))
	post := http.Header{"Authorization": {"Basic " + basic}, "Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded;charset=UTF-8"}}
	for name, token := range map[string]string{"opaque": w.pair(t, w.opaque, "read").AccessToken, "JWT": token} {
		resp, body := w.replay(t, "POST", introspection, url.Values{"token": {token}}.Encode(), post)
		var got struct {
			Active                      bool
			Sub, Scope, Iss, Aud, Token string
			ClientID                    string `json:"client_id"`
			Exp, Iat                    int64
		}
		media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != http.StatusOK || media != "application/json" ||
			!got.Active || got.Sub != "alice" || got.Scope != "read" || got.Iss != issuer || got.Aud != audience || got.Exp <= got.Iat || got.Iat == 0 {
			t.Errorf("%s: status %d, %s, %+v, %v", name, resp.StatusCode, media, got, err)
		}
	}
	for name, token := range map[string]string{"forged": forge(token), "for another API": w.pair(t, w.others[0], "read").AccessToken} {
		if resp, body := w.replay(t, "POST", introspection, url.Values{"token": {token}}.Encode(), post); resp.StatusCode != http.StatusOK || body != `{"active":false}` {
			t.Errorf("%s: status %d, %s", name, resp.StatusCode, body)
		}
	}
}
