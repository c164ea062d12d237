package store

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A ClientState tells whether a client may authenticate.
type ClientState string

const (
	ClientEnabled  ClientState = "enabled"
	ClientDisabled ClientState = "disabled"
	ClientDeleted  ClientState = "deleted"
)

// An AuthRule is how a client is registered to authenticate.
type AuthRule string

const (
	AuthEither AuthRule = "either" // form or Basic
	AuthPost   AuthRule = "post"
	AuthBasic  AuthRule = "basic"
	AuthNone   AuthRule = "none" // a public client
	// AuthNoneOrJWT is that of a client whose metadata document has both methods: it
	// uses the one that it prefers. An operator registers one or the other.
	AuthNoneOrJWT AuthRule = "none_or_private_key_jwt"
	// AuthPrivateKeyJWT and AuthFederated are assertions that the client itself
	// signs, or an issuer that it trusts (RFC 7521 section 3).
	AuthPrivateKeyJWT AuthRule = "private_key_jwt"
	AuthFederated     AuthRule = "federated"
)

// AuthRules lists them.
var AuthRules = []AuthRule{AuthPost, AuthBasic, AuthEither, AuthNone, AuthPrivateKeyJWT, AuthFederated}

// allowed lists the methods of each rule.
var allowed = map[AuthRule][]oauth.AuthMethod{
	AuthEither: {oauth.AuthPost, oauth.AuthBasic},
	AuthPost:   {oauth.AuthPost},
	AuthBasic:  {oauth.AuthBasic},
	AuthNone:   {oauth.AuthNone},

	AuthNoneOrJWT:     {oauth.AuthNone, oauth.AuthPrivateKeyJWT},
	AuthPrivateKeyJWT: {oauth.AuthPrivateKeyJWT},
	AuthFederated:     {oauth.AuthPrivateKeyJWT},
}

// Asserts reports whether clients of the rule have no secret because they present
// assertions.
func (r AuthRule) Asserts() bool { return r == AuthPrivateKeyJWT || r == AuthFederated }

// Allows reports whether the rule lets a client use the method.
func (r AuthRule) Allows(m oauth.AuthMethod) bool { return slices.Contains(allowed[r], m) }

// The grant types of the token endpoint.
const (
	GrantAuthorizationCode = "authorization_code"
	GrantRefreshToken      = "refresh_token"
	GrantClientCredentials = "client_credentials"
	GrantDeviceCode        = "urn:ietf:params:oauth:grant-type:device_code"    // RFC 8628
	GrantTokenExchange     = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
)

// GrantTypes lists those that a client can be registered for, and DefaultGrantTypes
// those of a client that names none. A client exchanges tokens by its ExchangeFrom, and
// presents assertions by a Trust.
// AllGrantTypes are those of the endpoint.
var (
	GrantTypes        = []string{GrantAuthorizationCode, GrantRefreshToken, GrantClientCredentials, GrantDeviceCode}
	DefaultGrantTypes = GrantTypes[:2]
	AllGrantTypes     = append(slices.Clone(GrantTypes), GrantTokenExchange, oauth.GrantJWTBearer)
)

// A Registrar is who registered a client.
type Registrar string

const (
	ByOperator Registrar = ""
	// ByDocument is a client whose id is the address of its metadata document.
	ByDocument Registrar = "document"
	// ByRequest is a client that registered itself (RFC 7591): its id is the sealed
	// registration.
	ByRequest Registrar = "request"
)

// A Client is a registered client system. It is stored as JSON, with the members
// of its Settings beside its own, so members may be added; a version that does not
// know one leaves it alone only by not writing the client.
type Client struct {
	ID    string `json:"id"`
	Realm string `json:"realm"`
	Settings
	State ClientState `json:"state"`
	// LongestIDToken is the longest IDTokenLifetime that there was before: id_tokens
	// may be that old.
	LongestIDToken Milliseconds `json:"longest_id_token_ms,omitempty"`

	// RegisteredBy says who registered it. The record of a client that registered
	// itself is not in the directory: it is a document, written when a user first
	// agrees. An entry bars it; see Decides. CreatedAt and UpdatedAt are those of the
	// first and the last agreement.
	RegisteredBy  Registrar     `json:"registered_by,omitempty"`
	RecordedUntil grant.Instant `json:"-"` // when the record may go; zero for others

	// Beyond are the scopes of ExchangeBeyond, and since when they are there.
	Beyond []Beyond `json:"exchange_beyond_since,omitempty"`

	Secrets   []Secret      `json:"secrets"`
	CreatedAt grant.Instant `json:"created_at"`
	UpdatedAt grant.Instant `json:"updated_at"`
	Version   int64         `json:"version"`

	Later
}

