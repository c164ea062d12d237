package adminapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// If a command reads a client, changes it and sends it back, every setting survives.
func TestEverySettingOfAClientIsWrittenAndRead(t *testing.T) {
	full := Client{State: store.ClientDisabled, CreatedAt: new(time.Unix(1700000000, 0).UTC()), Secrets: []Secret{{ID: "one", State: "active"}},
		SelfRegistered: &SelfRegistered{By: store.ByDocument, RedirectHosts: []string{"a.example"}}}
	full.ID, full.Secret = "billing", "an imported secret"
	for _, s := range client.Settings {
		switch p := s.Field(&full.Registration).(type) {
		case *string:
			*p = "some <" + s.Member + "> & more"
		case *bool:
			*p = true
		case *[]string:
			*p = []string{s.Member, "other"}
		case *json.RawMessage:
			*p = json.RawMessage(`{"keys":[]}`)
		case **store.Milliseconds:
			*p = store.InMilliseconds(1500 * time.Millisecond)
		default:
			t.Fatalf("%s is a %T", s.Member, p)
		}
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var got Client
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, full) || got.Changes(full) != "" {
		t.Errorf("%v\n%+v\n%+v", err, got, full)
	}
	// A request omits members that only responses have, and nil lists.
	if text, err := json.Marshal(Client{State: store.ClientEnabled}); err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), "_at") || strings.Contains(string(text), "grant_types") {
		t.Errorf("%s, %v", text, err)
	}
	for _, text := range []string{`null`, `[]`, `{"colour": "red"}`, `{"name": null}`, `{"retry_window": 5}`} {
		if err := json.Unmarshal([]byte(text), &got); err == nil || strings.HasPrefix(text, "{") != errors.As(err, new(*oauth.Invalid)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A change of each setting is detected and stored, including a file with other contents
// under the same name, and settings that matter only for some APIs.
func TestEveryOtherValueOfASettingIsAChange(t *testing.T) {
	set := func(c *Client, s client.Setting, n int) {
		key := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"k","x":"%s"}`, base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{byte(n)}, 32)))
		switch p := s.Field(&c.Registration).(type) {
		case *string:
			*p = fmt.Sprintf("-----BEGIN CERTIFICATE-----%d", n)
		case *bool:
			*p = n == 1
		case *[]string:
			*p = []string{fmt.Sprint(n)}
		case *json.RawMessage:
			*p = json.RawMessage(`{"keys":[` + key + `]}`)
		case **store.Milliseconds:
			*p = store.InMilliseconds(time.Duration(n) * time.Second)
		}
	}
	for _, s := range client.Settings {
		var old, c Client
		set(&old, s, 1)
		set(&c, s, 2)
		if c.Changes(old) == "" || c.Changes(c) != "" {
			t.Errorf("%s: %q, and of the same %q", s.Member, c.Changes(old), c.Changes(c))
		}
	}
}

// The values of a profile are applied before the members beside it, whatever their order.
func TestAProfileIsFollowedBeforeOtherMembersAreRead(t *testing.T) {
	var c Client
	if err := json.Unmarshal([]byte(`{"name":"A","dpop":"allowed","profile":"fapi2"}`), &c); err != nil {
		t.Fatal(err)
	}
	if c.Auth != store.AuthPrivateKeyJWT || !c.RequirePAR || !c.NoRotation || c.DPoP != store.DPoPAllowed {
		t.Errorf("%+v", c.Settings)
	}
	// A member that contradicts the profile is sent, so that the server can refuse it.
	c.RequirePAR = false
	text, err := json.Marshal(c)
	if err != nil || json.Unmarshal(text, &c) != nil || c.RequirePAR {
		t.Errorf("a request that need not be pushed is lost: %s, %v", text, err)
	}
	text, err = json.Marshal(Client{State: store.ClientEnabled})
	if err != nil || strings.Contains(string(text), "profile") {
		t.Errorf("%s, %v", text, err)
	}
}
