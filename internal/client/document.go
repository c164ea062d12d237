package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Document is what a client's metadata document says of it (OAuth Client ID
// Metadata Document section 4), as far as that counts here.
type Document struct {
	Name         string // the host of its address if it gives itself none
	RedirectURIs []string
	Auth         store.AuthRule
	Device       bool   // it asks for the device grant
	Bound        bool   // all its tokens are bound to keys (RFC 9449 section 5.2)
	KeysURI      string // jwks_uri, if it signs assertions; its own address, if it has jwks
	Alg          string // of its assertions; "": that of its keys
}

// ReadDocument reads the document of an address. It leaves out redirect URIs that
// are not accepted, with schemes as further private-use ones, and ignores all that it
// does not know: clients serve one document to many servers.
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
		Bound        bool            `json:"dpop_bound_access_tokens"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return Document{}, fmt.Errorf("a member has another type: %w", err)
	}
	if d.ID != address {
		return Document{}, errors.New("its client_id is not its address, byte for byte")
	}
	out := Document{Name: OwnName(d.Name, address), Device: slices.Contains(d.GrantTypes, any(store.GrantDeviceCode)), Bound: d.Bound}
	if out.RedirectURIs = OwnRedirectURIs(d.RedirectURIs, schemes); len(out.RedirectURIs) == 0 && !out.Device {
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
		// The keys are fetched where they are, so that they can be replaced.
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

// maxOwnName is the longest name that a client may give itself, in characters: more is
// a message, and no name.
const maxOwnName = 60

// OwnName returns the name that a client gives itself, or the host of its address
// if that is no short text of visible characters. Pages put it in quotation marks,
// which it must not close; an apostrophe does not.
func OwnName(name any, address string) string {
	text, _ := name.(string)
	text = strings.TrimSpace(text)
	// Of format characters, some turn the direction of the text around them.
	invisible := func(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) }
	quote := func(r rune) bool {
		return unicode.Is(unicode.Quotation_Mark, r) && r != '\'' && r != '’' || strings.ContainsRune("ʺˮ״″‶〃", r)
	}
	if text == "" || !oauth.IsText(text, 4*maxOwnName) || utf8.RuneCountInString(text) > maxOwnName ||
		strings.ContainsFunc(text, invisible) || strings.ContainsFunc(text, quote) || strings.Contains(text, "''") || strings.Contains(text, "’’") {
		return oauth.Host(address)
	}
	return text
}

// OwnRedirectURIs returns the redirect URIs that are accepted of those that a client
// gives itself, at most as many as an operator may register.
func OwnRedirectURIs(given []any, schemes []string) (list []string) {
	for _, v := range given {
		uri, ok := v.(string)
		if ok && oauth.CheckOwnRedirectURI(uri, schemes...) == nil && len(list) < maxRedirectURIs {
			list = append(list, uri)
		}
	}
	return list
}
