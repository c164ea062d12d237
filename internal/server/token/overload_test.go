package token_test

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// busy returns a server without a free slot. Nothing exists behind its queue: a request
// that runs in spite of that does not fail with 503.
func busy(t *testing.T, waiting int) *server.Server {
	t.Helper()
	return busyWith(t, waiting, &directory.Directory{})
}

func busyWith(t *testing.T, waiting int, clients *directory.Directory) *server.Server {
	t.Helper()
	iss := &issuer.Issuer{Realm: "/api", ID: "https://auth.example/oauth2/api", Directory: clients}
	log := slog.New(slog.DiscardHandler)
	s := server.New(clients, server.Options{
		Site: server.Site{PublicURL: "https://auth.example", Realm: "/api"}, Proxies: server.Proxies{PlainHTTP: true},
		Queue: server.NewQueue(overload.Capacity{Requests: 1, Waiting: waiting}, nil, log), Throttle: overload.NewThrottle(overload.RateLimits{}, nil),
	}, log)
	tokens, resources := token.Endpoints{Issuer: iss}, resource.Endpoints{Server: s, Issuer: iss, Directory: clients}
	s.Mount(slices.Concat(tokens.Routes(), resources.Routes())...)
	if err := s.Queue.Enter(t.Context(), overload.Refresh, netip.Prefix{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// asked returns a request from this machine.
func asked(path, form string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

const tokenEndpoint = "/oauth2/api/access_token"

// Each request waits in its own class, so that refreshes precede codes. It waits before
// anything is looked up or compared, including its client.
func TestARequestWaitsInItsClassAndBeforeItsClientIsAuthenticated(t *testing.T) {
	const who = "&client_id=shop&client_secret=guess"
	for name, c := range map[string]struct {
		overload.Class
		path, form string
	}{
		"refresh":              {overload.Refresh, tokenEndpoint, "grant_type=refresh_token&refresh_token=x" + who},
		"refresh, by query":    {overload.Refresh, "/oauth2/access_token?realm=/api", "grant_type=refresh_token&refresh_token=x" + who},
		"refresh of no client": {overload.Refresh, tokenEndpoint, "grant_type=refresh_token&refresh_token=x"},
		"code":                 {overload.Code, tokenEndpoint, "grant_type=authorization_code&code=x&redirect_uri=x" + who},
		"introspection":        {overload.Check, "/oauth2/api/introspect", "token=x" + who},
		"revocation":           {overload.Refresh, "/oauth2/api/revoke", "token=x" + who},
	} {
		for _, basic := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := busy(t, 10)
					r := asked(c.path, c.form)
					if basic {
						r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("%zz")))
					}
					w := httptest.NewRecorder()
					go s.Handler().ServeHTTP(w, r)
					synctest.Wait()
					for of := range overload.Own + 1 {
						if n := s.Queue.Queued(of); (n == 1) != (of == c.Class) {
							t.Errorf("%d wait in class %d, want one in class %d", n, of, c.Class)
						}
					}
					time.Sleep(overload.MaxWait)
					synctest.Wait()
					if w.Code != http.StatusServiceUnavailable {
						t.Errorf("after its wait: %d %s", w.Code, w.Body)
					}
				})
			})
		}
	}
}

// Requests of self-registered clients wait in a class of their own, whether the id is in
// the form or in Basic.
func TestClientsThatRegisteredThemselvesWaitInAClassOfTheirOwn(t *testing.T) {
	const document, registration = "https%3A%2F%2Fagent.example%2Fclient.json", "mintage_ci_x"
	kit := testkit.New(t)
	kit.Register(client.Registration{ID: "https://shop.example/", Settings: store.Settings{Name: "Shop", RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}})
	for name, c := range map[string]struct {
		path, form, basic string
		class             overload.Class
	}{
		"document":      {tokenEndpoint, "grant_type=refresh_token&refresh_token=x&client_id=" + document, "", overload.Own},
		"registration":  {tokenEndpoint, "grant_type=refresh_token&refresh_token=x&client_secret=x&client_id=" + registration, "", overload.Own},
		"by Basic":      {tokenEndpoint, "grant_type=authorization_code&code=x&redirect_uri=x", registration + ":x", overload.Own},
		"introspection": {"/oauth2/api/introspect", "token=x&client_secret=x&client_id=" + registration, "", overload.Own},
		"revocation":    {"/oauth2/api/revoke", "token=x&client_id=" + document, "", overload.Own},
		// An operator's client, whatever its id looks like.
		"an operator's": {tokenEndpoint, "grant_type=refresh_token&refresh_token=x&client_secret=x&client_id=https%3A%2F%2Fshop.example%2F", "", overload.Refresh},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := busyWith(t, 10, kit.Directory)
				r := asked(c.path, c.form)
				if c.basic != "" {
					r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.basic)))
				}
				go s.Handler().ServeHTTP(httptest.NewRecorder(), r)
				synctest.Wait()
				if n := s.Queue.Queued(c.class); n != 1 {
					t.Errorf("%d wait in the class", n)
				}
				time.Sleep(overload.MaxWait)
				synctest.Wait()
			})
		})
	}
}

// unread is a body that never arrives.
type unread struct{ read bool }

func (u *unread) Read([]byte) (int, error) {
	u.read = true
	return 0, errors.New("read")
}

// If no request can be queued, the response is sent before the body is read.
func TestAFullQueueIsNoticedBeforeTheBodyIsRead(t *testing.T) {
	for _, path := range []string{tokenEndpoint, "/oauth2/api/introspect", "/oauth2/api/revoke"} {
		synctest.Test(t, func(t *testing.T) {
			s := busy(t, 1)
			go s.Queue.Enter(t.Context(), overload.Refresh, netip.Prefix{})
			synctest.Wait()
			if s.Queue.Early() == nil {
				t.Fatal("the queue is not full")
			}
			body := &unread{}
			r := asked(path, "")
			r.Body, r.ContentLength = io.NopCloser(body), 10
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable || body.read {
				t.Errorf("%s: %d, and the body was read: %t", path, w.Code, body.read)
			}
			time.Sleep(overload.MaxWait)
		})
	}
}

// One network gets a share of the queue for self-registered clients.
func TestOneNetworkHasItsShareOfTheirQueue(t *testing.T) {
	kit := testkit.New(t)
	synctest.Test(t, func(t *testing.T) {
		s := busyWith(t, 72, kit.Directory)
		for range 9 {
			r := asked(tokenEndpoint, "grant_type=refresh_token&refresh_token=x&client_id=mintage_ci_x")
			r.RemoteAddr, r.TLS = "192.0.2.1:1", &tls.ConnectionState{}
			go s.Handler().ServeHTTP(httptest.NewRecorder(), r)
			synctest.Wait()
		}
		if n := s.Queue.Queued(overload.Own); n != 3 {
			t.Errorf("%d are queued, want a third of 9", n)
		}
		time.Sleep(overload.MaxWait)
		synctest.Wait()
	})
}
