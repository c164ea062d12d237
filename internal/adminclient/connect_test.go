package adminclient

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// stored returns the configuration of a deployment with SQLite and without a server.
func stored(t *testing.T) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Data = t.TempDir()
	st, err := sqlite.Create(t.Context(), cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// hint returns an error with its hint.
func hint(err error) string {
	var h *deployment.Hinted
	if errors.As(err, &h) {
		return err.Error() + "\n" + h.Hint
	}
	return err.Error()
}

// answering serves a handler on the admin socket.
func answering(t *testing.T, cfg config.Config, handler http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("unix", strings.TrimPrefix(cfg.AdminListen(), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// If the command line names a server that does not answer, for example behind a broken
// tunnel, the command must not use the local store instead.
func TestANamedServerIsNotReplacedByTheStoreHere(t *testing.T) {
	cfg := stored(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Admin.Listen = l.Addr().String()
	l.Close()
	if a, err := Connect(t.Context(), cfg, "1.0", true); err == nil || !strings.Contains(err.Error(), "no server answers on "+cfg.Admin.Listen) {
		t.Errorf("%v, %v", a, err)
	}
	a, err := Connect(t.Context(), cfg, "1.0", false) // the server of this configuration has stopped
	if err != nil || !strings.Contains(a.At(), "no server runs") {
		t.Fatalf("%v, %v", a, err)
	}
	a.Close()
}

func TestWithoutAServerTheCommandAnswersItself(t *testing.T) {
	cfg := stored(t)
	// A socket file that a killed server has left does not count as a server.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(cfg.Data, "admin.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil || !strings.Contains(a.At(), "no server runs") {
		t.Fatalf("%v, %v", a, err)
	}
	list, next, err := List[adminapi.Grant](t.Context(), a, "grants", adminapi.Page{Limit: 5}, nil)
	if err != nil || len(list) != 0 || next != "" {
		t.Errorf("%v, %q, %v", list, next, err)
	}
	// The key-encryption key is read only by commands that need it.
	if err := a.Post(t.Context(), nil, nil, "keys", "rotate"); err == nil || !strings.Contains(err.Error(), "the key-encryption key is missing") {
		t.Errorf("without a key-encryption key: %v", err)
	}
	err = a.Delete(t.Context(), nil, "grants", strings.Repeat("0", 32))
	if err == nil || !strings.Contains(hint(err), "there is no grant") || !strings.Contains(hint(err), "it never began") {
		t.Errorf("no such grant: %v", err)
	}
	invalid := (*oauth.Invalid)(nil)
	if _, err := a.Get(t.Context(), nil, map[string][]string{"limit": {"0"}}, "grants"); !errors.As(err, &invalid) || invalid.Field != "limit" || strings.Contains(invalid.Message, "version") {
		t.Errorf("a wrong parameter: %v", err)
	}
	a.Close()
	if text, err := os.ReadFile(filepath.Join(cfg.Data, "serve.lock")); err != nil || len(text) > 0 {
		t.Errorf("the lock file holds %q, %v", text, err)
	}
}

// Without a server, the settings of a realm apply as well.
func TestWithoutAServerTheSettingsOfTheRealmHold(t *testing.T) {
	cfg := stored(t)
	path, _ := deployment.KEKPath(cfg)
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	kek, err := deployment.ReadKEK(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = directory.Open(t.Context(), st, kek, deployment.KeySchedule(cfg), slog.New(slog.DiscardHandler), time.Now)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	staff := cfg
	staff.Realm, staff.Login.Mode, staff.Authorization.Profile, staff.AccessTokenLifetime = "/staff", config.LoginOff, config.ProfileFAPI2, cfg.AccessTokenLifetime*2
	cfg.Realms = []config.Config{staff}
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	refused := func(err error, field string) {
		t.Helper()
		var invalid *oauth.Invalid
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%v, which is not about %s", err, field)
		}
	}
	shop := func(window time.Duration) adminapi.Client {
		return adminapi.Client{Registration: client.Registration{ID: "shop", Settings: store.Settings{
			Name: "Shop", Scope: "read", Auth: store.AuthEither, RedirectURIs: []string{"https://shop.example/cb"}, RetryWindow: store.InMilliseconds(window),
		}}, State: store.ClientEnabled}
	}
	longest := cfg.AccessTokenLifetime.Std() - time.Minute
	refused(a.Post(t.Context(), shop(longest+time.Second), nil, "clients"), "retry_window")
	refused(a.Post(t.Context(), shop(longest), nil, "realms", "staff", "clients"), "profile")
	if err := a.Post(t.Context(), shop(longest), nil, "clients"); err != nil {
		t.Error(err)
	}
	for realm, want := range map[string]int{"api": 1, "staff": 0} {
		if list, _, err := Items[adminapi.Client](t.Context(), a, "clients", nil, "realms", realm, "clients"); err != nil || len(list) != want {
			t.Errorf("%s has %d clients, %v", realm, len(list), err)
		}
		if list, _, err := Items[adminapi.Event](t.Context(), a, "events", url.Values{"client_id": {"shop"}}, "realms", realm, "events"); err != nil || len(list) != want {
			t.Errorf("%s has %d events, %v", realm, len(list), err)
		}
	}
	// Operators are the built-in users of the first realm.
	refused(a.Post(t.Context(), adminapi.OperatorRequest{Name: "nobody", Role: operator.Admin}, nil, "operators"), "name")
}

func TestCommandsWithoutAServerTakeTurns(t *testing.T) {
	cfg := stored(t)
	first, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error)
	go func() {
		a, err := Connect(t.Context(), cfg, "1.0", false)
		if err == nil {
			a.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("the second did not wait: %v", err)
	case <-time.After(3 * lockInterval):
	}
	first.Close()
	if err := <-second; err != nil {
		t.Fatal(err)
	}
}

// The second of two commands waits for the first, and then names its process.
func TestACommandThatWaitsInVainNamesTheProcess(t *testing.T) {
	cfg := stored(t)
	first, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	a, err := connect(t.Context(), cfg, "1.0", false, 2*lockInterval)
	if err == nil {
		a.Close()
		t.Fatal("two commands have the store")
	}
	if text := hint(err); !strings.Contains(text, fmt.Sprintf("process %d has locked %s", os.Getpid(), cfg.Data)) || !strings.Contains(text, "--config") {
		t.Errorf("%s", text)
	}
}

// A server that does not respond may have executed the request.
func TestAServerThatHangsIsAnError(t *testing.T) {
	cfg := stored(t)
	end := make(chan struct{})
	answering(t, cfg, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	defer close(end)
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	if a.client.Timeout != 0 || a.client.Transport.(*http.Transport).ResponseHeaderTimeout != answerTime {
		t.Errorf("it waits for %s and %s", a.client.Timeout, a.client.Transport.(*http.Transport).ResponseHeaderTimeout)
	}
	a.client.Transport.(*http.Transport).ResponseHeaderTimeout = lockInterval
	err = a.Post(t.Context(), nil, nil, "keys", "rotate")
	if text := hint(err); !strings.Contains(text, "the server at "+a.At()+" does not answer") || !strings.Contains(text, "mintage doctor") || !strings.Contains(text, "may have been changed, or not") {
		t.Errorf("%s", text)
	}
}

func TestASocketThatRefusesTheCallerIsAnError(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root may use every socket, so only the hint can be tested.
		path := filepath.Join(t.TempDir(), "admin.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for mode, want := range map[os.FileMode]string{0o600: "admin.group", 0o660: "members of the group"} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(path)
			if err != nil || !strings.Contains(admitted(info), want) {
				t.Errorf("%o: %q, %v", mode, admitted(info), err)
			}
		}
		return
	}
	cfg := stored(t)
	answering(t, cfg, func(http.ResponseWriter, *http.Request) {})
	if err := os.Chmod(filepath.Join(cfg.Data, "admin.sock"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), cfg, "1.0", false); !errors.Is(err, syscall.EACCES) || !strings.Contains(hint(err), "admin.group") {
		t.Errorf("%v", err)
	}
}

func TestAServerOfAnotherVersionIsNamed(t *testing.T) {
	cfg := stored(t)
	answering(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "mintage/2.0" {
			t.Errorf("User-Agent %q", r.UserAgent())
		}
		w.Header().Set(adminapi.Version, "1.0")
		if r.URL.Path == "/admin/v1/clients" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			w.Write([]byte(`{"title":"invalid request","status":422,"field":"contact","detail":"is not a setting of clients"}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"title":"no such resource","status":404}`))
	})
	a, err := Connect(t.Context(), cfg, "2.0", false)
	if err != nil {
		t.Fatal(err)
	}
	invalid := (*oauth.Invalid)(nil)
	if err := a.Post(t.Context(), nil, nil, "clients"); !errors.As(err, &invalid) || invalid.Field != "contact" || !strings.Contains(invalid.Message, "the server's version is 1.0, and this command's 2.0") {
		t.Errorf("a setting that the server does not know: %v", err)
	}
	err = a.Post(t.Context(), nil, nil, "new", "verb")
	if text := hint(err); !strings.Contains(text, "nothing was changed") || !strings.Contains(text, "the server's version is 1.0, and this command's 2.0") {
		t.Errorf("%s", text)
	}
}

func TestATokenThatIsRefusedIsNamed(t *testing.T) {
	cfg := stored(t)
	answering(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"title":"admin token required","status":401}`))
	})
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	a.token, a.file = "expired", "/etc/token"
	if text := hint(a.Post(t.Context(), nil, nil, "keys", "rotate")); !strings.Contains(text, "refuses the token") || !strings.Contains(text, "/etc/token") {
		t.Errorf("%s", text)
	}
}

// A list is read in several responses, up to its limit.
func TestAListIsReadInSeveralAnswers(t *testing.T) {
	cfg := stored(t)
	var queries []string
	answering(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		w.Write([]byte(`{"grants":[{"id":"a"},{"id":"b"}],"next":"b"}`))
	})
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	list, next, err := List[adminapi.Grant](t.Context(), a, "grants", adminapi.Page{Limit: 4}, nil)
	if err != nil || len(list) != 4 || next != "b" || strings.Join(queries, " ") != "limit=4 after=b&limit=2" {
		t.Errorf("%v, %q, %v, %q", list, next, err, queries)
	}
}

// The hint is doctor and not the log: a server without a usable store does not log the
// failing requests.
func TestAnOutageOfTheStoreLeadsToDoctorAndNotToTheLog(t *testing.T) {
	cfg := stored(t)
	answering(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"title":"try again later","status":503,"detail":"read directory: connection refused"}`))
	})
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err == nil {
		_, _, err = List[adminapi.Grant](t.Context(), a, "grants", adminapi.Page{Limit: 4}, nil)
	}
	if text := hint(err); !strings.Contains(text, "connection refused") || !strings.Contains(text, "mintage doctor") || strings.Contains(text, "the server's log") {
		t.Error(text)
	}
}

