package grant

import (
	"crypto/sha256"

	"github.com/mintage/mintage/internal/oauth"
)

// A Code holds the fields of an authorization code. They are sealed into its
// text, so that issuing a code writes nothing.
type Code struct {
	GrantID      ID
	Realm        string
	ClientID     string
	Subject      string
	Scope        oauth.Scope
	RedirectHash [sha256.Size]byte
	// Challenge is the S256 code challenge (RFC 7636), if Challenged.
	Challenge    [sha256.Size]byte
	Challenged   bool
	AuthorizedAt Instant
	ExpiresAt    Instant
	AuthTime     Instant // when the subject was authenticated; zero if unknown
	Nonce        string  // of the authentication request, or ""; for the first id_token alone
	KeyID        KeyID   // of the sealing key; set when the code is opened
	Facts
}

// HashRedirectURI returns the hash of a redirect URI that a code holds.
func HashRedirectURI(uri string) [sha256.Size]byte { return sha256.Sum256([]byte(uri)) }

// Proves reports whether verifier matches c's challenge. A verifier without a
// challenge does not: an attacker removed the challenge from the authorization
// request (RFC 9700 section 4.8.2).
func (c Code) Proves(verifier string) bool {
	if !c.Challenged {
		return verifier == ""
	}
	return oauth.VerifyS256(verifier, c.Challenge)
}
