package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Document holds the members of a client's metadata document (OAuth Client ID
// Metadata Document section 4) that this server supports.
type Document struct {
	Name         string // the host of its address if it gives itself none
	RedirectURIs []string
	Auth         store.AuthRule
	GrantTypes   []string // without authorization_code if response_types lacks code
	Bound        bool     // all its tokens are bound to keys (RFC 9449 section 5.2)
	KeysURI      string   // jwks_uri, if it signs assertions; the document's address, if it contains jwks
	Alg          string   // of its assertions; "": that of its keys
}

// ReadDocument parses the document at an address. It leaves out redirect URIs that are
// not accepted; schemes are the private-use schemes that are. It ignores unknown
// members: clients serve one document to many servers.
func ReadDocument(address string, body []byte, schemes ...string) (Document, error) {
	var d struct {
		ID           string          `json:"client_id"`
		Name         any             `json:"client_name"`
		RedirectURIs []any           `json:"redirect_uris"`
		Method       string          `json:"token_endpoint_auth_method"`
		Methods      []string        `json:"token_endpoint_auth_methods_supported"`
		KeysURI      string          `json:"jwks_uri"`
		Keys         json.RawMessage `json:"jwks"`
		Alg          string          `json:"token_endpoint_auth_signing_alg"`
		GrantTypes   []any           `json:"grant_types"`
		Responses    []any           `json:"response_types"`
		Bound        bool            `json:"dpop_bound_access_tokens"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return Document{}, fmt.Errorf("a member has another type: %w", err)
	}
	if d.ID != address {
		return Document{}, errors.New("its client_id is not its address, byte for byte")
	}
	out := Document{Name: OwnName(d.Name, address), GrantTypes: describedGrantTypes(d.GrantTypes, d.Responses), Bound: d.Bound}
	if out.RedirectURIs = OwnRedirectURIs(d.RedirectURIs, schemes); len(out.RedirectURIs) == 0 && !slices.Contains(out.GrantTypes, store.GrantDeviceCode) {
		return Document{}, errors.New("it has no redirect URI that is accepted here: https, http on 127.0.0.1, [::1] or localhost, or a private-use scheme that is admitted: see client_metadata.schemes")
	}
	methods := d.Methods
	if d.Method != "" {
		methods = append(slices.Clip(methods), d.Method)
	}
	none := slices.Contains(methods, string(store.AuthNone)) || len(methods) == 0
	if string(d.Keys) == "null" {
		d.Keys = nil
	}
	if _, err := keyset.ParseFetched(d.Keys, false); err == nil && d.KeysURI == "" {
		// The document contains the keys. Fetch them from there each time, so that the
		// client can replace them.
		d.KeysURI = address
	} else if len(d.Keys) > 0 {
		d.KeysURI = "" // RFC 7591 section 2: not both
	}
	signed := slices.Contains(methods, string(store.AuthPrivateKeyJWT)) && isKeysURI(d.KeysURI) &&
		(d.Alg == "" || slices.Contains(keyset.Algorithms, jose.SignatureAlgorithm(d.Alg)))
	if signed {
		out.KeysURI, out.Alg = d.KeysURI, d.Alg
	}
	switch {
	case none && signed:
		out.Auth = store.AuthNoneOrJWT
	case none:
		out.Auth = store.AuthNone
	case signed:
		out.Auth = store.AuthPrivateKeyJWT
	default:
		return Document{}, errors.New("its token_endpoint_auth_method is neither none nor private_key_jwt with a known algorithm and keys, at an https jwks_uri or in jwks")
	}
	return out, nil
}

// describedGrantTypes returns the grant types of a document, never nil. A document without
// grant_types gets refresh_token too, though the default of RFC 7591 section 2 is
// authorization_code alone: agents that leave the member out rely on it.
func describedGrantTypes(grants, responses []any) []string {
	listed := len(grants) > 0
	codes := len(responses) == 0 || slices.Contains(responses, any("code"))
	return slices.DeleteFunc(ownGrantTypes(listed), func(name string) bool {
		return listed && !slices.Contains(grants, any(name)) || name == store.GrantAuthorizationCode && !codes
	})
}

// Documents are the clients whose id is the address of a document that describes
// them (OAuth Client ID Metadata Document).
type Documents struct {
	Realm string
	// Admitted lists hosts and whole addresses, or only Any. If it is empty, no client is
	// admitted.
	Admitted []string
	Any      string // the word in Admitted that admits every address
	// Fetch returns the document at an address, on behalf of a caller's network.
	Fetch func(ctx context.Context, address string, from netip.Prefix) (Document, error)
	Now   func() time.Time
}

// Admits reports whether an id is an address whose document may be fetched.
func (d *Documents) Admits(id string) bool {
	if len(d.Admitted) == 0 || oauth.CheckClientAddress(id) != nil {
		return false
	}
	return d.Admitted[0] == d.Any || slices.Contains(d.Admitted, id) || slices.Contains(d.Admitted, oauth.Host(id))
}

// Client returns the client that the document at the address id describes now. Its only
// redirect URI is the registered form of redirectURI, which is "" for the device grant. A
// loopback URI matches with any port, also for localhost: a program takes a free one.
func (d *Documents) Client(ctx context.Context, id, redirectURI string, from netip.Prefix) (*store.Client, error) {
	doc, err := d.Fetch(ctx, id, from)
	if err != nil {
		return nil, err
	}
	if redirectURI == "" {
		doc.RedirectURIs = []string{""}
	}
	i := slices.IndexFunc(doc.RedirectURIs, func(uri string) bool { return oauth.MatchRedirectURI([]string{oauth.LoopbackForm(uri)}, redirectURI) })
	if i < 0 {
		return nil, oauth.ErrRedirectMismatch
	}
	c := ownClient(d.Realm, id, doc.Name, oauth.LoopbackForm(doc.RedirectURIs[i]), doc.GrantTypes, grant.At(d.Now()))
	c.RegisteredBy, c.Auth, c.Assertion = store.ByDocument, doc.Auth, store.AssertionRule{Alg: doc.Alg, KeysURI: doc.KeysURI}
	if doc.Bound {
		c.DPoP = store.DPoPRequired
	}
	return c, nil
}
