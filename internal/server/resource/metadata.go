package resource

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// Well-known names of metadata: of OpenID Connect Discovery section 4, and of RFC
// 8414 section 7.3. Clients of OpenAM-style deployments look for the first below
// /oauth2. Below /oauth2/{realm}, it is where section 4 puts the metadata of the
// default issuer; some clients append the second name there, too.
const (
	metadataPath       = ".well-known/openid-configuration"
	serverMetadataPath = ".well-known/oauth-authorization-server"
)

const metadataMaxAge = 5 * time.Minute

// metadataLocations returns the paths of an issuer's metadata: before its path
// (RFC 8414 section 3.1, and section 5 for the other name), after it (OpenID
// Connect Discovery section 4, and clients that treat both names alike), and
// without it, for clients that use the host alone: this server has one issuer.
// Every host that leads here serves them.
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

// memberOrder is the order in which metadata lists its members (RFC 8414 section
// 2); all others follow by name. Routes add the members, except a few that
// describe adds itself.
var memberOrder = []string{
	"issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "introspection_endpoint", "revocation_endpoint", "revocations_uri", "userinfo_endpoint", "registration_endpoint", "pushed_authorization_request_endpoint", "require_pushed_authorization_requests",
	"scopes_supported", "grant_types_supported", "response_types_supported", "response_modes_supported",
	"authorization_response_iss_parameter_supported", "code_challenge_methods_supported", "token_endpoint_auth_methods_supported",
	"token_endpoint_auth_signing_alg_values_supported",
	"introspection_endpoint_auth_methods_supported", "introspection_endpoint_auth_signing_alg_values_supported",
	"revocation_endpoint_auth_methods_supported", "revocation_endpoint_auth_signing_alg_values_supported",
	"introspection_signing_alg_values_supported", "ui_locales_supported",
	"subject_types_supported", "id_token_signing_alg_values_supported", "userinfo_signing_alg_values_supported", "claims_supported", "claims_parameter_supported", "acr_values_supported", "prompt_values_supported",
	"request_parameter_supported", "request_uri_parameter_supported", "backchannel_logout_supported", "backchannel_logout_session_supported",
}

// description is a metadata document and the scopes in it.
type description struct {
	scopes []string
	body   []byte
}

// describe returns the document: the members of all routes, and those about codes
// even if no route issues codes, because RFC 8414 gives their absence another
// meaning. Nothing in it comes from a request.
func (e *Endpoints) describe(scopes []string) []byte {
	members := map[string]any{
		"issuer": e.Issuer.ID, "response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"},
		"authorization_response_iss_parameter_supported": true, // RFC 9207
		"code_challenge_methods_supported":               []string{"S256"},
	}
	if len(scopes) > 0 {
		members["scopes_supported"] = scopes // some clients fail without it
	}
	for _, rt := range e.Server.Routes() {
		if rt.Member != "" {
			members[rt.Member] = e.Server.Endpoint(rt.Paths[0])
		}
		maps.Copy(members, rt.Metadata)
	}
	names := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	body := []byte("{")
	for _, name := range names {
		value, err := json.Marshal(members[name])
		if err != nil {
			panic(err) // strings only
		}
		body = append(append(strconv.AppendQuote(body, name), ':'), append(value, ',')...)
	}
	body[len(body)-1] = '}'
	return body
}

func rank(member string) int {
	if i := slices.Index(memberOrder, member); i >= 0 {
		return i
	}
	return len(memberOrder)
}

// metadata serves the document. It makes a new one when the list of supported scopes
// has changed.
func (e *Endpoints) metadata(context.Context, *server.Request) (server.Publication, error) {
	scopes := e.ScopesSupported
	if len(scopes) == 0 {
		if scopes = e.Directory.Scopes(e.Server.Realm); e.Issuer.IDTokenLifetime != 0 && !slices.Contains(scopes, oauth.OpenID) {
			scopes = append([]string{oauth.OpenID}, scopes...) // OpenID Connect Discovery section 3
		}
	}
	d := e.description.Load()
	if d == nil || !slices.Equal(d.scopes, scopes) {
		d = &description{scopes, e.describe(scopes)}
		e.description.Store(d)
	}
	return server.Publication{Media: "application/json", Body: d.body, MaxAge: metadataMaxAge}, nil
}
