package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

// Well-known names of metadata: of OpenID Connect Discovery section 4, and of RFC
// 8414 section 7.3. Clients of OpenAM-style deployments look for the first below
// /oauth2. In the form whose path names the realm, it is what section 4 makes of
// the default issuer; some clients append the second one too.
const (
	metadataPath       = ".well-known/openid-configuration"
	serverMetadataPath = ".well-known/oauth-authorization-server"
)

const metadataMaxAge = 5 * time.Minute

// metadataLocations returns the paths of an issuer's metadata: before its path
// (RFC 8414 section 3.1, and section 5 for the other name), after it (OpenID
// Connect Discovery section 4, and clients that treat both names alike), and
// without it, for clients that look at the host alone: this server has one
// issuer. The host is for the network to choose.
func metadataLocations(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil || strings.Contains(u.EscapedPath(), "%") || u.Path != "" && (u.Path == "/" || path.Clean(u.Path) != u.Path) {
		return nil // the check of the configuration refuses such an issuer
	}
	var list []string
	for _, name := range []string{serverMetadataPath, metadataPath} {
		list = append(list, "/"+name+u.Path, u.Path+"/"+name, "/"+name)
	}
	return list
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

	Scopes            []string `json:"scopes_supported,omitempty"` // some clients fail without it
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

// A description is a metadata document and the scopes in it.
type description struct {
	scopes []string
	body   []byte
}

// describe makes the document. Nothing in it comes from a request. The endpoints
// are in the form whose path names the realm: RFC 6749 section 3.2 allows a query,
// and many client libraries drop it.
func (s *Server) describe(scopes []string) []byte {
	endpoints := s.opt.PublicURL + s.opt.BasePath + "/oauth2" + s.issuer.Realm + "/"
	confidential := []string{string(oauth.AuthBasic), string(oauth.AuthPost)}
	anyClient := []string{string(oauth.AuthBasic), string(oauth.AuthPost), string(oauth.AuthNone)}
	m := metadata{
		Issuer:        s.issuer.ID,
		Token:         endpoints + tokenPath,
		JWKS:          endpoints + "jwks",
		Introspection: endpoints + "introspect",
		Revocation:    endpoints + "revoke",
		Revocations:   endpoints + "revocations",

		Scopes: scopes, GrantTypes: store.GrantTypes, ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, ResponseIssuer: true,
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

// metadata serves the document. It is made again when a client with another scope
// has come or gone.
func (s *Server) metadata(context.Context, *http.Request) (document, error) {
	scopes := s.opt.ScopesSupported
	if len(scopes) == 0 {
		scopes = s.issuer.Directory.Scopes()
	}
	d := s.description.Load()
	if d == nil || !slices.Equal(d.scopes, scopes) {
		d = &description{scopes, s.describe(scopes)}
		s.description.Store(d)
	}
	return document{media: "application/json", body: d.body, maxAge: metadataMaxAge}, nil
}
