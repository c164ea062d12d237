package admin

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Create registers a client and returns it with the secret that was
// generated for it, if one was.
func (a Clients) Create(ctx context.Context, r client.Registration, state store.ClientState) (store.Client, oauth.Secret, error) {
	ring, err := a.Ring(ctx)
	if err != nil {
		return store.Client{}, "", err
	}
	now := a.now()
	c, secret, err := r.Client(a.Realm, ring, a.Policy, now)
	if err != nil {
		return c, "", err
	}
	if err := cmp.Or(checkState(state), a.follows(c), a.noSubject(ctx, c.ID)); err != nil {
		return c, "", err
	}
	c.State = state
	if err = a.checkAPIs(ctx, c, store.Client{}); err != nil {
		return c, "", err
	}
	// The client replaces one of the same id that registered itself, even a disabled one.
	if old, err := a.Store.Client(ctx, c.ID); err == nil && old.SelfRegistered() && old.State != store.ClientDeleted {
		c.Version = old.Version + 1
	}
	change := store.Change{Entries: []store.Entry{c.Entry()}, Documents: []store.Document{account.Claim(a.Realm, c.ID, now)}}
	err = a.commit(ctx, change, a.event(now, store.EventClientCreated, c.ID, c.Name))
	if errors.Is(err, store.ErrConflict) {
		err = cmp.Or(a.noSubject(ctx, c.ID), error(&Error{Taken, "client", c.ID, fmt.Sprintf("the client id %q is taken", c.ID)}))
	}
	if a.DryRun {
		secret = "" // the client will have another one
	}
	return c, secret, err
}

// checkState returns an error unless a state is enabled or disabled: only Delete deletes.
func checkState(state store.ClientState) error {
	if state != store.ClientEnabled && state != store.ClientDisabled {
		return &oauth.Invalid{Field: "state", Message: "is neither enabled nor disabled"}
	}
	return nil
}

// follows returns an error about a client that does not follow the profile of the
// deployment. A resource server that gets no tokens itself need not.
func (a Clients) follows(c store.Client) error {
	if a.Profile == "" || c.Profile == a.Profile || !c.GetsTokens() {
		return nil
	}
	return &oauth.Invalid{Field: "profile", Message: fmt.Sprintf("authorization.profile demands of every client that gets tokens that it is registered with --profile %s", a.Profile)}
}

// noSubject returns an error if a built-in user's subject is the id of a new client: the
// id is the sub of the client's own tokens.
func (a Clients) noSubject(ctx context.Context, id string) error {
	users, err := a.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Owner: store.OwnerOf(a.Realm, id), Limit: 1})
	if err == nil && len(users) > 0 {
		err = &oauth.Invalid{Field: "id", Message: fmt.Sprintf("%q is the subject of a user: tokens of the client would seem to be the user's", id)}
	}
	return err
}