// Settings are what a registration chooses for a client.
type Settings struct {
	Name string `json:"name"`
	// Profile is the security profile that the client follows, or "". Its registration
	// has every setting that the profile demands; see FAPI for what else it demands.
	Profile Profile `json:"profile,omitempty"`

	Auth   AuthRule `json:"auth_method"`
	Native bool     `json:"native,omitempty"`
	NoPKCE Waiver   `json:"require_pkce"`
	// RequirePAR refuses its authorization requests unless they were pushed (RFC 9126).
	RequirePAR bool `json:"require_pushed_authorization_requests,omitempty"`
	// DPoP is whether its tokens are bound to keys (RFC 9449); "": as it wishes.
	DPoP DPoPRule `json:"dpop,omitempty"`
	// FirstParty is the provider's own: its users are not asked for consent.
	FirstParty   bool          `json:"first_party,omitempty"`
	GrantTypes   []string      `json:"grant_types"` // nil in a registration: DefaultGrantTypes
	RedirectURIs []string      `json:"redirect_uris"`
	Scope        oauth.Scope   `json:"scope"`
	NoRotation   bool          `json:"no_rotation,omitempty"`
	RetryWindow  *Milliseconds `json:"retry_window_ms,omitempty"` // nil: the deployment's
	ReuseGrace   *Milliseconds `json:"reuse_grace_ms,omitempty"`  // nil: none, or the deployment's if it is SelfRegistered

	// Its id_tokens.
	IDTokenAlg       keys.Purpose  `json:"id_token_signing_alg,omitempty"` // "": RS256
	IDTokenLifetime  *Milliseconds `json:"id_token_lifetime_ms,omitempty"` // nil: the deployment's
	NoRefreshIDToken bool          `json:"no_refresh_id_token,omitempty"`
	UserInfoAlg      keys.Purpose  `json:"userinfo_signed_response_alg,omitempty"` // "" or "none": its userinfo is JSON

	// PostLogoutRedirectURIs are where browsers may go after a logout that the client
	// asked for (OpenID Connect RP-Initiated Logout 1.0 section 3). With
	// LogoutEndsGrants, the end of a session revokes the grants that it made.
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
	LogoutEndsGrants       bool     `json:"logout_ends_grants,omitempty"`
	// LogoutURI receives logout tokens (OpenID Connect Back-Channel Logout 1.0);
	// "": nothing is sent. With LogoutSession, each of them names a session.
	LogoutURI     string `json:"backchannel_logout_uri,omitempty"`
	LogoutSession bool   `json:"backchannel_logout_session_required,omitempty"`

	// What its access tokens look like, and whom they are for.
	TokenFormat TokenFormat  `json:"access_token_format,omitempty"` // "": opaque
	SigningAlg  keys.Purpose `json:"signing_alg,omitempty"`         // of JWTs; "": ES256
	JWTType     string       `json:"jwt_type,omitempty"`            // "": at+jwt
	Audience    []string     `json:"audience,omitempty"`            // none: the issuer

	// APIs are those that it may name as resource; see ReadAllowedAPI. In a
	// directory's view, Scope includes what they allow.
	APIs []string `json:"apis,omitempty"`
	// AudienceParameter: the parameter audience of its requests is a resource.
	AudienceParameter bool `json:"audience_parameter,omitempty"`

	// Introspect makes it a resource server, which may ask about the access
	// tokens of every client: those for one of IntrospectAudience, if it is set.
	// Without redirect URIs, it gets no grant types unless they are named; nor does one
	// with ExchangeFrom.
	Introspect         bool     `json:"introspect,omitempty"`
	IntrospectAudience []string `json:"introspect_audience,omitempty"`

	Assertion AssertionRule `json:"assertion,omitzero"` // if Auth asserts

	// Which tokens of users it may exchange (RFC 8693): those of grants to these clients
	// (grant.EveryClient: to all) that are for one of these APIs or its own; and for
	// which APIs, with which scopes. Beyond what a user has agreed to, only ExchangeBeyond
	// allows. See ReadAllowedAPI.
	ExchangeFrom   []string     `json:"exchange_from,omitempty"`
	ServesAPIs     []string     `json:"serves_apis,omitempty"`
	ExchangeAPIs   []string     `json:"exchange_apis,omitempty"`
	ExchangeMode   ExchangeMode `json:"exchange_mode,omitempty"`
	ExchangeBeyond []string     `json:"exchange_beyond,omitempty"`
	// MayAct is the client that alone may exchange its tokens; "": all that may otherwise.
	MayAct string `json:"may_act,omitempty"`
	// IDJAGs are the authorization servers for which it may get identity assertions; see
	// ReadIDJAG.
	IDJAGs []string `json:"id_jags,omitempty"`
}

