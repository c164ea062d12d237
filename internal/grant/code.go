package grant

import (
	"crypto/sha256"

	"github.com/mintage/mintage/internal/oauth"
)

// A Code is what an authorization code says. It is sealed into the code's
// text, so that issuing one writes nothing.
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
	Claims       string  // a JSON object about the subject, or ""
	KeyID        KeyID   // that sealed the code; known when it is opened
}

// HashRedirectURI is the form in which a code carries its redirect URI.
func HashRedirectURI(uri string) [sha256.Size]byte { return sha256.Sum256([]byte(uri)) }

// proves reports whether verifier is what c asks for. A verifier without a
// challenge is refused: somebody removed the challenge on the way (RFC 9700
// section 4.8.2).
func (c Code) proves(verifier string) bool {
	if !c.Challenged {
		return verifier == ""
	}
	return oauth.VerifyS256(verifier, c.Challenge)
}
