package adminclient

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/testkit"
)

// A remote is a deployment whose admin API is called over TCP with tokens.
type remote struct {
	*testkit.Kit
	api *admin.API
	url string
	tls http.RoundTripper
}

func newRemote(t *testing.T) *remote {
	kit := testkit.New(t, func(s *testkit.Setup) { s.Schedule = keys.Schedule{} })
	logins := login.New(kit.Issuer, login.Documents{Realm: testkit.Realm, Store: kit.Issuer.Store, Directory: kit.Issuer.Directory, Now: kit.Issuer.Now})
	api := admin.NewAPI(cases.Admin{
		Store: kit.Issuer.Store, Realm: testkit.Realm, Policy: kit.Issuer.Policy, Now: kit.Issuer.Now, KEK: kit.Issuer.Directory.KEK,
		Ring: func(context.Context) (*keys.Ring, error) { return kit.Issuer.Directory.Ring(), nil },
	}, kit.Issuer, logins, admin.Access{Configured: "configured"}, slog.New(slog.DiscardHandler))
	s := httptest.NewTLSServer(api.Handler())
	t.Cleanup(s.Close)
	return &remote{kit, api, s.URL, s.Client().Transport}
}

// as returns a client with a token.
func (r *remote) as(token string) *Client {
	return &Client{at: "auth.example:8443", url: r.url, token: token, file: "/etc/token", client: http.Client{Transport: r.tls}}
}

// newToken returns a token that is valid for an hour.
func (r *remote) newToken(t *testing.T, name, role string) string {
	t.Helper()
	var made adminapi.NewToken
	if err := r.as("configured").Post(t.Context(), adminapi.TokenRequest{Name: name, Role: role, ExpiresIn: "1h"}, &made, "admin-tokens"); err != nil {
		t.Fatal(err)
	}
	return made.Token
}

// contents returns the names and hashes of the files of an embedded store.
func contents(t *testing.T, dir string) (list string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".lock") {
			return err
		}
		text, err := os.ReadFile(path)
		list += fmt.Sprintf("%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil || list == "" {
		t.Fatal(list, err)
	}
	return list
}

// An operator's mistake causes a clear error and writes nothing.
func TestOperatorErrorsWriteNothing(t *testing.T) {
	for name, c := range map[string]struct {
		try  func(t *testing.T, cfg config.Config) error
		want []string
	}{
		"a socket that refuses": {func(t *testing.T, cfg config.Config) error {
			answering(t, cfg, func(http.ResponseWriter, *http.Request) { t.Error("it was called") })
			return asNobody(t, cfg, func() error {
				_, err := Connect(t.Context(), cfg, "1.0", false)
				return err
			})
		}, []string{"the admin socket", "refuses this user", "or let a group use it: admin.group"}},
		"a server of another version": {func(t *testing.T, cfg config.Config) error {
			answering(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(adminapi.Version, "1.0")
				w.WriteHeader(http.StatusNotFound)
				w.Write([]byte(`{"title":"no such resource","status":404}`))
			})
			a, err := Connect(t.Context(), cfg, "2.0", false)
			if err != nil {
				return err
			}
			return a.Post(t.Context(), nil, nil, "new", "verb")
		}, []string{"nothing was changed", "the server's version is 1.0, and this command's 2.0"}},
		"two commands at once": {func(t *testing.T, cfg config.Config) error {
			first, err := Connect(t.Context(), cfg, "1.0", false)
			if err != nil {
				return err
			}
			defer first.Close()
			_, err = connect(t.Context(), cfg, "1.0", false, 2*lockInterval)
			return err
		}, []string{fmt.Sprintf("process %d has locked", os.Getpid())}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := stored(t)
			before := contents(t, cfg.Data)
			err := c.try(t, cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(hint(err), part) {
					t.Errorf("%q is missing in: %s", part, hint(err))
				}
			}
			if after := contents(t, cfg.Data); after != before {
				t.Errorf("the store was\n%s, and is\n%s", before, after)
			}
		})
	}
	r := newRemote(t)
	watch, late := r.newToken(t, "watch", "auditor"), r.newToken(t, "late", "admin")
	r.Clock.Advance(30 * time.Minute)
	auditor := r.as(watch)
	changes := 0
	var any struct{}
	if _, err := auditor.Get(t.Context(), &any, nil, "keys"); err != nil { // updates the token's last use
		t.Fatal(err)
	}
	before := testkit.Tables(t, r.Dir)
	if !strings.Contains(before, "documents, 1 rows") {
		t.Fatalf("the store is not read:\n%s", before)
	}
	for _, rt := range r.api.Routes() {
		if rt.Needs != cases.RoleAdmin {
			continue
		}
		path := strings.Split(strings.TrimPrefix(rt.Path, "/admin/v1/"), "/")
		_, err := auditor.do(t.Context(), admin.Ask{Method: rt.Method, Path: path}, nil)
		if changes++; err == nil || !strings.Contains(hint(err), "token:watch has the role auditor") {
			t.Errorf("%s %s by an auditor: %v", rt.Method, rt.Path, err)
		}
	}
	if changes < 30 {
		t.Errorf("an auditor has tried %d changes", changes)
	}
	r.Clock.Advance(time.Hour)
	if err := r.as(late).Post(t.Context(), nil, nil, "keys", "rotate"); err == nil || !strings.Contains(hint(err), `"late" expired on`) || !strings.Contains(hint(err), "/etc/token") {
		t.Errorf("an expired token: %v", err)
	}
	if after := testkit.Tables(t, r.Dir); after != before {
		t.Errorf("the store was\n%s, and is\n%s", before, after)
	}
}

// asNobody runs f as a user without access to the admin socket, because root may use
// every socket.
func asNobody(t *testing.T, cfg config.Config, f func() error) error {
	t.Helper()
	if err := os.Chmod(filepath.Join(cfg.Data, "admin.sock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if err := os.Chmod(filepath.Join(cfg.Data, "admin.sock"), 0); err != nil {
			t.Fatal(err)
		}
		return f()
	}
	for dir := cfg.Data; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is not reused after the goroutine
		if err := syscall.Setfsuid(65534); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}