// An ExchangeMode is whether tokens that a client gets in exchange name it as an actor.
type ExchangeMode string

const (
	Delegate    ExchangeMode = "delegate" // they do
	Impersonate ExchangeMode = "impersonate"
)

// A Beyond is a scope of an API that a client may have beyond what a user has agreed to,
// in exchanges of tokens of grants that were made later than Since.
type Beyond struct {
	API   string        `json:"api"`
	Scope oauth.Scope   `json:"scope"`
	Since grant.Instant `json:"since"`
}

// DateBeyond sets Beyond to the scopes of ExchangeBeyond, with the date now. A scope that
// Beyond had already keeps its date.
func (c *Client) DateBeyond(now grant.Instant) {
	before := c.Beyond
	c.Beyond = nil
	for _, text := range c.ExchangeBeyond {
		a, _ := ReadAllowedAPI(text) // it has been checked
		for _, name := range a.Scope.Tokens() {
			b := Beyond{a.ID, oauth.Scope(name), now}
			for _, was := range before {
				if oauth.CanonicalTarget(was.API) == oauth.CanonicalTarget(b.API) && was.Scope == b.Scope {
					b.Since = was.Since
				}
			}
			c.Beyond = append(c.Beyond, b)
		}
	}
}

// A Waiver frees a client from a requirement. The stored form says whether the
// requirement holds.
type Waiver bool

func (w Waiver) MarshalJSON() ([]byte, error) { return json.Marshal(!bool(w)) }

func (w *Waiver) UnmarshalJSON(text []byte) error {
	var required bool
	err := json.Unmarshal(text, &required)
	*w = Waiver(!required)
	return err
}

// An AssertionRule says which assertions authenticate a client (RFC 7523 section 3).
type AssertionRule struct {
	Alg     string          `json:"alg"`
	Keys    json.RawMessage `json:"jwks,omitempty"` // or else they are at KeysURI
	KeysURI string          `json:"jwks_uri,omitempty"`
	KeysCA  string          `json:"jwks_ca,omitempty"` // PEM
	// TokenEndpoint accepts the token endpoint's address as the audience of what
	// the client signs.
	TokenEndpoint bool `json:"token_endpoint_audience,omitempty"`

	// Of another issuer's assertions:
	Issuer   string        `json:"issuer,omitempty"`
	Subject  string        `json:"subject,omitempty"` // a pattern
	Audience string        `json:"audience,omitempty"`
	Claims   []string      `json:"claims,omitempty"`          // name=value
	Lifetime *Milliseconds `json:"max_lifetime_ms,omitempty"` // nil: 70 minutes
}

// A Profile is a set of rules that a client follows, by one name.
type Profile string

// ProfileFAPI2 is the FAPI 2.0 Security Profile.
const ProfileFAPI2 Profile = "fapi2"

// FAPI reports whether the client follows the FAPI 2.0 Security Profile. Beside what its
// settings say, its assertions name the issuer as a string (section 5.3.2.1-8), its codes
// live a minute at most (5.3.2.1-11), and it gets none without a pushed request
// (5.3.2.2-3).
func (s Settings) FAPI() bool { return s.Profile == ProfileFAPI2 }

// A DPoPRule is whether a client proves keys (RFC 9449).
type DPoPRule string

const (
	DPoPAllowed  DPoPRule = "allowed"
	DPoPRequired DPoPRule = "required" // its token requests have proofs
	DPoPOff      DPoPRule = "off"      // its proofs are ignored
)

// JWTTypes are the values of the typ header that a client may ask for: the one
// of RFC 9068, or the one of resource servers that know no other.
var JWTTypes = []string{"at+jwt", "JWT"}