// Read returns a client that has not been deleted. It finds a client that registered
// itself as soon as a user has agreed to it.
func (a Clients) Read(ctx context.Context, id string) (c store.Client, err error) {
	err = store.ErrNotFound
	if storable("id", id) == nil {
		c, err = a.find(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return c, &Error{NotFound, "client", id, fmt.Sprintf("there is no client %q", id) + a.unrecorded(ctx, id)}
	}
	if err == nil && c.State == store.ClientDeleted {
		return c, &Error{Deleted, "client", id, fmt.Sprintf("client %q was deleted on %s", id, show.Instant(c.UpdatedAt))}
	}
	return c, err
}

// unrecorded describes an unknown client id that is a sealed registration, or looks like
// one. Of redirect URIs, it has digests alone.
func (a Clients) unrecorded(ctx context.Context, id string) string {
	if !keys.IsRegistration(id) {
		return ""
	}
	ring, err := a.Ring(ctx)
	if err != nil {
		return fmt.Sprintf(": cannot check whether it is a registration that no user has agreed to: %v", err)
	}
	s, err := ring.Registrations(a.Realm).Open(id, a.now())
	if err != nil {
		return ": it looks like a registration, but not one of this server, or its key was withdrawn or has expired"
	}
	return fmt.Sprintf(": it is a registration of %s, by the name %q and with %s, and no user has agreed to it, or not lately", show.Instant(s.At), s.Name, show.Count(len(s.Redirects), "redirect URI", "redirect URIs"))
}

// List returns the clients that operators registered, sorted by name, with the last uses
// of their secrets, and whether more follow. It includes deleted clients only if p.State
// selects them or all is true.
func (a Clients) List(ctx context.Context, p adminapi.Page, all bool) (list []store.Client, more bool, err error) {
	if err := p.Check(adminapi.ClientStates...); err != nil {
		return nil, false, err
	}
	view, err := a.view(ctx)
	if err != nil {
		return nil, false, err
	}
	rest, _ := view.ClientsAfter(a.Realm, p.After, strings.ToLower(p.Match))
	page, more, err := pick(p, rest, func(c *store.Client) bool {
		return !c.SelfRegistered() && (p.State == string(c.State) || p.State == "" && (all || c.State != store.ClientDeleted)) && matchesPage(p, c.ID, c.Name)
	})
	for _, c := range page {
		list = append(list, c.Clone())
	}
	if err == nil {
		err = a.Store.ReadSecretUses(ctx, list)
	}
	return list, more, err
}

// SetState enables or disables a client. For a client that registered itself, it writes an
// entry of the directory. While the client is disabled, the entry overrides its record on
// every node.
func (a Clients) SetState(ctx context.Context, id, etag string, state store.ClientState) (store.Client, error) {
	return a.changeAny(ctx, id, etag, func(c store.Client, _ grant.Instant) (store.Client, changeRecord, error) {
		same := c.State == state
		c.State = state
		return c, changeRecord{name: store.EventClientChanged, detail: string(state), none: same}, nil
	})
}

// Delete deletes a client for good and ends its grants.
func (a Clients) Delete(ctx context.Context, id, etag string) (store.Client, error) {
	return a.changeAny(ctx, id, etag, func(c store.Client, _ grant.Instant) (store.Client, changeRecord, error) {
		c.State, c.Secrets = store.ClientDeleted, []store.Secret{}
		cut := store.Cutoff{Realm: c.Realm, ClientID: c.ID, At: a.cutoffAt()}
		return c, changeRecord{name: store.EventClientDeleted, detail: c.Name, cutoffs: []store.Cutoff{cut}}, nil
	})
}

// change is changeAny, but rejects clients that registered themselves.
func (a Clients) change(ctx context.Context, id, etag string, apply func(c store.Client, now grant.Instant) (store.Client, changeRecord, error)) (store.Client, error) {
	return a.changeAny(ctx, id, etag, func(c store.Client, now grant.Instant) (store.Client, changeRecord, error) {
		if c.SelfRegistered() {
			return c, changeRecord{}, &Error{Conflict, "client", id, fmt.Sprintf("client %q registered itself: it can be disabled, enabled and deleted, but not changed", id)}
		}
		return apply(c, now)
	})
}

// changeAny reads a client, changes it and writes it back. With an ETag, the client must
// not have changed since the ETag was made.
func (a Clients) changeAny(ctx context.Context, id, etag string, apply func(c store.Client, now grant.Instant) (store.Client, changeRecord, error)) (store.Client, error) {
	c, err := a.Read(ctx, id)
	if err != nil {
		return c, err
	}
	if !matches(etag, ClientETag(c)) {
		return c, changed("client", id)
	}
	now := a.now()
	next, how, err := apply(c, now)
	if err == nil {
		err = a.checkAPIs(ctx, next, c)
	}
	if err != nil || how.none {
		return next, err
	}
	next.Version++
	next.UpdatedAt = now
	next.DateBeyond(now)
	err = a.commit(ctx, store.Change{Entries: []store.Entry{next.Entry()}, Cutoffs: how.cutoffs}, a.event(now, how.name, id, how.detail))
	if errors.Is(err, store.ErrConflict) {
		err = changed("client", id)
	}
	return next, err
}

// AddSecret gives a client another secret, which expires after a duration unless
// that is zero, and returns its id and its text.
func (a Clients) AddSecret(ctx context.Context, clientID string, expires time.Duration) (id string, text oauth.Secret, err error) {
	if _, err := a.Read(ctx, clientID); err != nil {
		return "", "", err
	}
	ring, err := a.Ring(ctx)
	if err != nil {
		return "", "", err
	}
	_, err = a.change(ctx, clientID, "", func(c store.Client, now grant.Instant) (store.Client, changeRecord, error) {
		var end grant.Instant
		if expires != 0 {
			end = now.Add(expires)
		}
		var added store.Secret
		var err error
		c, added, text, err = client.AddSecret(c, ring, now, end)
		if invalid := (*oauth.Invalid)(nil); errors.As(err, &invalid) {
			err = &Error{Full, "client", clientID, fmt.Sprintf("client %q gets no secret: %s", clientID, invalid.Message)}
		}
		id = added.ID
		return c, changeRecord{name: store.EventSecretAdded, detail: "secret " + id}, err
	})
	return id, text, err
}

// InUse returns a client with the last uses of its secrets. Running servers hold some
// of them in memory until their next poll: if a secret seems safe to revoke, InUse waits
// for that poll.
func (a Clients) InUse(ctx context.Context, id string) (store.Client, error) {
	c, err := a.Read(ctx, id)
	now := a.now()
	if err != nil || a.Settle == nil || !slices.ContainsFunc(c.Secrets, func(s store.Secret) bool { return client.SecretVerdict(c, s, now) == "" }) {
		return c, err
	}
	a.Settle(ctx)
	return a.Read(ctx, id)
}

// RevokeSecret takes a secret from a client. One that is in use, or the only one,
// is revoked only by force.
func (a Clients) RevokeSecret(ctx context.Context, clientID, id string, force bool) error {
	if _, err := a.InUse(ctx, clientID); err != nil {
		return err
	}
	_, err := a.change(ctx, clientID, "", func(c store.Client, now grant.Instant) (store.Client, changeRecord, error) {
		i := slices.IndexFunc(c.Secrets, func(s store.Secret) bool { return s.ID == id })
		if i < 0 {
			return c, changeRecord{}, &Error{NotFound, "secret", clientID, fmt.Sprintf("client %q has no secret %q", clientID, id)}
		}
		if why := client.SecretVerdict(c, c.Secrets[i], now); why != "" && !force {
			return c, changeRecord{}, &Error{InUse, "secret", id, fmt.Sprintf("secret %s was not revoked: %s", id, why)}
		}
		c = c.Clone()
		c.Secrets = slices.Delete(c.Secrets, i, i+1)
		return c, changeRecord{name: store.EventSecretRevoked, detail: "secret " + id}, nil
	})
	return err
}

// Apply registers the client d if no operator has registered one with the id, and
// otherwise changes the existing one to d. It writes nothing if d equals the existing
// client; the first use of an imported secret is no difference. With an ETag, the client
// must exist and be unchanged.
func (a Clients) Apply(ctx context.Context, id, etag string, d adminapi.Client) (c store.Client, secret oauth.Secret, created bool, err error) {
	switch {
	case id == "": // Create would generate one, and the same request again another one
		return c, "", false, &oauth.Invalid{Field: "id", Message: "is empty: name the client in the path"}
	case d.ID != "" && d.ID != id:
		return c, "", false, &oauth.Invalid{Field: "id", Message: fmt.Sprintf("%q is another client", d.ID)}
	}
	old, err := a.Read(ctx, id)
	if etag == "" && (isGone(err) || err == nil && old.SelfRegistered()) {
		d.ID = id
		c, secret, err = a.Create(ctx, d.Registration, d.State)
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
	c, err = a.change(ctx, id, etag, func(c store.Client, _ grant.Instant) (store.Client, changeRecord, error) {
		next, err := d.Change(c, a.Policy)
		if err == nil {
			err = cmp.Or(checkState(d.State), a.follows(next))
		}
		next.State = d.State
		detail := ViewClient(next, 0).Changes(ViewClient(c, 0))
		switch {
		case c.State == d.State:
		case detail == "":
			detail = string(d.State)
		default: // the audit log cuts long texts, and a restore reads the state there
			detail = string(d.State) + "; " + detail
		}
		return next, changeRecord{name: store.EventClientChanged, detail: detail, none: detail == ""}, err
	})
	return c, "", false, err
}

// holds returns an error unless a client has the secret.
func (a Clients) holds(ctx context.Context, c store.Client, secret oauth.Secret) error {
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
