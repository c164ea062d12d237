package store

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A plain reads JSON of the form in which this program writes most of it: no blanks, no
// escapes, members in a fixed order. A node decodes every client and API when it starts,
// and this takes an eighth of the time of encoding/json. It accepts nothing that
// encoding/json reads otherwise; decode gives everything else to encoding/json.
type plain struct {
	rest  string
	other bool // the text has another form
}

// A plainMember reads the value of a member.
type plainMember[T any] struct {
	name string
	read func(*plain, *T)
}

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

// apiMembers are the members of an API, and apiScopeMembers those of its scopes.
var apiMembers = []plainMember[API]{
	{"id", func(p *plain, a *API) { a.ID = p.text() }},
	{"realm", func(p *plain, a *API) { a.Realm = p.text() }},
	{"name", func(p *plain, a *API) { a.Name = p.text() }},
	{"number", func(p *plain, a *API) { a.Number = p.small() }},
	{"deleted", func(p *plain, a *API) { a.Deleted = p.boolean() }},
	{"scopes", func(p *plain, a *API) {
		a.Scopes = readPlain(p, func(p *plain) (s APIScope) {
			readMembers(p, apiScopeMembers, &s)
			return s
		})
	}},
	{"last_scope", func(p *plain, a *API) { a.LastScope = p.small() }},
	{"token_format", func(p *plain, a *API) { a.TokenFormat = TokenFormat(p.text()) }},
	{"access_lifetime_ms", func(p *plain, a *API) { a.AccessLifetime = new(Milliseconds(p.number())) }},
	{"longest_lifetime_ms", func(p *plain, a *API) { a.LongestLifetime = Milliseconds(p.number()) }},
	{"open", func(p *plain, a *API) { a.Open = p.boolean() }},
	{"default_scope", func(p *plain, a *API) { a.DefaultScope = oauth.Scope(p.text()) }},
	{"created_at", func(p *plain, a *API) { a.CreatedAt = grant.Instant(p.number()) }},
	{"updated_at", func(p *plain, a *API) { a.UpdatedAt = grant.Instant(p.number()) }},
	{"version", func(p *plain, a *API) { a.Version = p.number() }},
}

var apiScopeMembers = []plainMember[APIScope]{
	{"name", func(p *plain, s *APIScope) { s.Name = p.text() }},
	{"number", func(p *plain, s *APIScope) { s.Number = p.small() }},
	{"texts", func(p *plain, s *APIScope) { s.Texts = p.named() }},
}

// decode reads a value into one that is zero: a client is large. The texts of the value
// share the memory of text.
func decode[T any](list []plainMember[T], text string, into *T) error {
	if decodePlain(list, text, into) {
		return nil
	}
	*into = *new(T)
	return json.Unmarshal([]byte(text), into)
}

// decodePlain decodes a value, or reports that encoding/json has to.
func decodePlain[T any](list []plainMember[T], text string, into *T) (ok bool) {
	p := &plain{rest: text}
	readMembers(p, list, into)
	return !p.other && p.rest == ""
}

// readMembers reads an object, whose members are some of list, in its order.
func readMembers[T any](p *plain, list []plainMember[T], into *T) {
	p.expect("{")
	for first := true; !p.other && !p.skip("}"); first = false {
		if !first {
			p.expect(",")
		}
		name := p.text()
		p.expect(":")
		for len(list) > 0 && list[0].name != name {
			list = list[1:]
		}
		if len(list) == 0 {
			p.other = true
			return
		}
		list[0].read(p, into)
		list = list[1:]
	}
}

// readPlain reads an array, or null, which is nil.
func readPlain[T any](p *plain, item func(*plain) T) []T {
	if p.skip("null") {
		return nil
	}
	p.expect("[")
	list := []T{}
	for first := true; !p.other && !p.skip("]"); first = false {
		if !first {
			p.expect(",")
		}
		list = append(list, item(p))
	}
	return list
}

func (p *plain) skip(text string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, text)
	return found
}

func (p *plain) expect(text string) {
	if !p.skip(text) {
		p.other = true
	}
}

// text reads a string without escapes.
func (p *plain) text() string {
	p.expect(`"`)
	ascii := true
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			if !ascii && !utf8.ValidString(text) {
				p.other = true
			}
			return text
		case c < ' ' || c == '\\':
			p.other = true
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	p.other = true
	return ""
}

func (p *plain) texts() []string { return readPlain(p, (*plain).text) }

// named reads texts by their names.
func (p *plain) named() map[string]string {
	p.expect("{")
	texts := map[string]string{}
	for first := true; !p.other && !p.skip("}"); first = false {
		if !first {
			p.expect(",")
		}
		name := p.text()
		p.expect(":")
		texts[name] = p.text()
	}
	return texts
}

// bytes reads a string in base64, without line breaks.
func (p *plain) bytes() []byte {
	b, err := base64.StdEncoding.DecodeString(p.text())
	if err != nil {
		p.other = true
	}
	return b
}

func (p *plain) boolean() bool {
	if p.skip("true") {
		return true
	}
	p.expect("false")
	return false
}

// number reads a whole number without an exponent.
func (p *plain) number() int64 {
	end := strings.IndexAny(p.rest, ",}]")
	if end < 0 {
		p.other = true
		return 0
	}
	digits := p.rest[:end]
	p.rest = p.rest[end:]
	n, err := strconv.ParseInt(digits, 10, 64)
	// JSON has neither "+1" nor "01", and "-0" is not worth a thought.
	if err != nil || digits[0] == '+' || digits != "0" && strings.HasPrefix(strings.TrimPrefix(digits, "-"), "0") {
		p.other = true
	}
	return n
}

// small reads a number of 16 bits.
func (p *plain) small() uint16 {
	n := p.number()
	if n < 0 || n > math.MaxUint16 {
		p.other = true
	}
	return uint16(n)
}