// An update is computed from the current resource. If another caller changes the resource
// between reading and writing, the update reads it again.
func TestAnUpdateBeginsAgainIfSomebodyElseWasFirst(t *testing.T) {
	cfg := stored(t)
	puts, others := 0, 2 // changes by others, each just before a write
	answering(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, min(puts, others)))
			fmt.Fprintf(w, `{"id":"a","name":"%d"}`, min(puts, others))
			return
		}
		if r.URL.RawQuery == "dry_run=true" {
			w.Write([]byte(`{}`))
			return
		}
		if puts++; puts <= others {
			w.WriteHeader(http.StatusPreconditionFailed)
			w.Write([]byte(`{"type":"urn:mintage:problem:changed","title":"changed","status":412,"detail":"has changed"}`))
			return
		}
		if r.Header.Get("If-Match") != fmt.Sprintf(`"%d"`, others) {
			t.Errorf("If-Match %s", r.Header.Get("If-Match"))
		}
		io.Copy(w, r.Body)
	})
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	add := func(v *adminapi.API) error {
		v.Name += "+"
		return nil
	}
	agree := func() error { return nil }
	if old, next, err := Update(t.Context(), a, add, agree, "apis", "a"); err != nil || old.Name != "2" || next.Name != "2+" {
		t.Errorf("%+v, %+v, %v", old, next, err)
	}
	puts, others = 0, updateAttempts
	refuse := errors.New("no")
	if _, _, err := Update(t.Context(), a, add, func() error { return refuse }, "apis", "a"); !errors.Is(err, refuse) || puts > 0 {
		t.Errorf("a change without confirmation: %v after %d writes", err, puts)
	}
	if _, _, err := Update(t.Context(), a, add, agree, "apis", "a"); err == nil || err.Error() != "has changed" || puts != updateAttempts {
		t.Errorf("%v after %d writes", err, puts)
	}
}

// The operator must know that a change may have been made if the server is killed between
// the request and its answer.
func TestAServerThatEndsBeforeItAnswers(t *testing.T) {
	cfg := stored(t)
	answering(t, cfg, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a, err := Connect(t.Context(), cfg, "1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	err = a.Post(t.Context(), nil, nil, "keys", "rotate")
	if err == nil || !strings.Contains(hint(err), "ended before it answered") || !strings.Contains(hint(err), "may have been changed, or not") {
		t.Errorf("%v", err)
	}
}
