package oauth

// Identity Assertion JWT Authorization Grants
// (draft-ietf-oauth-identity-assertion-authz-grant), and assertions as grants (RFC 7523
// section 2.1).
const (
	// GrantJWTBearer is the grant type of an assertion of another issuer.
	GrantJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// TypeIDJAG is the token type by which a client requests an ID-JAG (RFC 8693
	// section 3), and JWTIDJAG the typ of its header.
	TypeIDJAG = "urn:ietf:params:oauth:token-type:id-jag"
	JWTIDJAG  = "oauth-id-jag+jwt"
	// ProfileIDJAG is the grant profile in the server's metadata (section 7.2 of the
	// draft).
	ProfileIDJAG = "urn:ietf:params:oauth:grant-profile:id-jag"
)
