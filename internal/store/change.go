package store

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A Change is what Commit stores. Empty members store nothing.
type Change struct {
	// Expect is the version of the directory that the change requires, or 0 for
	// any. Keys require one.
	Expect    int64
	Entries   []Entry       // each follows version Version-1; the first is 1
	Documents []Document    // each follows version Version-1; the first is 1
	Delete    []DocumentKey // whatever the version; an absent one is no error
	Cutoffs   []Cutoff      // unless a later one of the same name is stored
	Keys      []keys.Stored // new ones, and new wrapped forms of stored ones
	Restores  []grant.Restore
	Events    []Event
}

// Directory reports whether c changes the directory, which every node polls.
func (c Change) Directory() bool {
	return len(c.Entries)+len(c.Cutoffs)+len(c.Keys)+len(c.Restores) > 0
}

// OneDocument reports whether c stores one document and nothing else: engines
// commit many of those together.
func (c Change) OneDocument() bool {
	return len(c.Documents) == 1 && len(c.Delete)+len(c.Events) == 0 && c.Expect == 0 && !c.Directory()
}

// Checked validates c and returns a deep copy: a write may continue after its call
// has returned because the context has ended.
func (c Change) Checked() (Change, error) {
	c.Entries, c.Cutoffs, c.Restores = slices.Clone(c.Entries), slices.Clone(c.Cutoffs), slices.Clone(c.Restores)
	c.Documents, c.Delete = slices.Clone(c.Documents), slices.Clone(c.Delete)
	c.Keys, c.Events = slices.Clone(c.Keys), slices.Clone(c.Events)
	// Not nil, which would be NULL.
	for i, e := range c.Entries {
		c.Entries[i].Body = append([]byte{}, e.Body...)
	}
	for i, k := range c.Keys {
		c.Keys[i].Wrapped = append([]byte{}, k.Wrapped...)
	}
	slices.SortFunc(c.Documents, func(a, b Document) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for i, d := range c.Documents {
		switch {
		case len(d.Body) > MaxDocument:
			return c, fmt.Errorf("write document: the %s has %d bytes, and %d are allowed", d.Kind, len(d.Body), MaxDocument)
		case d.Version < 1:
			return c, fmt.Errorf("write document: there is no version %d", d.Version)
		case i > 0 && d.Key == c.Documents[i-1].Key, slices.Contains(c.Delete, d.Key):
			return c, fmt.Errorf("write document: the %s is in the change twice", d.Kind)
		}
		c.Documents[i].Body = append([]byte{}, d.Body...)
	}
	return c, nil
}

// A Statement is SQL that every engine understands. Its arguments are of type
// int64, string or []byte; $1 is the first, and they first appear in their order.
type Statement struct {
	Text string
	Args []any
	// Must is set if it is a conflict that the statement writes no row.
	Must bool
}

// Statements returns the statements that write the directory's part of c, in order.
func (c Change) Statements() (list []Statement) {
	const version = `(SELECT version FROM directory WHERE id = 1)`
	switch must := c.Expect != 0 || len(c.Keys) > 0; {
	case must && c.Directory():
		list = append(list, Statement{`UPDATE directory SET version = version + 1 WHERE id = 1 AND version = $1`, []any{c.Expect}, true})
	case must:
		list = append(list, Statement{`UPDATE directory SET version = version WHERE id = 1 AND version = $1`, []any{c.Expect}, true})
	case c.Directory():
		list = append(list, Statement{Text: `UPDATE directory SET version = version + 1 WHERE id = 1`, Must: true})
	}
	for _, e := range c.Entries {
		if e.Version == 1 {
			list = append(list, Statement{`INSERT INTO clients (id, kind, version, doc, changed) VALUES ($1, $2, $3, $4, ` + version + `) ON CONFLICT (id) DO NOTHING`,
				[]any{e.row(), string(e.Kind), e.Version, string(e.Body)}, true})
		} else {
			list = append(list, Statement{`UPDATE clients SET version = $1, doc = $2, changed = ` + version + ` WHERE id = $3 AND version = $4`,
				[]any{e.Version, string(e.Body), e.row(), e.Version - 1}, true})
		}
	}
	for _, k := range c.Keys {
		list = append(list, Statement{`INSERT INTO keys (id, purpose, created_at, active_at, wrapped, changed) VALUES ($1, $2, $3, $4, $5, ` + version + `)
			ON CONFLICT (id) DO UPDATE SET wrapped = excluded.wrapped, changed = excluded.changed
			WHERE keys.purpose = excluded.purpose AND keys.created_at = excluded.created_at AND keys.active_at = excluded.active_at AND keys.wrapped <> excluded.wrapped`,
			keyArgs(k), true})
	}
	for _, r := range c.Restores {
		list = append(list, Statement{`INSERT INTO restores (at, backup_at, until, changed) VALUES ($1, $2, $3, ` + version + `) ON CONFLICT (at) DO NOTHING`,
			[]any{int64(r.At), int64(r.Backup), int64(r.Until)}, true})
	}
	for _, o := range c.Cutoffs {
		list = append(list, Statement{Text: `INSERT INTO cutoffs (realm, subject, client, at, changed) VALUES ($1, $2, $3, $4, ` + version + `)
			ON CONFLICT (realm, subject, client) DO UPDATE SET at = excluded.at, changed = excluded.changed WHERE excluded.at > cutoffs.at`, Args: cutoffArgs(o)})
	}
	return list
}

// Held returns one query for each record of c, whose result is 1 if the store
// already holds exactly that record: a call that is made again after an unknown
// outcome recognises its own writes.
func (c Change) Held() (list []Statement) {
	for _, e := range c.Entries {
		list = append(list, Statement{Text: `SELECT count(*) FROM clients WHERE id = $1 AND version = $2 AND doc = $3`, Args: []any{e.row(), e.Version, string(e.Body)}})
	}
	for _, d := range c.Documents {
		list = append(list, Statement{Text: `SELECT count(*) FROM documents WHERE id = $1 AND kind = $2 AND version = $3 AND expires_at = $4 AND owner = $5 AND body = $6`,
			Args: []any{d.Key[:], string(d.Kind), d.Version, int64(d.ExpiresAt), d.Owner.Bytes(), d.Body}})
	}
	for _, key := range c.Delete {
		list = append(list, Statement{Text: `SELECT 1 - count(*) FROM documents WHERE id = $1`, Args: []any{key[:]}})
	}
	for _, o := range c.Cutoffs {
		list = append(list, Statement{Text: `SELECT count(*) FROM cutoffs WHERE realm = $1 AND subject = $2 AND client = $3 AND at >= $4`, Args: cutoffArgs(o)})
	}
	for _, k := range c.Keys {
		list = append(list, Statement{Text: `SELECT count(*) FROM keys WHERE id = $1 AND purpose = $2 AND created_at = $3 AND active_at = $4 AND wrapped = $5`, Args: keyArgs(k)})
	}
	for _, r := range c.Restores {
		list = append(list, Statement{Text: `SELECT count(*) FROM restores WHERE at = $1 AND backup_at = $2 AND until = $3`, Args: []any{int64(r.At), int64(r.Backup), int64(r.Until)}})
	}
	return list
}

func keyArgs(k keys.Stored) []any {
	return []any{int64(k.ID), string(k.Purpose), int64(k.CreatedAt), int64(k.ActiveAt), k.Wrapped}
}

func cutoffArgs(c Cutoff) []any { return []any{c.Realm, c.Subject, c.ClientID, int64(c.At)} }

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
