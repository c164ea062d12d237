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
	// AuthNoneOrJWT is for a client whose metadata document allows both methods: it may
	// use either. An operator registers one or the other.
	AuthNoneOrJWT AuthRule = "none_or_private_key_jwt"
	// AuthPrivateKeyJWT and AuthFederated are for clients that present assertions (RFC
	// 7521 section 3): signed by the client itself, or by the issuer of its Assertion.
	AuthPrivateKeyJWT AuthRule = "private_key_jwt"
	AuthFederated     AuthRule = "federated"
)

// AuthRules lists the rules that an operator can register.
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

// GrantTypes lists the grant types that a client can be registered for, DefaultGrantTypes
// those of a client that names none, and AllGrantTypes those of the token endpoint. For token
// exchange and for JWT assertions, a client is not registered by grant type: see
// Settings.ExchangeFrom and Trust.
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

// A Client is a registered OAuth client. It is stored as one JSON object, which also has the
// members of its Settings. Later keeps the members that this version does not know.
type Client struct {
	ID    string `json:"id"`
	Realm string `json:"realm"`
	Settings
	State ClientState `json:"state"`
	// LongestIDToken is the longest IDTokenLifetime that the client had before: its
	// id_tokens may be that old.
	LongestIDToken Milliseconds `json:"longest_id_token_ms,omitempty"`

	// RegisteredBy says who registered the client. The record of a client that
	// registered itself is not in the directory, but in a document, written when a user
	// first agrees. An entry in the directory can bar such a client; see Decides. Its
	// CreatedAt and UpdatedAt are the times of the first and the last agreement.
	RegisteredBy  Registrar     `json:"registered_by,omitempty"`
	RecordedUntil grant.Instant `json:"-"` // when a sweep may delete the record; zero without a record

	// Beyond are the scopes of ExchangeBeyond, with the times at which they were added.
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
	// RequirePAR makes the server reject the client's authorization requests unless they
	// were pushed (RFC 9126).
	RequirePAR bool `json:"require_pushed_authorization_requests,omitempty"`
	// DPoP says whether the client's tokens are bound to keys (RFC 9449); "": it chooses.
	DPoP DPoPRule `json:"dpop,omitempty"`
	// FirstParty marks a client of the provider itself: users are not asked for consent.
	FirstParty   bool          `json:"first_party,omitempty"`
	GrantTypes   []string      `json:"grant_types"` // nil in a registration: DefaultGrantTypes
	RedirectURIs []string      `json:"redirect_uris"`
	Scope        oauth.Scope   `json:"scope"`
	NoRotation   bool          `json:"no_rotation,omitempty"`
	RetryWindow  *Milliseconds `json:"retry_window_ms,omitempty"` // nil: the deployment's
	ReuseGrace   *Milliseconds `json:"reuse_grace_ms,omitempty"`  // nil: none, or the deployment's if it is SelfRegistered

	// The client's id_tokens.
	IDTokenAlg       keys.Purpose  `json:"id_token_signing_alg,omitempty"` // "": RS256
	IDTokenLifetime  *Milliseconds `json:"id_token_lifetime_ms,omitempty"` // nil: the deployment's
	NoRefreshIDToken bool          `json:"no_refresh_id_token,omitempty"`
	UserInfoAlg      keys.Purpose  `json:"userinfo_signed_response_alg,omitempty"` // "" or "none": JSON

	// PostLogoutRedirectURIs are where browsers may go after a logout that the client
	// asked for (OpenID Connect RP-Initiated Logout 1.0 section 3). With
	// LogoutEndsGrants, the end of a session revokes the grants that it made.
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
	LogoutEndsGrants       bool     `json:"logout_ends_grants,omitempty"`
	// LogoutURI receives logout tokens (OpenID Connect Back-Channel Logout 1.0);
	// "": nothing is sent. With LogoutSession, each logout token names a session.
	LogoutURI     string `json:"backchannel_logout_uri,omitempty"`
	LogoutSession bool   `json:"backchannel_logout_session_required,omitempty"`

	// The format and the audience of the client's access tokens.
	TokenFormat TokenFormat  `json:"access_token_format,omitempty"` // "": opaque
	SigningAlg  keys.Purpose `json:"signing_alg,omitempty"`         // of JWTs; "": ES256
	JWTType     string       `json:"jwt_type,omitempty"`            // "": at+jwt
	Audience    []string     `json:"audience,omitempty"`            // none: the issuer

	// APIs are the APIs that the client may name as resource; see ReadAllowedAPI. In a
	// view of the directory, Scope includes the scopes that they allow.
	APIs []string `json:"apis,omitempty"`
	// AudienceParameter treats the parameter audience of the client's requests as resource.
	AudienceParameter bool `json:"audience_parameter,omitempty"`

	// Introspect makes the client a resource server, which may introspect the access
	// tokens of every client, or only those for one of IntrospectAudience if it is set.
	// With Introspect or ExchangeFrom, and without redirect URIs, a client that names no
	// GrantTypes gets none instead of DefaultGrantTypes.
	Introspect         bool     `json:"introspect,omitempty"`
	IntrospectAudience []string `json:"introspect_audience,omitempty"`

	Assertion AssertionRule `json:"assertion,omitzero"` // if Auth asserts

	// The client may exchange (RFC 8693) an access token of a user if its grant is to a
	// client of ExchangeFrom (grant.EveryClient: to any), and if it is for an API of
	// ServesAPIs or was issued to this client. The new token is for an API of ExchangeAPIs,
	// with its scopes; see ReadAllowedAPI. Only for those of ExchangeBeyond, the user need
	// not have agreed.
	ExchangeFrom   []string     `json:"exchange_from,omitempty"`
	ServesAPIs     []string     `json:"serves_apis,omitempty"`
	ExchangeAPIs   []string     `json:"exchange_apis,omitempty"`
	ExchangeMode   ExchangeMode `json:"exchange_mode,omitempty"`
	ExchangeBeyond []string     `json:"exchange_beyond,omitempty"`
	// MayAct is the only other client that may exchange this client's tokens; "": any
	// client whose ExchangeFrom allows it.
	MayAct string `json:"may_act,omitempty"`
	// IDJAGs are the authorization servers for which the client may get identity assertions;
	// see ReadIDJAG.
	IDJAGs []string `json:"id_jags,omitempty"`
}

