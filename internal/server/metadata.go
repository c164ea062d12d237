package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

// metadataPath is where clients of OpenAM-style deployments look. In the form
// whose path names the realm, it is what OpenID Connect Discovery section 4
// makes of the default issuer.
const metadataPath = ".well-known/openid-configuration"

const metadataMaxAge = 5 * time.Minute

// metadataLocations is where an issuer's metadata is: before its path (RFC 8414
// section 3.1, and section 5 for the other name), or after it (OpenID Connect
// Discovery section 4). Which host it is on, is for the network to say.
func metadataLocations(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil || strings.Contains(u.EscapedPath(), "%") || u.Path != "" && (u.Path == "/" || path.Clean(u.Path) != u.Path) {
		return nil // the check of the configuration refuses such an issuer
	}
	return []string{
		"/.well-known/oauth-authorization-server" + u.Path,
		"/.well-known/openid-configuration" + u.Path,
		u.Path + "/.well-known/openid-configuration",
	}
}

// metadata describes the server (RFC 8414 section 2). A member that is absent
// says that there is no such thing. Those whose absence would say something
// else (grant types, methods of authentication) are always there.
type metadata struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint,omitempty"`
	Token         string `json:"token_endpoint"`
	JWKS          string `json:"jwks_uri"`
	Introspection string `json:"introspection_endpoint"`
	Revocation    string `json:"revocation_endpoint"`
	Revocations   string `json:"revocations_uri"` // no registered name

	GrantTypes        []string `json:"grant_types_supported"`
	ResponseTypes     []string `json:"response_types_supported"`
	ResponseModes     []string `json:"response_modes_supported"`
	ResponseIssuer    bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	ChallengeMethods  []string `json:"code_challenge_methods_supported"`
	TokenAuth         []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuth []string `json:"introspection_endpoint_auth_methods_supported"`
	RevocationAuth    []string `json:"revocation_endpoint_auth_methods_supported"`
	IntrospectionAlgs []string `json:"introspection_signing_alg_values_supported,omitempty"` // RFC 9701
	UILocales         []string `json:"ui_locales_supported,omitempty"`
}

// describe makes the document. Nothing in it comes from a request.
func (s *Server) describe() []byte {
	endpoints := s.opt.PublicURL + s.opt.BasePath + "/oauth2/"
	confidential := []string{string(oauth.AuthBasic), string(oauth.AuthPost)}
	anyClient := []string{string(oauth.AuthBasic), string(oauth.AuthPost), string(oauth.AuthNone)}
	m := metadata{
		Issuer:        s.issuer.ID,
		Token:         endpoints + tokenPath + "?realm=" + s.issuer.Realm,
		JWKS:          endpoints + "jwks",
		Introspection: endpoints + "introspect",
		Revocation:    endpoints + "revoke",
		Revocations:   endpoints + "revocations",

		GrantTypes: store.GrantTypes, ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, ResponseIssuer: true,
		ChallengeMethods: []string{"S256"}, TokenAuth: anyClient, IntrospectionAuth: confidential, RevocationAuth: anyClient,
	}
	for _, alg := range s.issuer.Directory.Schedule.Algorithms {
		m.IntrospectionAlgs = append(m.IntrospectionAlgs, string(alg))
	}
	if s.opt.Front != nil {
		m.Authorization, m.UILocales = endpoints+"authorize", pages.Locales
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings only
	}
	return body
}

func (s *Server) metadata(context.Context, *http.Request) (document, error) {
	return document{media: "application/json", body: s.description, maxAge: metadataMaxAge}, nil
}
