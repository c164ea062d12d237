package client_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func TestAClientIsChangedByTheRulesForANewOne(t *testing.T) {
	s := newService(t)
	before := s.Client(clientID)
	for field, change := range map[string]func(*client.Registration){
		"name":         func(r *client.Registration) { r.Name = " " },
		"scope":        func(r *client.Registration) { r.Scope = "" },
		"redirect-uri": func(r *client.Registration) { r.RedirectURIs = nil },
		"grant-types":  func(r *client.Registration) { r.GrantTypes = []string{"password"} },
		"auth-method":  func(r *client.Registration) { r.Auth = store.AuthNone },
		"retry-window": func(r *client.Registration) { r.RetryWindow = store.InMilliseconds(s.Policy.AccessLifetime) },
	} {
		r := client.Registered(before)
		change(&r)
		var invalid *oauth.Invalid
		if _, err := r.Change(before, s.Policy); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	r := client.Registered(before)
	r.RedirectURIs = append(r.RedirectURIs, "http://plain.example/")
	if _, err := r.Change(before, s.Policy); err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("an address that a new client may not have: %v", err)
	}
	if !reflect.DeepEqual(before, s.Client(clientID)) {
		t.Error("a refused change has changed the client")
	}
}

func TestAChangeKeepsUnnamedSettings(t *testing.T) {
	s := newService(t)
	// A retry window that was valid when it was registered stays, although today's limit
	// is lower.
	wide := store.Milliseconds((time.Hour).Milliseconds())
	s.Administer(clientID, func(c *store.Client) { c.RetryWindow, c.NoRotation, c.NoPKCE = &wide, true, true })
	before := s.Client(clientID)
	same, err := client.Registered(before).Change(before, s.Policy)
	if err != nil || !reflect.DeepEqual(same, before) {
		t.Errorf("nothing was to be changed: %v\n%+v\n%+v", err, before, same)
	}
	r := client.Registered(before)
	r.Name, r.Auth = "Renamed", store.AuthBasic
	got, err := r.Change(before, s.Policy)
	want := before
	want.Name, want.Auth = "Renamed", store.AuthBasic
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, want, got)
	}
	s.Administer(clientID, func(c *store.Client) { c.Auth = store.AuthNone })
	public := s.Client(clientID)
	if _, err := r.Change(public, s.Policy); err == nil {
		t.Error("a public client became confidential")
	}
}

// TestEndingExchangesNamesTheOtherFlagsToEmpty: in an incident, an operator first removes
// --exchange-from. The error names the other flags that must be emptied too.
func TestEndingExchangesNamesTheOtherFlagsToEmpty(t *testing.T) {
	s := newService(t)
	r := client.Registered(s.Client(clientID))
	r.ExchangeFrom, r.ServesAPIs, r.ExchangeAPIs = nil, []string{"https://api.example"}, []string{"https://api.example"}
	_, err := r.Change(s.Client(clientID), s.Policy)
	for _, flag := range []string{"--serves-api", "--exchange-api", "--exchange-beyond", "--exchange-mode"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v, which does not name %s", err, flag)
		}
	}
}

func TestLogoutAddresses(t *testing.T) {
	s := newService(t)
	before := s.Client(clientID)
	for _, c := range []struct {
		uri        string
		native, ok bool
	}{
		{"https://client.example/logout?tenant=1", false, true},
		{"http://127.0.0.1:8000/logout", true, true},
		{"http://localhost:8000/logout", true, true},
		{"http://127.0.0.1:8000/logout", false, false},
		{"http://client.example/logout", true, false},
		{"ftp://client.example/logout", true, false},
		{"ftp://127.0.0.1/logout", true, false},
		{"https://client.example/logout#here", false, false},
		{"https://user:secret@client.example/logout", false, false},
		{"com.example.app:/logout", true, false},
		{"/logout", false, false},
	} {
		r := client.Registered(before)
		r.LogoutURI, r.Native = c.uri, c.native
		got, err := r.Change(before, s.Policy)
		var invalid *oauth.Invalid
		switch {
		case c.ok && (err != nil || got.LogoutURI != c.uri):
			t.Errorf("%s: %v", c.uri, err)
		case !c.ok && (!errors.As(err, &invalid) || invalid.Field != "backchannel-logout-uri"):
			t.Errorf("%s (native %t): %v", c.uri, c.native, err)
		}
	}
	r := client.Registered(before)
	r.LogoutSession = true
	var invalid *oauth.Invalid
	if _, err := r.Change(before, s.Policy); !errors.As(err, &invalid) || invalid.Field != "backchannel-logout-session-required" {
		t.Errorf("logout by session without an address: %v", err)
	}
}

func TestIDTokensOfAClientLiveAMinuteToADay(t *testing.T) {
	s := newService(t)
	before := s.Client(clientID)
	for life, ok := range map[time.Duration]bool{
		time.Minute: true, 24 * time.Hour: true, 59 * time.Second: false, 24*time.Hour + time.Second: false, 90*time.Second + time.Millisecond: false, 0: false,
	} {
		r := client.Registered(before)
		r.IDTokenLifetime = store.InMilliseconds(life)
		got, err := r.Change(before, s.Policy)
		var invalid *oauth.Invalid
		switch {
		case ok && (err != nil || got.IDTokenLifetime == nil || got.IDTokenLifetime.Duration() != life):
			t.Errorf("%s: %v, %v", life, got.IDTokenLifetime, err)
		case !ok && (!errors.As(err, &invalid) || invalid.Field != "id-token-lifetime"):
			t.Errorf("%s: %v", life, err)
		}
	}
}