// An ExchangeMode says whether a token from an exchange names the client as an actor.
type ExchangeMode string

const (
	Delegate    ExchangeMode = "delegate" // it names the client
	Impersonate ExchangeMode = "impersonate"
)

// A Beyond is a scope of an API that a client gets in token exchanges even if the user has
// not agreed to it. It applies to grants that were authorized after Since.
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
		a, _ := ReadAllowedAPI(text) // Registration has checked it
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

	// For assertions of another issuer:
	Issuer   string        `json:"issuer,omitempty"`
	Subject  string        `json:"subject,omitempty"` // a pattern
	Audience string        `json:"audience,omitempty"`
	Claims   []string      `json:"claims,omitempty"`          // name=value
	Lifetime *Milliseconds `json:"max_lifetime_ms,omitempty"` // nil: 70 minutes
}

// A Profile is the name of a set of rules that a client follows.
type Profile string

// ProfileFAPI2 is the FAPI 2.0 Security Profile.
const ProfileFAPI2 Profile = "fapi2"

// FAPI reports whether the client follows the FAPI 2.0 Security Profile. In addition to its
// settings, its assertions must name the issuer as a string (section 5.3.2.1-8), its codes
// live a minute at most (5.3.2.1-11), and it gets codes for pushed requests only (5.3.2.2-3).
func (s Settings) FAPI() bool { return s.Profile == ProfileFAPI2 }

// A DPoPRule says whether a client sends DPoP proofs of its keys (RFC 9449).
type DPoPRule string

const (
	DPoPAllowed  DPoPRule = "allowed"
	DPoPRequired DPoPRule = "required" // token requests without a proof are rejected
	DPoPOff      DPoPRule = "off"      // its proofs are ignored
)

// JWTTypes are the values of the typ header that can be registered: that of RFC 9068, and
// "JWT" for resource servers that accept no other.
var JWTTypes = []string{"at+jwt", "JWT"}

// A Secret is one of a client's secrets, in the form in which it is checked.
// Exactly one of Digest and Slow is set.
type Secret struct {
	ID         string        `json:"id"`
	Digest     []byte        `json:"digest,omitempty"` // generated: keyed SHA-256
	Slow       string        `json:"slow,omitempty"`   // imported: argon2id, until its first use
	CreatedAt  grant.Instant `json:"created_at"`
	ExpiresAt  grant.Instant `json:"expires_at,omitempty"` // zero: never
	LastUsedAt grant.Instant `json:"-"`                    // stored in another table; see NoteSecretUses
}

// Expired reports whether the secret is past its expiry.
func (s Secret) Expired(now grant.Instant) bool { return s.ExpiresAt != 0 && now >= s.ExpiresAt }

// Public reports whether the client needs no credential by its registration.
func (c Client) Public() bool { return c.Auth == AuthNone || c.Auth == AuthNoneOrJWT }

// SelfRegistered reports whether the client registered itself: no operator vouches for what
// it says about itself.
func (c Client) SelfRegistered() bool { return c.RegisteredBy != ByOperator }

// Decides reports whether this entry of the directory is authoritative for its id. The entry
// of a client that registered itself is authoritative only while an operator has disabled or
// deleted the client. Otherwise, the client's record is authoritative.
func (c Client) Decides() bool { return !c.SelfRegistered() || c.State != ClientEnabled }

// MayUse reports whether the client is registered for the grant type. Only confidential
// clients that an operator registered may use client_credentials (RFC 6749 section 4.4) and
// exchange access tokens. Public clients may get identity assertions, too; see IDJAG.
func (c Client) MayUse(grantType string) bool {
	switch grantType {
	case GrantTokenExchange:
		return c.Exchanges() || len(c.IDJAGs) > 0 && !c.SelfRegistered()
	case oauth.GrantJWTBearer:
		return true // its trusts decide
	}
	return slices.Contains(c.GrantTypes, grantType) && (grantType != GrantClientCredentials || !c.Public() && !c.SelfRegistered())
}

// GetsTokens reports whether the client is registered to get tokens. Other clients may still
// get tokens by a Trust.
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

// LongestIDTokens returns the longest lifetime that the registration gives, or gave, to
// id_tokens; zero if it never set one.
func (c Client) LongestIDTokens() time.Duration {
	longest := c.LongestIDToken
	if c.IDTokenLifetime != nil {
		longest = max(longest, *c.IDTokenLifetime)
	}
	return longest.Duration()
}
