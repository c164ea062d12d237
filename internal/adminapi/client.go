package adminapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// ClientStates are the states that a client can have.
var ClientStates = []string{string(store.ClientEnabled), string(store.ClientDisabled), string(store.ClientDeleted)}

// A Client is a client in an answer, without its secrets, or in a request. A setting that a
// request leaves out gets its default. The Secret is only in requests. The fields after
// State are only in answers; in requests they are ignored.
type Client struct {
	client.Registration
	State          store.ClientState
	CreatedAt      *time.Time
	UpdatedAt      *time.Time
	Secrets        []Secret        // nil: it is a request
	SelfRegistered *SelfRegistered // nil: an operator registered it
	Events         []Event         // only in the output of a command
}

// SelfRegistered holds what the server knows about a client that registered itself. The
// client's own statements, its name and redirect URIs, are those of the last agreement.
type SelfRegistered struct {
	By            store.Registrar `json:"by"`
	RedirectHosts []string        `json:"redirect_hosts"`
	FirstAgreedAt *time.Time      `json:"first_agreement_at"`
	LastAgreedAt  *time.Time      `json:"last_agreement_at"` // null: it is disabled
	KeptUntil     *time.Time      `json:"kept_until"`        // later if it gets tokens; null: for good
}

// A NewClient is the answer to the registration of a client.
type NewClient struct {
	ClientID string `json:"client_id"`
	Secret   string `json:"client_secret,omitempty"` // generated, shown once
	Client   Client `json:"client"`
}

// MarshalJSON writes the members that client.Settings names, those of an answer, and
// the secret of a request, with URLs as they are.
func (c Client) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var failed error
	write := func(name string, value any) {
		b.WriteByte("{,"[min(b.Len(), 1)])
		err := enc.Encode(name)
		b.WriteByte(':')
		failed = errors.Join(failed, err, enc.Encode(value))
	}
	// A value that the profile would replace when the client is read is written, even if it is
	// the default: the reader then rejects the contradiction.
	followed := c.Registration
	followed.Follow()
	write("id", c.ID)
	for i, s := range client.Settings {
		v := s.Value(&c.Registration)
		if d, ok := v.(time.Duration); ok {
			v = config.Duration(d).String()
		}
		if list, ok := v.([]string); !(s.Left(&c.Registration) && s.Left(&followed)) && (!ok || list != nil) {
			write(s.Member, v)
		}
		if i == 0 {
			write("state", c.State)
		}
	}
	if c.Secret != "" {
		write("client_secret", string(c.Secret)) // oauth.Secret would marshal as "[secret]"
	}
	if c.Secrets != nil {
		write("created_at", c.CreatedAt)
		write("updated_at", c.UpdatedAt)
		write("secrets", c.Secrets)
	}
	if c.SelfRegistered != nil {
		write("self_registered", c.SelfRegistered)
	}
	if len(c.Events) > 0 {
		write("events", c.Events)
	}
	b.WriteByte('}')
	return b.Bytes(), failed
}

// UnmarshalJSON decodes the members, and rejects unknown ones: a server could not apply
// them, and a command would lose them when it sends the client back.
func (c *Client) UnmarshalJSON(text []byte) error {
	*c = Client{Registration: client.Registration{Settings: store.Settings{Auth: store.AuthEither}}, State: store.ClientEnabled}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return errors.Join(errors.New("not a JSON object"), err)
	}
	if raw, ok := members["profile"]; ok { // first, so that given members override its values
		if err := json.Unmarshal(raw, &c.Profile); err != nil {
			return &oauth.Invalid{Field: "profile", Message: Misread("", err)}
		}
		c.Follow()
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := c.set(name, members[name]); err != nil {
			return &oauth.Invalid{Field: name, Message: Misread("", err), Unknown: err == errNoSetting}
		}
	}
	return nil
}

var errNoSetting = errors.New("is not a setting of clients")

