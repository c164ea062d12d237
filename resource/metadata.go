package resource

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-jose/go-jose/v4/json"
)

const maxMetadata = 64 << 10 // bytes

// metadata holds the used members of a server's metadata (RFC 8414 section 2).
type metadata struct {
	Issuer        string `json:"issuer"`
	JWKS          string `json:"jwks_uri"`
	Introspection string `json:"introspection_endpoint"`
	// Revocations is the address of the list for FollowRevocations: an extension of
	// Mintage, at {issuer}/revocations if it is absent.
	Revocations string `json:"revocations_uri"`
}

func (v *Verifier) parseMetadata(body []byte) (m metadata, err error) {
	if err := json.Unmarshal(body, &m); err != nil {
		return m, err
	}
	// RFC 8414 section 3.3: the document of another issuer must not be used.
	if m.Issuer != v.cfg.Issuer {
		return m, fmt.Errorf("the server's issuer is %.200q, but Config.Issuer is %q", m.Issuer, v.cfg.Issuer)
	}
	m.Revocations = cmp.Or(m.Revocations, v.cfg.Issuer+"/revocations")
	if m.JWKS == "" {
		return m, errors.New("no jwks_uri")
	}
	for _, address := range []string{m.JWKS, m.Revocations, m.Introspection} {
		if err := checkURL(address); err != nil && address != "" {
			return m, fmt.Errorf("%.200q: %w", address, err)
		}
	}
	return m, nil
}

// wellKnown returns the address of an issuer's metadata: the well-known part comes
// before the issuer's path (RFC 8414 section 3.1).
func wellKnown(issuer string) string {
	u, _ := url.Parse(issuer) // Config was checked
	return u.Scheme + "://" + u.Host + "/.well-known/oauth-authorization-server" + u.EscapedPath()
}
