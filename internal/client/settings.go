package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

var generalSettings = []Setting{
	{
		Name: "name", Member: "name", Flag: "name", Group: "Client", Help: "what people call it (required)", Update: "what people call it",
		Field: func(r *Registration) any { return &r.Name },
		check: func(r *Registration) error {
			if strings.TrimSpace(r.Name) == "" || len(r.Name) > maxClientName {
				return fmt.Errorf("missing or too long: 1 to %d bytes that tell people whose client it is", maxClientName)
			}
			if !oauth.IsText(r.Name, maxClientName) {
				return fmt.Errorf("%q is not UTF-8 text without control characters", r.Name)
			}
			return nil
		},
	},
	{
		Name: "profile", Member: "profile", Optional: true, Flag: "profile", Group: "Authentication",
		Schema: "{type: string, enum: [fapi2], description: 'It follows the FAPI 2.0 Security Profile: what the request leaves out has the value that the profile demands, and what contradicts it is refused.'}",
		Help:   "fapi2: it follows the FAPI 2.0 Security Profile, which sets pushed requests, PKCE, private_key_jwt, DPoP, no rotation of refresh tokens, and algorithms; what contradicts it is refused",
		Update: "fapi2: set and demand what the FAPI 2.0 Security Profile says; \"\": demand it no longer",
		Field:  func(r *Registration) any { return (*string)(&r.Profile) },
		check:  (*Registration).checkProfile,
	},
	{
		Name: "auth method", Member: "auth_method", Flag: "auth-method", Group: "Authentication",
		Schema: "{type: string, enum: [" + listed(store.AuthRules) + ", none_or_private_key_jwt], default: either, description: 'The last one is only of clients that registered themselves.'}",
		Help:   listed(store.AuthRules),
		Update: listed(slices.DeleteFunc(slices.Clone(store.AuthRules), func(r store.AuthRule) bool { return r == store.AuthNone })),
		Field:  func(r *Registration) any { return (*string)(&r.Auth) },
		check: func(r *Registration) error {
			if err := oneOf(r.Auth, store.AuthRules...); err != nil {
				return err
			}
			return checkAssertions(r)
		},
	},
	{
		Name: "native", Member: "native", Flag: "native", Group: "Client",
		Help:  "a program on a user's device, or a web application under development: allow http redirects to 127.0.0.1 and [::1] on any port, and to localhost, and private-use schemes (RFC 8252)",
		Field: func(r *Registration) any { return &r.Native },
	},
	{
		Name: "requires pkce", Member: "require_pkce", Inverse: true, Flag: "no-pkce", Group: "Authentication",
		Schema: "{type: boolean, default: true}",
		Help:   "do not ask for PKCE, at the authorization endpoint and of login portals, for client systems that cannot",
		Update: "do not ask for it, for client systems that cannot",
		Field:  func(r *Registration) any { return (*bool)(&r.NoPKCE) },
	},
	{
		Name: "pushed requests", Member: "require_pushed_authorization_requests", Flag: "require-par", Group: "Authentication", Optional: true,
		Help:   "refuse its authorization requests unless they were pushed (RFC 9126)",
		Update: "refuse its authorization requests unless they were pushed (RFC 9126); --require-par=false: accept others too",
		Field:  func(r *Registration) any { return &r.RequirePAR },
	},
	{
		Name: "dpop", Member: "dpop", Optional: true, Flag: "dpop", Group: "Access tokens",
		Schema: "{type: string, enum: [allowed, required, 'off'], default: allowed}",
		Help:   "whether its tokens are bound to keys (RFC 9449): allowed (default): if it sends proofs; required: always; off: its proofs are ignored",
		Field:  func(r *Registration) any { return (*string)(&r.DPoP) },
		check: func(r *Registration) error {
			return oneOf(cmp.Or(r.DPoP, store.DPoPAllowed), store.DPoPAllowed, store.DPoPRequired, store.DPoPOff)
		},
	},
	{
		Name: "first party", Member: "first_party", Flag: "first-party", Group: "Client",
		Help:   "it is the provider's own: users are not asked for consent",
		Update: "it is the provider's own: users are not asked for consent; --first-party=false: they are",
		Field:  func(r *Registration) any { return &r.FirstParty },
	},
	{
		Name: "refresh rotation", Member: "refresh_rotation", Inverse: true, Flag: "no-rotation", Group: "Refresh", Fixed: true,
		Schema: "{type: boolean, default: true}",
		Help:   "return the same refresh token, whose lifetime does not slide: a departure from the specification",
		Field:  func(r *Registration) any { return &r.NoRotation },
		check: func(r *Registration) error {
			if r.NoRotation && r.Auth == store.AuthNone {
				return fmt.Errorf("a public client's refresh tokens must rotate (RFC 9700 section 4.14.2): leave it out, or give the client a secret")
			}
			return nil
		},
	},
	{
		// Its limit depends on the deployment: see apply.
		Name: "retry window", Member: "retry_window", Flag: "retry-window", Group: "Refresh",
		Schema: "{type: [string, 'null'], description: 'A duration such as 30s; null for that of the server.'}",
		Help:   "how long a spent refresh token gets the same pair again; 0s: never",
		Update: "how long a spent refresh token gets the same pair again; 0s: never; default: the server's",
		Field:  func(r *Registration) any { return &r.RetryWindow },
	},
	{
		Name: "reuse grace", Member: "reuse_grace", Flag: "reuse-grace", Group: "Refresh",
		Schema: "{type: [string, 'null'], description: 'A duration of at most 24h: how long after its issue a spent refresh token is treated as the present one; null for never.'}",
		Help:   "how long after its issue a spent refresh token is treated as the present one, for clients whose processes share a token file; at most 24h; default: never; see client_metadata.reuse_grace for clients that registered themselves",
		Field:  func(r *Registration) any { return &r.ReuseGrace },
		check: func(r *Registration) error {
			if d := r.ReuseGrace; d != nil && (*d < 0 || d.Duration() > grant.MaxReuseGrace) {
				return fmt.Errorf("0s to %s", grant.MaxReuseGrace)
			}
			return nil
		},
	},
	{
		Name: "grant types", Member: "grant_types", Flag: "grant-types", Group: "Client", Fixed: true,
		Schema: "{type: array, items: {type: string, enum: [authorization_code, refresh_token, client_credentials, 'urn:ietf:params:oauth:grant-type:device_code']}}",
		Help:   "authorization_code and refresh_token (default: both), client_credentials, device_code (urn:ietf:params:oauth:grant-type:device_code)",
		Field:  func(r *Registration) any { return &r.GrantTypes },
		check: func(r *Registration) error {
			if r.Auth == store.AuthNone && slices.Contains(r.GrantTypes, store.GrantClientCredentials) {
				return fmt.Errorf("client_credentials is for confidential clients (RFC 6749 section 4.4)")
			}
			return eachOf(r.GrantTypes, store.GrantTypes)
		},
	},
	{
		Name: "redirect uris", Change: "redirect uri", Member: "redirect_uris", Each: true, Flag: "redirect-uri", Group: "Client",
		Help:   "callback to which codes may go, compared character by character; repeatable",
		Update: "callback to which codes may go, instead of all that there were; repeatable",
		Field:  func(r *Registration) any { return &r.RedirectURIs },
		check: func(r *Registration) error {
			if slices.Contains(r.GrantTypes, store.GrantAuthorizationCode) && len(r.RedirectURIs) == 0 {
				return fmt.Errorf("missing: the code reaches the client through it")
			}
			return r.checkRedirectURIs(r.RedirectURIs, r.kept.RedirectURIs)
		},
	},
	{
		Name: "scope", Member: "scope", Words: true, Flag: "scope", Group: "Client",
		Help: "scopes that it may be granted, separated by spaces (required)", Update: "scopes that it may be granted, separated by spaces, instead of all that there were",
		Field: func(r *Registration) any { return (*string)(&r.Scope) },
		check: func(r *Registration) error {
			scope, err := oauth.ParseScope(string(r.Scope))
			if err == nil && scope.Without(oauth.OfflineAccess) == "" && len(r.GrantTypes) > 0 && len(r.APIs) == 0 {
				err = fmt.Errorf("missing: a client needs at least one, because every answer names the scope")
			}
			return err
		},
	},
	{
		Name: "access tokens", Member: "access_token_format", Flag: "access-token-format", Group: "Access tokens", Default: string(store.TokenOpaque),
		Schema: "{type: string, enum: [opaque, jwt], default: opaque}",
		Help:   "opaque (default), or jwt: RFC 9068",
		Field:  func(r *Registration) any { return (*string)(&r.TokenFormat) },
		check: func(r *Registration) error {
			if r.TokenFormat != "" && r.TokenFormat != store.TokenOpaque && r.TokenFormat != store.TokenJWT {
				return fmt.Errorf("%q is neither opaque nor jwt", string(r.TokenFormat))
			}
			return nil
		},
		Text: func(r *Registration) string {
			alg, typ := cmp.Or(r.SigningAlg, keys.ES256), cmp.Or(r.JWTType, store.JWTTypes[0])
			switch {
			case r.TokenFormat == store.TokenJWT:
				return fmt.Sprintf("jwt, %s, typ %s", alg, typ)
			case alg != keys.ES256 || typ != store.JWTTypes[0]:
				return fmt.Sprintf("opaque, and %s, typ %s for APIs with jwt", alg, typ)
			}
			return string(store.TokenOpaque)
		},
	},
	{
		Member: "signing_alg", Flag: "signing-alg", Group: "Access tokens", Default: string(keys.ES256),
		Schema: "{type: string, enum: [ES256, EdDSA, RS256], default: ES256}",
		Help:   "what signs its JWTs: ES256 (default), EdDSA or RS256",
		Field:  func(r *Registration) any { return (*string)(&r.SigningAlg) },
		check:  func(r *Registration) error { return oneOf(cmp.Or(r.SigningAlg, keys.ES256), keys.SigningAlgorithms...) },
	},
	{
		Member: "jwt_type", Flag: "jwt-type", Group: "Access tokens", Default: store.JWTTypes[0],
		Schema: "{type: string, enum: [at+jwt, JWT], default: at+jwt}",
		Help:   "typ of its JWT access tokens: at+jwt (default), or JWT for resource servers that know no other",
		Field:  func(r *Registration) any { return &r.JWTType },
		check:  func(r *Registration) error { return oneOf(cmp.Or(r.JWTType, store.JWTTypes[0]), store.JWTTypes...) },
	},
	{
		Name: "id_tokens", Member: "id_token_signing_alg", Flag: "id-token-signing-alg", Group: "OpenID Connect", Default: string(keys.RS256),
		Schema: "{type: string, enum: [RS256, ES256, EdDSA], default: RS256}",
		Help:   "what signs its id_tokens: RS256 (default), ES256 or EdDSA",
		Field:  func(r *Registration) any { return (*string)(&r.IDTokenAlg) },
		check:  func(r *Registration) error { return oneOf(cmp.Or(r.IDTokenAlg, keys.RS256), keys.SigningAlgorithms...) },
	},
	{
		Name: "id_token lifetime", Member: "id_token_lifetime", Flag: "id-token-lifetime", Group: "OpenID Connect",
		Schema: "{type: [string, 'null'], description: 'A duration from 1m to 24h; null for that of the server.'}",
		Help:   "how long its id_tokens live, at most 24h; default: the server's id_token_lifetime",
		Field:  func(r *Registration) any { return &r.IDTokenLifetime },
		check: func(r *Registration) error {
			if r.IDTokenLifetime == nil {
				return nil
			}
			if d := r.IDTokenLifetime.Duration(); d < time.Minute || d > 24*time.Hour || d%time.Second != 0 {
				return fmt.Errorf("%s is not a whole number of seconds from 1m to 24h", d)
			}
			return nil
		},
	},
	{
		Name: "refresh id_token", Member: "refresh_id_token", Inverse: true, Flag: "no-refresh-id-token", Group: "OpenID Connect",
		Schema: "{type: boolean, default: true}",
		Help:   "return an id_token for a code only, and none for a refresh",
		Field:  func(r *Registration) any { return &r.NoRefreshIDToken },
	},
	{
		Name: "userinfo", Member: "userinfo_signed_response_alg", Flag: "userinfo-signed-response-alg", Group: "OpenID Connect", Default: "none",
		Schema: "{type: string, enum: [none, RS256, ES256, EdDSA], default: none}",
		Help:   "what signs its userinfo: none (default: it is JSON), RS256, ES256 or EdDSA",
		Field:  func(r *Registration) any { return (*string)(&r.UserInfoAlg) },
		check: func(r *Registration) error {
			return oneOf(cmp.Or(r.UserInfoAlg, "none"), append([]keys.Purpose{"none"}, keys.SigningAlgorithms...)...)
		},
		Text: func(r *Registration) string {
			if cmp.Or(r.UserInfoAlg, "none") == "none" {
				return "json"
			}
			return "jwt, " + string(r.UserInfoAlg)
		},
	},
	{
		Name: "post-logout redirect uris", Change: "post-logout redirect uri", Member: "post_logout_redirect_uris", Optional: true, Each: true, Flag: "post-logout-redirect-uri", Group: "OpenID Connect",
		Schema: "{type: array, items: {type: string}, description: Where users may go after they have signed out.}",
		Help:   "where users may go after they have signed out (OpenID Connect RP-Initiated Logout), compared character by character; repeatable",
		Update: "where users may go after they have signed out, instead of all that there were; \"\": nowhere; repeatable",
		Field:  func(r *Registration) any { return &r.PostLogoutRedirectURIs },
		check: func(r *Registration) error {
			return r.checkRedirectURIs(r.PostLogoutRedirectURIs, r.kept.PostLogoutRedirectURIs)
		},
	},
	{
		Name: "logout ends grants", Member: "logout_ends_grants", Flag: "logout-ends-grants", Group: "OpenID Connect",
		Schema: "{type: boolean, default: false, description: A logout revokes what the session has granted to the client.}",
		Help:   "when a user signs out, revoke what the session has granted to it; otherwise its refresh tokens stay valid",
		Update: "when a user signs out, revoke what the session has granted to it; --logout-ends-grants=false: its refresh tokens stay valid",
		Field:  func(r *Registration) any { return &r.LogoutEndsGrants },
	},
	{
		Name: "logout uri", Member: "backchannel_logout_uri", Flag: "backchannel-logout-uri", Group: "OpenID Connect",
		Schema: "{type: string, description: 'Receives a logout token when the session of a user ends; empty: none is sent.'}",
		Help:   "address that receives a logout token when the session of a user ends (OpenID Connect Back-Channel Logout): https, or with --native http on this machine",
		Update: "address that receives a logout token when the session of a user ends; \"\": none",
		Field:  func(r *Registration) any { return &r.LogoutURI },
		check: func(r *Registration) error {
			if r.LogoutURI == "" {
				return nil
			}
			return r.checkLogoutURI()
		},
	},
	{
		Name: "logout by sid", Member: "backchannel_logout_session_required", Flag: "backchannel-logout-session-required", Group: "OpenID Connect",
		Schema: "{type: boolean, description: Each logout token names a session.}",
		Help:   "each of its logout tokens names the session that ended: when all sessions of a user end, it gets one for each",
		Field:  func(r *Registration) any { return &r.LogoutSession },
		check: func(r *Registration) error {
			if r.LogoutSession && r.LogoutURI == "" {
				return fmt.Errorf("it is about logout tokens, which need --backchannel-logout-uri")
			}
			return nil
		},
	},
	{
		Name: "audience", Member: "audience", Optional: true, Flag: "audience", Group: "Access tokens",
		Help:   "whom its access tokens are for; default: the issuer; repeatable",
		Update: "whom its access tokens are for, instead of all that there were; \"\": the issuer; repeatable",
		Field:  func(r *Registration) any { return &r.Audience },
		check:  func(r *Registration) error { return checkAudience(r.Audience) },
	},
	{
		Name: "apis", Change: "api", Member: "apis", Optional: true, Each: true, APIs: true, Flag: "api", Group: "Access tokens",
		Schema: "{type: array, items: {type: string}, description: 'Ids of APIs for which it may have tokens; with scopes behind an id, each after a space, only with those.'}",
		Help:   "id of an API for which it may have tokens; with scopes behind the id, each after a space, only with those; repeatable",
		Update: "API for which it may have tokens, instead of all that there were; \"\" for none; repeatable",
		Field:  func(r *Registration) any { return &r.APIs },
		check:  func(r *Registration) error { return checkAPIs(r.APIs) },
	},
	{
		Name: "audience parameter", Member: "audience_parameter", Optional: true, Flag: "audience-parameter", Group: "Access tokens",
		Schema: "{type: boolean, default: false, description: 'The parameter `audience` of its requests is a `resource`.'}",
		Help:   "read its parameter audience as resource: for programs that name their API so at other servers",
		Field:  func(r *Registration) any { return &r.AudienceParameter },
	},
	{
		Name: "introspects", Member: "introspect", Flag: "introspect", Group: "Resource server",
		Help:  "it is a resource server: it may ask about the access tokens of every client",
		Field: func(r *Registration) any { return &r.Introspect },
		check: func(r *Registration) error {
			if r.Introspect && r.Auth == store.AuthNone {
				return fmt.Errorf("a public client cannot: anybody could ask in its name (RFC 7662 section 2.1)")
			}
			return nil
		},
	},
	{
		Name: "only for", Change: "introspects only for", Member: "introspect_audience", Optional: true, Flag: "introspect-audience", Group: "Resource server",
		Help:   "only about those for this audience; repeatable",
		Update: "only about those for this audience, instead of all that there were; \"\": for every audience; repeatable",
		Field:  func(r *Registration) any { return &r.IntrospectAudience },
		check: func(r *Registration) error {
			if len(r.IntrospectAudience) > 0 && !r.Introspect {
				return fmt.Errorf("it limits what --introspect allows, which is not given")
			}
			return checkAudience(r.IntrospectAudience)
		},
	},
}

