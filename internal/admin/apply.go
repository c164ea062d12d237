package admin

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A ClientDocument is what a caller writes of a client: members of ClientView, and
// with client_secret a secret that exists already. What it leaves out has its
// default.
type ClientDocument struct {
	client.Registration
	State store.ClientState
}

// UnmarshalJSON reads the members. Those that callers cannot set are read over, so
// that a client can be sent back as it was received; unknown ones are refused.
func (d *ClientDocument) UnmarshalJSON(text []byte) error {
	*d = ClientDocument{client.Registration{Auth: store.AuthEither}, store.ClientEnabled}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		member := name.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if seen[member] {
			return &oauth.Invalid{Field: member, Message: "is there twice"}
		}
		seen[member] = true
		if err := d.set(member, raw); err != nil {
			return &oauth.Invalid{Field: member, Message: err.Error()}
		}
	}
	if _, err := dec.Token(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// set reads one member.
func (d *ClientDocument) set(name string, raw json.RawMessage) error {
	switch name {
	case "created_at", "updated_at", "secrets", "events":
		return nil
	case "id":
		return json.Unmarshal(raw, &d.ID)
	case "client_secret":
		return json.Unmarshal(raw, &d.Secret)
	case "state":
		if err := json.Unmarshal(raw, &d.State); err != nil || d.State != store.ClientEnabled && d.State != store.ClientDisabled {
			return errors.New("is neither enabled nor disabled")
		}
		return nil
	}
	i := slices.IndexFunc(client.Settings, func(s client.Setting) bool { return s.Member == name })
	if i < 0 {
		return errors.New("is not a setting of clients")
	}
	s := client.Settings[i]
	if _, ok := s.Field(&d.Registration).(**time.Duration); !ok && string(raw) == "null" {
		return errors.New("is null")
	}
	switch p := s.Field(&d.Registration).(type) {
	case **time.Duration:
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			return err
		}
		parsed, err := config.ParseDuration(*text)
		std := parsed.Std()
		*p = &std
		return err
	case *bool:
		err := json.Unmarshal(raw, p)
		*p = *p != s.Inverse
		return err
	default:
		return json.Unmarshal(raw, p)
	}
}

// ApplyClient makes a client be as the document says: it registers the client if
// there is none with the id, and changes it otherwise. Nothing is written if the
// client is like that already, also if its imported secret was used since. With an
// ETag, the client must be there and as it was.
func (a *Admin) ApplyClient(ctx context.Context, id, etag string, d ClientDocument) (c store.Client, secret oauth.Secret, created bool, err error) {
	if d.ID != "" && d.ID != id {
		return c, "", false, &oauth.Invalid{Field: "id", Message: fmt.Sprintf("%q is another client", d.ID)}
	}
	old, err := a.Client(ctx, id)
	var failed *Error
	if errors.As(err, &failed) && failed.Code == NotFound && etag == "" {
		d.ID = id
		c, secret, err = a.CreateClient(ctx, d.Registration, d.State)
		return c, secret, err == nil, err
	}
	if err != nil {
		return old, "", false, err
	}
	if d.Secret != "" {
		if err := a.holds(ctx, old, d.Secret); err != nil {
			return old, "", false, err
		}
		d.Secret = ""
	}
	c, err = a.change(ctx, id, etag, func(c store.Client, _ grant.Instant) (store.Client, record, error) {
		next, err := d.Change(c, a.Policy)
		next.State = d.State
		detail := differences(client.Registered(c), client.Registered(next))
		switch {
		case c.State == d.State:
		case detail == "":
			detail = string(d.State)
		default:
			detail += "; " + string(d.State)
		}
		return next, record{name: store.EventClientChanged, detail: detail, none: detail == ""}, err
	})
	return c, "", false, err
}

// holds returns an error unless a client has the secret.
func (a *Admin) holds(ctx context.Context, c store.Client, secret oauth.Secret) error {
	ring, err := a.Ring(ctx)
	if err != nil {
		return err
	}
	digest := ring.Digest(secret)
	for _, s := range c.Secrets {
		if s.Slow == "" {
			if subtle.ConstantTimeCompare(s.Digest, digest) == 1 {
				return nil
			}
			continue
		}
		if same, err := keys.MatchSlow(s.Slow, secret); err != nil || same {
			return err
		}
	}
	return &oauth.Invalid{Field: "client_secret", Message: "the client exists and has other secrets: leave it out, and add a secret to the client"}
}