// A Secret is one of a client's secrets, in the form in which it is checked.
// Exactly one of Digest and Slow is set.
type Secret struct {
	ID         string        `json:"id"`
	Digest     []byte        `json:"digest,omitempty"` // generated: keyed SHA-256
	Slow       string        `json:"slow,omitempty"`   // imported: argon2id, until its first use
	CreatedAt  grant.Instant `json:"created_at"`
	ExpiresAt  grant.Instant `json:"expires_at,omitempty"` // zero: never
	LastUsedAt grant.Instant `json:"-"`                    // kept apart; see NoteSecretUses
}

// Expired reports whether the secret is past its expiry.
func (s Secret) Expired(now grant.Instant) bool { return s.ExpiresAt != 0 && now >= s.ExpiresAt }

// Public reports whether the client needs no credential by its registration.
func (c Client) Public() bool { return c.Auth == AuthNone || c.Auth == AuthNoneOrJWT }

// SelfRegistered reports whether nobody but the client vouches for what it says of
// itself.
func (c Client) SelfRegistered() bool { return c.RegisteredBy != ByOperator }

// Decides reports whether this entry of the directory is authoritative for its id. The entry
// of a client that registered itself is only while an operator has disabled or deleted the
// client. Otherwise the client's record is.
func (c Client) Decides() bool { return !c.SelfRegistered() || c.State != ClientEnabled }

// MayUse reports whether the client is registered for the grant type. Tokens for
// itself (RFC 6749 section 4.4), and exchanges, are for confidential clients of an
// operator only. Identity assertions are for public clients, too; see IDJAG.
func (c Client) MayUse(grantType string) bool {
	switch grantType {
	case GrantTokenExchange:
		return c.Exchanges() || len(c.IDJAGs) > 0 && !c.SelfRegistered()
	case oauth.GrantJWTBearer:
		return true // its trusts decide
	}
	return slices.Contains(c.GrantTypes, grantType) && (grantType != GrantClientCredentials || !c.Public() && !c.SelfRegistered())
}

// GetsTokens reports whether the client is registered to get tokens. A trust may give
// tokens to others, too.
func (c Client) GetsTokens() bool { return len(c.GrantTypes) > 0 || c.MayUse(GrantTokenExchange) }

// Exchanges reports whether the client is registered to exchange access tokens.
func (c Client) Exchanges() bool {
	return len(c.ExchangeFrom) > 0 && !c.Public() && !c.SelfRegistered()
}

// Clone copies c and its lists, to be changed and written back.
func (c Client) Clone() Client {
	c.Settings = c.Settings.Clone()
	c.Secrets = slices.Clone(c.Secrets)
	c.Beyond = slices.Clone(c.Beyond)
	return c
}

// RequiresPKCE reports whether the client's codes need a PKCE challenge.
func (s Settings) RequiresPKCE() bool { return !bool(s.NoPKCE) }

// Clone copies s and its lists.
func (s Settings) Clone() Settings {
	s.GrantTypes = slices.Clone(s.GrantTypes)
	s.RedirectURIs = slices.Clone(s.RedirectURIs)
	s.PostLogoutRedirectURIs = slices.Clone(s.PostLogoutRedirectURIs)
	s.Audience = slices.Clone(s.Audience)
	s.APIs = slices.Clone(s.APIs)
	s.IntrospectAudience = slices.Clone(s.IntrospectAudience)
	s.ExchangeFrom, s.ServesAPIs = slices.Clone(s.ExchangeFrom), slices.Clone(s.ServesAPIs)
	s.ExchangeAPIs, s.ExchangeBeyond = slices.Clone(s.ExchangeAPIs), slices.Clone(s.ExchangeBeyond)
	s.IDJAGs = slices.Clone(s.IDJAGs)
	s.Assertion.Keys, s.Assertion.Claims = slices.Clone(s.Assertion.Keys), slices.Clone(s.Assertion.Claims)
	return s
}

// LongestIDTokens returns the longest lifetime that the registration gives id_tokens,
// or gave, or zero.
func (c Client) LongestIDTokens() time.Duration {
	longest := c.LongestIDToken
	if c.IDTokenLifetime != nil {
		longest = max(longest, *c.IDTokenLifetime)
	}
	return longest.Duration()
}
