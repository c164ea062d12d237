package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// Entry returns the row of c.
func (c Client) Entry() Entry {
	return Entry{EntryClient, InRealm(c.Realm, c.ID), c.Version, c.encoded(c)}
}

var knownOfClient = sync.OnceValue(memberNames[Client])

// clientMembers are the members of a client in the order of its fields. A client with a
// member that is missing here is decoded by encoding/json.
var clientMembers = []plainMember[Client]{
	{"id", func(p *plain, c *Client) { c.ID = p.text() }},
	{"realm", func(p *plain, c *Client) { c.Realm = p.text() }},
	{"name", func(p *plain, c *Client) { c.Name = p.text() }},
	{"auth_method", func(p *plain, c *Client) { c.Auth = AuthRule(p.text()) }},
	{"native", func(p *plain, c *Client) { c.Native = p.boolean() }},
	{"require_pkce", func(p *plain, c *Client) { c.NoPKCE = Waiver(!p.boolean()) }},
	{"require_pushed_authorization_requests", func(p *plain, c *Client) { c.RequirePAR = p.boolean() }},
	{"dpop", func(p *plain, c *Client) { c.DPoP = DPoPRule(p.text()) }},
	{"first_party", func(p *plain, c *Client) { c.FirstParty = p.boolean() }},
	{"grant_types", func(p *plain, c *Client) { c.GrantTypes = p.texts() }},
	{"redirect_uris", func(p *plain, c *Client) { c.RedirectURIs = p.texts() }},
	{"scope", func(p *plain, c *Client) { c.Scope = oauth.Scope(p.text()) }},
	{"no_rotation", func(p *plain, c *Client) { c.NoRotation = p.boolean() }},
	{"retry_window_ms", func(p *plain, c *Client) { c.RetryWindow = new(Milliseconds(p.number())) }},
	{"reuse_grace_ms", func(p *plain, c *Client) { c.ReuseGrace = new(Milliseconds(p.number())) }},
	{"id_token_signing_alg", func(p *plain, c *Client) { c.IDTokenAlg = keys.Purpose(p.text()) }},
	{"id_token_lifetime_ms", func(p *plain, c *Client) { c.IDTokenLifetime = new(Milliseconds(p.number())) }},
	{"no_refresh_id_token", func(p *plain, c *Client) { c.NoRefreshIDToken = p.boolean() }},
	{"userinfo_signed_response_alg", func(p *plain, c *Client) { c.UserInfoAlg = keys.Purpose(p.text()) }},
	{"post_logout_redirect_uris", func(p *plain, c *Client) { c.PostLogoutRedirectURIs = p.texts() }},
	{"logout_ends_grants", func(p *plain, c *Client) { c.LogoutEndsGrants = p.boolean() }},
	{"backchannel_logout_uri", func(p *plain, c *Client) { c.LogoutURI = p.text() }},
	{"backchannel_logout_session_required", func(p *plain, c *Client) { c.LogoutSession = p.boolean() }},
	{"access_token_format", func(p *plain, c *Client) { c.TokenFormat = TokenFormat(p.text()) }},
	{"signing_alg", func(p *plain, c *Client) { c.SigningAlg = keys.Purpose(p.text()) }},
	{"jwt_type", func(p *plain, c *Client) { c.JWTType = p.text() }},
	{"audience", func(p *plain, c *Client) { c.Audience = p.texts() }},
	{"apis", func(p *plain, c *Client) { c.APIs = p.texts() }},
	{"introspect", func(p *plain, c *Client) { c.Introspect = p.boolean() }},
	{"state", func(p *plain, c *Client) { c.State = ClientState(p.text()) }},
	{"registered_by", func(p *plain, c *Client) { c.RegisteredBy = Registrar(p.text()) }},
	{"secrets", func(p *plain, c *Client) {
		c.Secrets = readPlain(p, func(p *plain) (s Secret) {
			readMembers(p, secretMembers, &s)
			return s
		})
	}},
	{"created_at", func(p *plain, c *Client) { c.CreatedAt = grant.Instant(p.number()) }},
	{"updated_at", func(p *plain, c *Client) { c.UpdatedAt = grant.Instant(p.number()) }},
	{"version", func(p *plain, c *Client) { c.Version = p.number() }},
}

var secretMembers = []plainMember[Secret]{
	{"id", func(p *plain, s *Secret) { s.ID = p.text() }},
	{"digest", func(p *plain, s *Secret) { s.Digest = p.bytes() }},
	{"slow", func(p *plain, s *Secret) { s.Slow = p.text() }},
	{"created_at", func(p *plain, s *Secret) { s.CreatedAt = grant.Instant(p.number()) }},
	{"expires_at", func(p *plain, s *Secret) { s.ExpiresAt = grant.Instant(p.number()) }},
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
// until an instant. Its Version is that of the record before, or 0.
func (c Client) Record(now, until grant.Instant) Document {
	return Document{Kind: DocumentClient, Key: ClientKey(c.Realm, c.ID), Version: c.Version + 1, ExpiresAt: until, Owner: recordOwner(now), Body: c.Entry().Body}
}

// recordSpan is how long the records that are written have one owner, which is no subject:
// so what has changed lately is found by an index, among many records that have not.
const recordSpan = 10 * time.Minute

func recordOwner(at grant.Instant) Owner {
	return OwnerOf("", fmt.Sprint("records of ", int64(at)/recordSpan.Milliseconds()))
}

// RecordOwners returns the owners of the records that were written from an instant to
// another.
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

// add decodes an entry into the list of its kind. It ignores kinds of later
// versions.
func (ch *Changes) add(kind EntryKind, text string) error {
	switch kind {
	case EntryClient:
		ch.Clients = append(ch.Clients, Client{})
		c := &ch.Clients[len(ch.Clients)-1]
		if err := decode(clientMembers, text, c, &c.Later, knownOfClient); err != nil {
			return fmt.Errorf("decode client %q: %w", c.ID, err)
		}
	case EntryAPI:
		ch.APIs = append(ch.APIs, API{})
		a := &ch.APIs[len(ch.APIs)-1]
		if err := decode(apiMembers, text, a, &a.Later, knownOfAPI); err != nil {
			return fmt.Errorf("decode API %q: %w", a.ID, err)
		}
	case EntryTrust:
		t, err := Entry{Kind: kind, Body: []byte(text)}.Trust()
		ch.Trusts = append(ch.Trusts, t)
		return err
	}
	return nil
}
