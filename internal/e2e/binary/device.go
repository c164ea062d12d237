package binary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A DeviceUser is a user with a browser who enters the codes of devices.
type DeviceUser struct {
	name     string
	browser  http.Client
	origin   string
	password string
}

// DeviceUser creates a user of the server. The user signs in when the first code is
// entered.
func (s *Server) DeviceUser(t testing.TB, name string) *DeviceUser {
	t.Helper()
	u := &DeviceUser{name: name, origin: strings.TrimSuffix(s.Issuer, "/oauth2/api"), password: "Correct-Horse-1 on a terminal"}
	add := Command(t, append([]string{"user", "create", name, "--password-stdin"}, s.commandFlags()...)...)
	add.Stdin = strings.NewReader(u.password)
	if _, err := add.Output(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("user create: %s", failed.Stderr)
		}
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u.browser = http.Client{Jar: jar, Transport: s.Transport(t, "")}
	return u
}

var interactionID = regexp.MustCompile(`name="id" value="([^"]*)"`)

// Allow enters the code of a device, signs in if necessary, confirms the comparison and
// allows the request.
func (u *DeviceUser) Allow(page, code string) error {
	at, err := url.Parse(page)
	if err != nil {
		return err
	}
	text, err := u.send(at.Path, url.Values{"user_code": {strings.ToLower(code)}})
	if err == nil && strings.Contains(text, `name="password"`) {
		text, err = u.answer(text, "login", "username", u.name, "password", u.password)
	}
	if err == nil && !strings.Contains(text, code) {
		err = errors.New("the page does not show the code")
	}
	if err == nil {
		text, err = u.answer(text, "consent", "decision", "allow", "same", "yes")
	}
	if err == nil && !strings.Contains(text, "You can go back to your device") {
		err = errors.New("the user is not told that it is done")
	}
	return err
}

// answer sends the form of a page.
func (u *DeviceUser) answer(page, step string, pairs ...string) (string, error) {
	id := interactionID.FindStringSubmatch(page)
	if id == nil {
		return "", fmt.Errorf("the page has no form for the step %s", step)
	}
	form := url.Values{"id": {id[1]}, "step": {step}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return u.send("/oauth2/interaction", form)
}

// send sends a form, and retries while the server is busy.
func (u *DeviceUser) send(path string, form url.Values) (text string, err error) {
	status := http.StatusServiceUnavailable
	for tries := 0; tries < 10 && err == nil && status == http.StatusServiceUnavailable; tries++ {
		if tries > 0 {
			time.Sleep(time.Second)
		}
		text, status, err = u.sendOnce(path, form)
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %d", path, status)
	}
	return text, err
}

func (u *DeviceUser) sendOnce(path string, form url.Values) (string, int, error) {
	r, err := http.NewRequest(http.MethodPost, u.origin+path, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", u.origin)
	res, err := u.browser.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), res.StatusCode, err
}

// A Device is a program that waits for its user's approval.
type Device struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	Page       string `json:"verification_uri"`
	ClientID   string `json:"-"`
}

// Device requests the codes of a device, as a public client.
func (s *Server) Device(client *http.Client, clientID string) (d Device, err error) {
	res, err := client.PostForm(strings.Replace(s.TokenEndpoint, "access_token", "device_authorization", 1), url.Values{"client_id": {clientID}})
	if err != nil {
		return d, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("device authorization: %s %s", res.Status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	d.ClientID = clientID
	s.Leaks.Know("device code", d.DeviceCode)
	s.Leaks.Know("user code", d.UserCode)
	return d, err
}

// PollForm returns the form of a poll.
func (d Device) PollForm() url.Values {
	return url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {d.DeviceCode}, "client_id": {d.ClientID}}
}