// checkRedirectURIs returns an error for addresses to which a client may not have
// users sent, with a code or after a logout, and for too many. If keeps reports true, it
// accepts addresses that the setting had before.
func (r *Registration) checkRedirectURIs(uris, before []string) error {
	if len(uris) > maxRedirectURIs {
		return fmt.Errorf("at most %d", maxRedirectURIs)
	}
	for _, uri := range uris {
		if err := oauth.CheckRedirectURI(uri, r.Native); err != nil && !(r.keeps() && slices.Contains(before, uri)) {
			return err
		}
	}
	return nil
}

// keeps reports whether addresses that were registered before stay valid: a client that
// is no longer native loses those on this machine.
func (r *Registration) keeps() bool { return r.Native || !r.kept.Native }

// checkLogoutURI applies the rules of redirect URIs to an address that the server
// itself calls (OpenID Connect Back-Channel Logout 1.0 section 2.2).
func (r *Registration) checkLogoutURI() error {
	if r.keeps() && r.LogoutURI == r.kept.LogoutURI {
		return nil
	}
	if !strings.HasPrefix(r.LogoutURI, "https://") && !strings.HasPrefix(r.LogoutURI, "http://") {
		return fmt.Errorf("%q is not an address that begins with https://", r.LogoutURI)
	}
	if err := oauth.CheckRedirectURI(r.LogoutURI, r.Native); err != nil {
		return fmt.Errorf("by the rules for redirect URIs: %w", err)
	}
	return nil
}

func checkAudience(list []string) error {
	if len(list) > maxAudiences {
		return fmt.Errorf("at most %d", maxAudiences)
	}
	for _, a := range list {
		if a == "" || len(a) > maxAudience || strings.ContainsFunc(a, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Errorf("%q is not 1 to %d printable ASCII characters without spaces, such as https://api.example.com", a, maxAudience)
		}
	}
	return nil
}

func checkAPIs(list []string) error {
	if len(list) > maxAPIs {
		return fmt.Errorf("at most %d", maxAPIs)
	}
	seen := map[string]bool{}
	for _, text := range list {
		a, err := store.ReadAllowedAPI(text)
		switch name := oauth.CanonicalTarget(a.ID); {
		case err != nil:
			return err
		case !oauth.IsTarget(a.ID):
			return fmt.Errorf("%q is not the id of an API, and scopes behind it after spaces", text)
		case seen[name]:
			return fmt.Errorf("%q is listed twice", a.ID)
		default:
			seen[name] = true
		}
	}
	return nil
}
