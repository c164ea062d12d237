package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// A member is one member of a JSON object.
type member struct {
	name  string
	value any
}

// registered returns the members of a client's registration: its id, its settings,
// and behind the name its state.
func registered(c store.Client) []member {
	r := client.Registered(c)
	list := []member{{"id", c.ID}}
	for _, s := range client.Settings {
		v := s.Value(&r)
		if d, ok := v.(time.Duration); ok {
			v = config.Duration(d).String()
		}
		if s.Left(&r) {
			continue
		}
		if list = append(list, member{s.Member, v}); len(list) == 2 {
			list = append(list, member{"state", c.State})
		}
	}
	return list
}

// encode writes a JSON object, with URLs as they are.
func encode(list []member) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, m := range list {
		b.WriteByte("{,"[min(i, 1)])
		if err := enc.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// ClientETag identifies a client's registration. The version of its row would
// not do: the first use of an imported secret writes the row anew.
func ClientETag(c store.Client) string {
	text, err := encode(registered(c))
	if err != nil {
		panic(err) // it holds texts, booleans and lists of texts
	}
	return etagOf(text)
}

func etagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// matches reports whether a change for an ETag may be made (RFC 9110 section
// 13.1.1); "" is no condition.
func matches(etag, present string) bool { return etag == "" || etag == "*" || etag == present }

// A ClientView is a client as people and programs see it, without anything secret.
type ClientView struct {
	store.Client
	Secrets []adminapi.Secret
	Events  []adminapi.Event
}

// ViewClient returns the view of a client at now.
func ViewClient(c store.Client, now grant.Instant) ClientView {
	return ClientView{Client: c, Secrets: ViewSecrets(c, now)}
}

// MarshalJSON writes the registration, when it was made and changed, the secrets
// and, if there are some, the events.
func (v ClientView) MarshalJSON() ([]byte, error) {
	list := append(registered(v.Client), member{"created_at", show.JSONInstant(v.CreatedAt)}, member{"updated_at", show.JSONInstant(v.UpdatedAt)}, member{"secrets", v.Secrets})
	if v.SelfRegistered() {
		list = append(list, member{"self_registered", ViewSelfRegistered(v.Client)})
	}
	if len(v.Events) > 0 {
		list = append(list, member{"events", v.Events})
	}
	return encode(list)
}

// Fields returns names and values for people.
func (v ClientView) Fields() [][2]string {
	if v.SelfRegistered() {
		return v.selfRegisteredFields()
	}
	r := client.Registered(v.Client)
	list := [][2]string{{"id", v.ID}}
	for _, s := range client.Settings {
		if _, isList := s.Value(&r).([]string); s.Name == "" || s.Left(&r) && !isList {
			continue
		}
		if list = append(list, [2]string{s.Name, settingText(s, &r)}); len(list) == 2 {
			list = append(list, [2]string{"state", string(v.State)})
		}
	}
	return append(list, [2]string{"created", show.Instant(v.CreatedAt)}, [2]string{"updated", show.Instant(v.UpdatedAt)})
}

// settingText returns a setting for people, "" for what is left to the deployment.
func settingText(s client.Setting, r *client.Registration) string {
	if s.Text != nil {
		return s.Text(r)
	}
	switch v := s.Value(r).(type) {
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

// differences says in one line what has changed between two registrations.
func differences(old, next client.Registration) string {
	rank := func(s client.Setting) int {
		if i := slices.Index(changedFirst, s.Member); i >= 0 {
			return i
		}
		return len(changedFirst)
	}
	var list []string
	for _, s := range slices.SortedStableFunc(slices.Values(client.Settings), func(a, b client.Setting) int { return rank(a) - rank(b) }) {
		name := s.Name
		if s.Change != "" {
			name = s.Change
		}
		if name == "" {
			continue
		}
		if before, ok := s.Value(&old).([]string); ok && s.Each {
			after := s.Value(&next).([]string)
			list = append(append(list, missing(name+" added ", after, before)...), missing(name+" removed ", before, after)...)
			continue
		}
		text := func(r *client.Registration) string {
			switch {
			case s.Left(r):
				return ""
			case s.Value(r) == nil:
				return "default"
			}
			return settingText(s, r)
		}
		if before, after := text(&old), text(&next); before != after {
			list = append(list, fmt.Sprintf("%s %q, was %q", name, after, before))
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

// ViewSecrets returns the views of a client's secrets at now.
func ViewSecrets(c store.Client, now grant.Instant) []adminapi.Secret {
	list := []adminapi.Secret{}
	for _, s := range c.Secrets {
		v := adminapi.Secret{ID: s.ID, Stored: "keyed sha-256", CreatedAt: show.JSONInstant(s.CreatedAt),
			ExpiresAt: show.JSONInstant(s.ExpiresAt), LastUsedAt: show.JSONInstant(s.LastUsedAt), State: "active", Revocation: "safe"}
		if s.Slow != "" {
			v.Stored = "argon2id (imported, not used yet)"
		}
		if s.Expired(now) {
			v.State = "expired"
		}
		if why := client.SecretVerdict(c, s, now); why != "" {
			v.Revocation = why
		}
		list = append(list, v)
	}
	return list
}
