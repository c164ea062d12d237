package resource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

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

func (v *Verifier) loadMetadata(ctx context.Context) (m metadata, fresh time.Duration, err error) {
	r, err := get(ctx, v.client, wellKnown(v.cfg.Issuer), maxMetadata, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return m, 0, err
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		return m, 0, err
	}
	// RFC 8414 section 3.3: the document of another issuer must not be used.
	if m.Issuer != v.cfg.Issuer {
		return m, 0, fmt.Errorf("the server calls itself %.200q, and not %q as Config.Issuer does", m.Issuer, v.cfg.Issuer)
	}
	if m.Revocations == "" {
		m.Revocations = v.cfg.Issuer + "/revocations"
	}
	if m.JWKS == "" {
		return m, 0, errors.New("no jwks_uri")
	}
	for _, address := range []string{m.JWKS, m.Revocations, m.Introspection} {
		if err := checkURL(address); err != nil && address != "" {
			return m, 0, fmt.Errorf("%.200q: %w", address, err)
		}
	}
	return m, freshness(r.header, 5*time.Minute, time.Second, 24*time.Hour), nil
}

// wellKnown returns the address of an issuer's metadata: the well-known part comes
// before the issuer's path (RFC 8414 section 3.1).
func wellKnown(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		panic(err) // Config was checked
	}
	return u.Scheme + "://" + u.Host + "/.well-known/oauth-authorization-server" + u.EscapedPath()
}
