package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/plain"
)

// Entry returns the row of c.
func (c Client) Entry() Entry {
	return Entry{EntryClient, InRealm(c.Realm, c.ID), c.Version, c.encoded(c)}
}

var knownOfClient = sync.OnceValue(memberNames[Client])

// clientMembers are the members of a client in the order of its fields. A client with a
// member that is missing here is decoded by encoding/json.
var clientMembers = []plain.Member[Client]{
	plain.At("id", func(p *plain.Reader, c *Client) { c.ID = p.Text() }),
	plain.At("realm", func(p *plain.Reader, c *Client) { c.Realm = p.Text() }),
	plain.At("name", func(p *plain.Reader, c *Client) { c.Name = p.Text() }),
	plain.At("auth_method", func(p *plain.Reader, c *Client) { c.Auth = AuthRule(p.Text()) }),
	plain.At("native", func(p *plain.Reader, c *Client) { c.Native = p.Bool() }),
	plain.At("require_pkce", func(p *plain.Reader, c *Client) { c.NoPKCE = Waiver(!p.Bool()) }),
	plain.At("require_pushed_authorization_requests", func(p *plain.Reader, c *Client) { c.RequirePAR = p.Bool() }),
	plain.At("dpop", func(p *plain.Reader, c *Client) { c.DPoP = DPoPRule(p.Text()) }),
	plain.At("first_party", func(p *plain.Reader, c *Client) { c.FirstParty = p.Bool() }),
	plain.At("grant_types", func(p *plain.Reader, c *Client) { c.GrantTypes = p.Texts() }),
	plain.At("redirect_uris", func(p *plain.Reader, c *Client) { c.RedirectURIs = p.Texts() }),
	plain.At("scope", func(p *plain.Reader, c *Client) { c.Scope = oauth.Scope(p.Text()) }),
	plain.At("no_rotation", func(p *plain.Reader, c *Client) { c.NoRotation = p.Bool() }),
	plain.At("retry_window_ms", func(p *plain.Reader, c *Client) { c.RetryWindow = new(Milliseconds(p.Number())) }),
	plain.At("reuse_grace_ms", func(p *plain.Reader, c *Client) { c.ReuseGrace = new(Milliseconds(p.Number())) }),
	plain.At("id_token_signing_alg", func(p *plain.Reader, c *Client) { c.IDTokenAlg = keys.Purpose(p.Text()) }),
	plain.At("id_token_lifetime_ms", func(p *plain.Reader, c *Client) { c.IDTokenLifetime = new(Milliseconds(p.Number())) }),
	plain.At("no_refresh_id_token", func(p *plain.Reader, c *Client) { c.NoRefreshIDToken = p.Bool() }),
	plain.At("userinfo_signed_response_alg", func(p *plain.Reader, c *Client) { c.UserInfoAlg = keys.Purpose(p.Text()) }),
	plain.At("post_logout_redirect_uris", func(p *plain.Reader, c *Client) { c.PostLogoutRedirectURIs = p.Texts() }),
	plain.At("logout_ends_grants", func(p *plain.Reader, c *Client) { c.LogoutEndsGrants = p.Bool() }),
	plain.At("backchannel_logout_uri", func(p *plain.Reader, c *Client) { c.LogoutURI = p.Text() }),
	plain.At("backchannel_logout_session_required", func(p *plain.Reader, c *Client) { c.LogoutSession = p.Bool() }),
	plain.At("access_token_format", func(p *plain.Reader, c *Client) { c.TokenFormat = TokenFormat(p.Text()) }),
	plain.At("signing_alg", func(p *plain.Reader, c *Client) { c.SigningAlg = keys.Purpose(p.Text()) }),
	plain.At("jwt_type", func(p *plain.Reader, c *Client) { c.JWTType = p.Text() }),
	plain.At("audience", func(p *plain.Reader, c *Client) { c.Audience = p.Texts() }),
	plain.At("apis", func(p *plain.Reader, c *Client) { c.APIs = p.Texts() }),
	plain.At("introspect", func(p *plain.Reader, c *Client) { c.Introspect = p.Bool() }),
	plain.At("state", func(p *plain.Reader, c *Client) { c.State = ClientState(p.Text()) }),
	plain.At("registered_by", func(p *plain.Reader, c *Client) { c.RegisteredBy = Registrar(p.Text()) }),
	plain.At("secrets", func(p *plain.Reader, c *Client) { c.Secrets = plain.List(p, plain.Value(secretMembers)) }),
	plain.At("created_at", func(p *plain.Reader, c *Client) { c.CreatedAt = grant.Instant(p.Number()) }),
	plain.At("updated_at", func(p *plain.Reader, c *Client) { c.UpdatedAt = grant.Instant(p.Number()) }),
	plain.At("version", func(p *plain.Reader, c *Client) { c.Version = p.Number() }),
}

var secretMembers = []plain.Member[Secret]{
	plain.At("id", func(p *plain.Reader, s *Secret) { s.ID = p.Text() }),
	plain.At("digest", func(p *plain.Reader, s *Secret) { s.Digest = p.Bytes() }),
	plain.At("slow", func(p *plain.Reader, s *Secret) { s.Slow = p.Text() }),
	plain.At("created_at", func(p *plain.Reader, s *Secret) { s.CreatedAt = grant.Instant(p.Number()) }),
	plain.At("expires_at", func(p *plain.Reader, s *Secret) { s.ExpiresAt = grant.Instant(p.Number()) }),
}

// Client decodes an entry of kind EntryClient.
func (e Entry) Client() (c Client, err error) {
	if err = decode(clientMembers, string(e.Body), &c, &c.Later, knownOfClient); err != nil {
		err = fmt.Errorf("decode client %q: %w", e.ID, err)
	}
	return c, err
}

// ClientKey is the key of the record of a client that registered itself.
func ClientKey(realm, id string) DocumentKey { return KeyOf(DocumentClient, realm, id) }

// Record returns the document that holds c, a client that registered itself, from now
// until an instant. c.Version is that of the stored record, or 0 if there is none.
func (c Client) Record(now, until grant.Instant) Document {
	return Document{Kind: DocumentClient, Key: ClientKey(c.Realm, c.ID), Version: c.Version + 1, ExpiresAt: until, Owner: recordOwner(now), Body: c.Entry().Body}
}

// recordSpan is the length of a time slot. Records that are written in the same slot have
// the same Owner, which stands for the slot and not for a subject: the index of owners finds
// the records that changed lately.
const recordSpan = 10 * time.Minute

func recordOwner(at grant.Instant) Owner {
	return OwnerOf("", fmt.Sprint("records of ", int64(at)/recordSpan.Milliseconds()))
}

// RecordOwners returns the owners of the records that were written between two instants.
func RecordOwners(from, to grant.Instant) (list []Owner) {
	for at := from; at < to.Add(recordSpan); at = at.Add(recordSpan) {
		list = append(list, recordOwner(at))
	}
	return list
}

// ClientRecord decodes a document of kind DocumentClient.
func (d Document) ClientRecord() (Client, error) {
	c, err := Entry{EntryClient, "", d.Version, d.Body}.Client()
	c.Version, c.RecordedUntil = d.Version, d.ExpiresAt
	return c, err
}
