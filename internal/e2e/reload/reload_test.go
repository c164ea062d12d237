//go:build e2e

// Package reload tests SIGHUP on the built binary: changeable settings take effect at
// once, no request fails, and an invalid file changes nothing.
package reload

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const (
	before = "retry_window: 2m\nthrottle: {client_failures: 30}\n"
	// Each setting is visible to clients, except the last one, which takes a restart.
	after = "retry_window: 0s\nthrottle: {client_failures: 3}\nlog: {level: debug}\ncors: {origins: [https://app.example]}\njwks_max_age: 2h\n"
	// The first setting is valid, the other two are not.
	wrong = "cors: {origins: [https://other.example]}\nretry_window: soon\nlisen: x\n"
)

// A world is a server whose configuration the test changes while clients use it.
type world struct {
	*testing.T
	*binary.Server
	file   string
	states *net.UnixConn // receives the server's notifications to systemd
}

func newWorld(t *testing.T, first string) *world {
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	states, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { states.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	w := &world{T: t, file: filepath.Join(dir, "mintage.yaml"), states: states}
	w.write(first)
	w.Server = binary.Start(t, t.TempDir(), "--config", w.file)
	w.await("READY=1")
	return w
}

func (w *world) write(text string) {
	w.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// await reads the server's notifications until one contains a state.
func (w *world) await(state string) {
	w.Helper()
	if err := w.states.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		w.Fatal(err)
	}
	message := make([]byte, 4096)
	for {
		n, err := w.states.Read(message)
		if err != nil {
			w.Fatalf("the server does not say %s: %v", state, err)
		}
		if slices.Contains(strings.Split(string(message[:n]), "\n"), state) {
			return
		}
	}
}

// reload changes the configuration file, sends SIGHUP, and waits until the server has
// reloaded.
func (w *world) reload(text string) {
	w.Helper()
	w.write(text)
	if err := w.Signal(syscall.SIGHUP); err != nil {
		w.Fatal(err)
	}
	w.await("RELOADING=1")
	w.await("READY=1")
}

// refresh refreshes a token, and fails the test unless it gets a new pair.
func (w *world) refresh(client *http.Client, token string) string {
	a, err := w.Post(context.Background(), client, w.RefreshForm(token))
	if err != nil || a.Status != http.StatusOK || a.RefreshToken == "" {
		w.Errorf("a refresh is answered %d %s %s, %v", a.Status, a.Error, a.Description, err)
	}
	return a.RefreshToken
}

// begin redeems a new code and returns the refresh token.
func (w *world) begin(client *http.Client, subject string) string {
	w.Helper()
	code, err := w.FastCode(context.Background(), subject)
	if err != nil {
		w.Fatalf("the admin API: %v", err)
	}
	a, err := w.Post(context.Background(), client, w.ExchangeForm(code))
	if err != nil || a.Status != http.StatusOK {
		w.Fatalf("a redemption is answered %d %s, %v", a.Status, a.Error, err)
	}
	return a.RefreshToken
}

// fail authenticates with a wrong secret and returns the response's status.
func (w *world) fail(client *http.Client) int {
	w.Helper()
	form := w.RefreshForm("x")
	form.Set("client_secret", "wrong")
	a, err := w.Post(context.Background(), client, form)
	if err != nil {
		w.Fatal(err)
	}
	return a.Status
}

// allows reports whether CORS lets scripts of an origin read the token endpoint.
func (w *world) allows(client *http.Client, origin string) bool {
	w.Helper()
	r, err := http.NewRequest(http.MethodOptions, w.TokenEndpoint, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Origin", origin)
	r.Header.Set("Access-Control-Request-Method", http.MethodPost)
	resp, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header.Get("Access-Control-Allow-Origin") == origin
}

// repeats reports whether a spent refresh token returns the same pair again.
func (w *world) repeats(client *http.Client, subject string) bool {
	w.Helper()
	first := w.begin(client, subject)
	second := w.refresh(client, first)
	a, err := w.Post(context.Background(), client, w.RefreshForm(first))
	if err != nil {
		w.Fatal(err)
	}
	return a.Status == http.StatusOK && a.RefreshToken == second
}

func TestSIGHUPTakesTheConfigurationOverUnderLoad(t *testing.T) {
	w := newWorld(t, before)
	client := &http.Client{Transport: w.Transport(t, "")}
	stranger := &http.Client{Transport: w.Transport(t, "127.0.0.9")}

	// Refresh continuously, over persistent and over new connections.
	stop := make(chan struct{})
	var load sync.WaitGroup
	var refreshes atomic.Int64
	for i := range 4 {
		token := w.begin(client, fmt.Sprintf("user%d", i))
		mine := w.Transport(t, "")
		mine.DisableKeepAlives = i == 0
		load.Go(func() {
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
				}
				token = w.refresh(&http.Client{Transport: mine}, token)
				refreshes.Add(1)
			}
		})
	}
	halt := sync.OnceFunc(func() { close(stop); load.Wait() })
	defer halt()

	if w.allows(client, "https://app.example") || !w.repeats(client, "before") {
		t.Fatal("the first configuration is not in force")
	}
	w.reload(after)
	if !w.allows(client, "https://app.example") {
		t.Error("cors.origins has not changed")
	}
	if w.repeats(client, "after") {
		t.Error("retry_window has not changed")
	}
	for n := range 3 {
		if status := w.fail(stranger); status == http.StatusTooManyRequests {
			t.Errorf("failure %d of three is throttled", n+1)
		}
	}
	if status := w.fail(stranger); status != http.StatusTooManyRequests {
		t.Errorf("after three failures a wrong secret is answered %d: throttle.client_failures has not changed", status)
	}
	w.reload(after + "revocations_max_age: 6s\n")
	if status := w.fail(stranger); status != http.StatusTooManyRequests {
		t.Errorf("after a reload a wrong secret is answered %d: the reload has reset the failure count", status)
	}

	w.reload(wrong)
	if !w.allows(client, "https://app.example") || w.allows(client, "https://other.example") || w.repeats(client, "wrong") {
		t.Error("an invalid file has changed a setting")
	}

	for i := range binary.Scaled(10, 200) {
		w.reload([]string{before, after}[i%2])
	}
	n := refreshes.Load()
	halt()
	if n < 20 {
		t.Errorf("only %d refreshes ran meanwhile", n)
	}
	if err := w.Stop(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	w.judgeLog()
}

// register registers a client with an initial access token, and returns the status.
func (w *world) register(client *http.Client, token string) int {
	w.Helper()
	r, err := http.NewRequest(http.MethodPost, w.Issuer+"/register", strings.NewReader(`{"redirect_uris":["http://127.0.0.1/cb"],"token_endpoint_auth_method":"none"}`))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestRegistrationByReloads: enabling or disabling dynamic client registration takes a
// restart, because its keys are part of the key schedule. A reload neither enables
// registration nor removes the requirement of an initial access token, but it reads the
// token's file again.
// If the file of the key-encryption key was replaced by another, the next start fails: the
// log says so at the reload.
func TestAReloadNamesAnotherKEK(t *testing.T) {
	w := newWorld(t, "log: {level: info}\n")
	w.reload("log: {level: info}\n")
	const says = "would not start with the present file"
	if strings.Contains(w.Log(), says) {
		t.Errorf("before it was replaced:\n%s", w.Log())
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "kek"), []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	w.reload("log: {level: info}\n")
	// The log comes through a pipe, and may be later than the answer to the signal.
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(w.Log(), says) || !strings.Contains(w.Log(), "put back the kek file"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log:\n%s", w.Log())
		}
	}
}

func TestRegistrationByReloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	give := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	give(first)
	const off = "retry_window: 2m\n"
	on := "client_metadata: {registration: true, registration_token_file: " + file + "}\n"
	kept := `"settings":["client_metadata.registration","client_metadata.registration_token_file"]`
	judge := func(w *world, client *http.Client, when string, of map[string]int) {
		t.Helper()
		for token, want := range of {
			if status := w.register(client, token); status != want {
				t.Errorf("%s, with the token %.3s...: %d, want %d", when, token, status, want)
			}
		}
	}

	w := newWorld(t, off)
	client := &http.Client{Transport: w.Transport(t, "")}
	judge(w, client, "off", map[string]int{first: http.StatusNotFound})
	w.reload(on)
	judge(w, client, "switched on without a restart", map[string]int{first: http.StatusNotFound})
	if !strings.Contains(w.Log(), kept) {
		t.Error("the log does not say that the settings take a restart")
	}

	w = newWorld(t, on)
	client = &http.Client{Transport: w.Transport(t, "")}
	judge(w, client, "on", map[string]int{first: http.StatusCreated, second: http.StatusUnauthorized})
	give(second)
	w.reload(on)
	judge(w, client, "with another token", map[string]int{first: http.StatusUnauthorized, second: http.StatusCreated})
	give("short")
	w.reload(on)
	judge(w, client, "with a token that is refused", map[string]int{second: http.StatusCreated, "short": http.StatusUnauthorized})
	give(second)
	w.reload(off)
	judge(w, client, "switched off without a restart", map[string]int{"": http.StatusUnauthorized, first: http.StatusUnauthorized, second: http.StatusCreated})
	if !strings.Contains(w.Log(), kept) {
		t.Errorf("the log does not say that the settings take a restart:\n%s", w.Log())
	}
}