// set reads one member.
func (c *Client) set(name string, raw json.RawMessage) error {
	others := map[string]any{"id": &c.ID, "state": &c.State, "client_secret": &c.Secret, "created_at": &c.CreatedAt, "updated_at": &c.UpdatedAt,
		"secrets": &c.Secrets, "self_registered": &c.SelfRegistered, "events": &c.Events}
	if field, ok := others[name]; ok {
		return json.Unmarshal(raw, field)
	}
	i := slices.IndexFunc(client.Settings, func(s client.Setting) bool { return s.Member == name })
	if i < 0 {
		return errNoSetting
	}
	s := client.Settings[i]
	field := s.Field(&c.Registration)
	if _, ok := field.(**store.Milliseconds); !ok && string(raw) == "null" {
		return errors.New("is null")
	}
	switch p := field.(type) {
	case **store.Milliseconds:
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			return err
		}
		parsed, err := config.ParseDuration(*text)
		*p = store.InMilliseconds(parsed.Std())
		return err
	case *bool:
		err := json.Unmarshal(raw, p)
		*p = *p != s.Inverse
		return err
	default:
		return json.Unmarshal(raw, p)
	}
}

// Text returns a setting for people, "" for what is left to the deployment.
func (c Client) Text(s client.Setting) string {
	if s.Text != nil {
		return s.Text(&c.Registration)
	}
	switch v := s.Value(&c.Registration).(type) {
	case nil:
		return ""
	case time.Duration:
		return config.Duration(v).String()
	case []string:
		return strings.Join(v, " ")
	default:
		return fmt.Sprint(v)
	}
}

// changedFirst are the members that a list of changes begins with; the others
// follow in their order.
var changedFirst = []string{"name", "redirect_uris", "scope", "auth_method", "retry_window", "require_pkce"}

// Changes describes in one line which settings of c differ from old, "" if none does.
func (c Client) Changes(old Client) string {
	rank := func(s client.Setting) int {
		if i := slices.Index(changedFirst, s.Member); i >= 0 {
			return i
		}
		return len(changedFirst)
	}
	var list []string
	for _, s := range slices.SortedStableFunc(slices.Values(client.Settings), func(a, b client.Setting) int { return rank(a) - rank(b) }) {
		name := cmp.Or(s.Change, s.Name)
		if name == "" {
			continue
		}
		if before, ok := s.Value(&old.Registration).([]string); ok && s.Each {
			after := s.Value(&c.Registration).([]string)
			changed := append(missing(name+" added ", after, before), missing(name+" removed ", before, after)...)
			if changed == nil && !slices.Equal(before, after) {
				changed = []string{name + ": another order"}
			}
			list = append(list, changed...)
			continue
		}
		text := func(c Client) string {
			switch {
			case s.Left(&c.Registration):
				return ""
			case s.Value(&c.Registration) == nil:
				return "default"
			}
			return c.Text(s)
		}
		switch before, after := text(old), text(c); {
		case before != after:
			list = append(list, fmt.Sprintf("%s %q, was %q", name, after, before))
		case !reflect.DeepEqual(s.Value(&old.Registration), s.Value(&c.Registration)): // different keys may have the same names
			list = append(list, name+" replaced")
		}
	}
	return strings.Join(list, "; ")
}

// missing returns the texts of a list that another one lacks.
func missing(lead string, list, other []string) (texts []string) {
	for _, text := range list {
		if !slices.Contains(other, text) {
			texts = append(texts, lead+text)
		}
	}
	return texts
}

// A Usage summarizes what users have allowed a client, by the active grants among the
// first 10,000.
type Usage struct {
	Grants     int        `json:"grants"`
	Users      int        `json:"users"`
	Scope      string     `json:"scope"`        // all that they have allowed
	LastUsedAt *time.Time `json:"last_used_at"` // null: there is none
	More       bool       `json:"more"`         // there are grants that were not looked at
}
