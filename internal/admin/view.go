package admin

import (
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// ClientETag identifies a client's registration and state. It does not use the version of
// the row, which the first use of an imported secret changes.
func ClientETag(c store.Client) string {
	text, err := adminapi.Client{Registration: client.Registered(c), State: c.State}.MarshalJSON()
	if err != nil {
		panic(err) // it holds texts, booleans and lists of texts
	}
	return etagOf(text)
}

// ViewClient returns the view of a client at now.
func ViewClient(c store.Client, now grant.Instant) adminapi.Client {
	v := adminapi.Client{Registration: client.Registered(c), State: c.State, CreatedAt: show.JSONInstant(c.CreatedAt), UpdatedAt: show.JSONInstant(c.UpdatedAt), Secrets: ViewSecrets(c, now)}
	if !c.SelfRegistered() {
		return v
	}
	v.SelfRegistered = &adminapi.SelfRegistered{By: c.RegisteredBy, RedirectHosts: redirectHosts(c), FirstAgreedAt: v.CreatedAt, KeptUntil: show.JSONInstant(c.RecordedUntil)}
	if !c.Decides() {
		v.SelfRegistered.LastAgreedAt = v.UpdatedAt
	}
	return v
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