// judgeLog checks the log lines about the reloads.
func (w *world) judgeLog() {
	w.Helper()
	var changed, kept, faults []string
	reloads, firstDebug := 0, -1
	for line := range strings.Lines(w.Log()) {
		var entry struct {
			Level, Msg                string
			Changed, Settings, Faults []string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			w.Fatalf("%v in %s", err, line)
		}
		switch {
		case entry.Level == "DEBUG" && firstDebug < 0:
			firstDebug = reloads
		case entry.Msg == "configuration reloaded":
			if reloads++; reloads == 1 {
				changed = entry.Changed
			}
		case strings.HasPrefix(entry.Msg, "settings that take a restart") && kept == nil:
			kept = entry.Settings
		case strings.HasPrefix(entry.Msg, "the configuration cannot be used"):
			faults = entry.Faults
		}
	}
	if want := []string{"retry_window", "cors.origins", "throttle.client_failures", "log.level"}; !slices.Equal(changed, want) {
		w.Errorf("the log says that the first reload changed %q, want %q", changed, want)
	}
	if want := []string{"jwks_max_age"}; !slices.Equal(kept, want) {
		w.Errorf("the log says that %q kept their values, want %q", kept, want)
	}
	if len(faults) != 2 || !strings.HasPrefix(faults[0], w.file+":2: retry_window: ") || !strings.HasPrefix(faults[1], w.file+":3: unknown setting") {
		w.Errorf("the log lists the faults of the invalid file as %q", faults)
	}
	// The new level takes effect just before the line about it is written.
	if firstDebug != 0 && firstDebug != 1 {
		w.Errorf("requests are logged after %d reloads, want after the first", firstDebug)
	}
	if reloads != 2+binary.Scaled(10, 200) {
		w.Errorf("%d reloads are logged", reloads)
	}
}
