//go:build e2e

package crash

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// told is a relying party that counts the logout tokens it has read, by session or,
// without one, by subject. Until up is set, it fails half of the calls: before it has
// read the token, or before its answer.
type told struct {
	t  *testing.T
	mu sync.Mutex
	of map[string]int
	up bool // no call fails any more
}

func (r *told) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fate := rand.N(4)
	if fate == 0 && !r.up {
		panic(http.ErrAbortHandler)
	}
	parts := strings.Split(req.PostFormValue("logout_token"), ".")
	var claims struct {
		Subject string         `json:"sub"`
		Session string         `json:"sid"`
		Events  map[string]any `json:"events"`
	}
	if len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		json.Unmarshal(payload, &claims)
	}
	if claims.Events["http://schemas.openid.net/event/backchannel-logout"] == nil {
		r.t.Errorf("%s %s is not a logout token", req.Method, req.URL)
	}
	r.of[cmp.Or(claims.Session, claims.Subject)]++
	if fate == 1 && !r.up {
		panic(http.ErrAbortHandler)
	}
}

func (r *told) times(ended string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[ended]
}

// A visit is a browser in which the demo user has signed in to a relying party.
type visit struct {
	*http.Client
	hint, sid string
}

// relying registers a relying party that receives logouts, and returns a function that
// signs the demo user in to it.
func relying(t *testing.T, s *binary.Server, receiver string) func() visit {
	t.Helper()
	const address, verifier = "https://app.example/cb", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	var c struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	created := s.Run(t, "client", "create", "--json", "--id", "app", "--name", "App", "--redirect-uri", address, "--scope", "openid read", "--first-party",
		"--native", "--id-token-signing-alg", "ES256", "--backchannel-logout-uri", receiver)
	var user struct{ Username, Password string }
	text, err := os.ReadFile(filepath.Join(s.Dir, "dev.json"))
	if err := errors.Join(err, json.Unmarshal([]byte(created), &c), json.Unmarshal(text, &user)); err != nil {
		t.Fatal(err)
	}
	return func() (v visit) {
		t.Helper()
		jar, _ := cookiejar.New(nil)
		v.Client = &http.Client{Transport: s.Transport(t, ""), Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if r.URL.Host == "app.example" || strings.HasSuffix(r.URL.Path, "/account/logout") {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		base := strings.SplitN(s.TokenEndpoint, "/oauth2/", 2)[0]
		resp, err := v.Get(base + "/oauth2/authorize?" + url.Values{
			"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {address}, "scope": {"openid read"},
			"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
		}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		form := url.Values{"step": {"login"}, "username": {user.Username}, "password": {user.Password}}
		if m := regexp.MustCompile(`name="id" value="([^"]*)"`).FindSubmatch(page); m != nil {
			form.Set("id", string(m[1]))
		}
		// On a busy machine a password check may exceed five seconds. The answer is then
		// 503, and the same form may be sent again.
		for try := 0; try == 0 || try < 10 && resp.StatusCode == http.StatusServiceUnavailable; try++ {
			r, _ := http.NewRequest(http.MethodPost, base+"/oauth2/interaction", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", base)
			if resp, err = v.Do(r); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		to, err := resp.Location()
		if err != nil || to.Query().Get("code") == "" {
			t.Fatalf("no code: status %d, %v\n%s", resp.StatusCode, err, page)
		}
		form = url.Values{
			"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {address}, "code_verifier": {verifier}, "client_id": {c.ID},
		}
		if c.Secret != "" {
			form.Set("client_secret", c.Secret)
		}
		if resp, err = v.PostForm(s.TokenEndpoint, form); err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var tokens struct {
			IDToken string `json:"id_token"`
		}
		var claims struct {
			Session string `json:"sid"`
		}
		err = json.NewDecoder(resp.Body).Decode(&tokens)
		if parts := strings.Split(tokens.IDToken, "."); len(parts) == 3 {
			payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
			err = json.Unmarshal(payload, &claims)
		}
		if err != nil || claims.Session == "" {
			t.Fatalf("no id_token with sid: status %d, %v", resp.StatusCode, err)
		}
		v.hint, v.sid = tokens.IDToken, claims.Session
		return v
	}
}

// leave ends the session at the end-session endpoint, and reports whether the server
// acknowledged it.
func (v visit) leave(s *binary.Server) bool {
	end := strings.SplitN(s.TokenEndpoint, "/oauth2/", 2)[0] + "/oauth2/end_session?id_token_hint=" + v.hint
	resp, err := v.Get(end)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusSeeOther
}

// TestKillsLoseNoLogout kills the server at random moments, while the client that it
// notifies fails, too. The client receives a logout for every acknowledged end of a
// session, and none for a session that has not ended.
func TestKillsLoseNoLogout(t *testing.T) {
	client := &told{t: t, of: map[string]int{}}
	receiver := httptest.NewUnstartedServer(client)
	receiver.Config.ErrorLog = nil
	receiver.Start()
	defer receiver.Close()
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "update", s.ClientID, "--native", "--backchannel-logout-uri", receiver.URL+"/logout")
	visits := relying(t, s, receiver.URL+"/logout")
	var ended, going []string
	kills, left := 0, 0
	for round := range binary.Scaled(4, 150) {
		browser := &http.Client{Transport: s.Transport(t, "")}
		var names []string
		for i := range 6 {
			name := fmt.Sprintf("user-%d-%d", round, i)
			code, err := s.FastCode(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if a, err := s.Post(t.Context(), browser, s.ExchangeForm(code)); err != nil || a.Status != http.StatusOK {
				t.Fatalf("%d %s, %v", a.Status, a.Error, err)
			}
			names = append(names, name)
		}
		leaving := []visit{visits(), visits()}
		going = append(going, append(names[:2:2], visits().sid)...)
		killed := make(chan struct{})
		kill := func() { s.Kill(); close(killed) }
		if round > 0 {
			time.AfterFunc(rand.N(1500*time.Millisecond), kill)
		}
		for _, name := range names[2:] {
			if cutOff(t.Context(), s, name) == nil {
				ended = append(ended, name)
			}
			if len(leaving) > 0 && (round == 0 || rand.N(2) == 0) {
				if leaving[0].leave(s) {
					ended = append(ended, leaving[0].sid)
					left++
				}
				leaving = leaving[1:]
			}
			time.Sleep(rand.N(100 * time.Millisecond))
		}
		if round == 0 { // the first kill always follows the answers
			kill()
		}
		<-killed
		kills++
		restart(t, s)
	}
	if len(ended) < kills || left == 0 {
		t.Fatalf("only %d logouts were acknowledged, %d of them of single sessions", len(ended), left)
	}
	client.mu.Lock()
	client.up = true
	client.mu.Unlock()
	until := time.Now().Add(time.Duration(binary.Scaled(90, 600)) * time.Second)
	for _, name := range ended {
		for client.times(name) == 0 {
			if time.Now().After(until) {
				t.Fatalf("the client received no logout for %s\n%s", name, s.Log())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, name := range going {
		if n := client.times(name); n > 0 {
			t.Errorf("the client received %d logouts for %s, whose sessions have not ended", n, name)
		}
	}
	t.Logf("%d kills, %d ends acknowledged, %d of them of one session; %d sessions or subjects went on, and none was told of", kills, len(ended), left, len(going))
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// cutOff ends all sessions of a subject through the admin socket.
func cutOff(ctx context.Context, s *binary.Server, subject string) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.AdminSocket)
	}, DisableKeepAlives: true}}
	body := strings.NewReader(fmt.Sprintf(`{"subject":%q}`, subject))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/admin/v1/cutoffs", body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}
