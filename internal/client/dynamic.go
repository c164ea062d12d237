package client

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Registrations are the clients that register themselves (RFC 7591). Their id is the
// sealed registration: nothing is stored until a user agrees.
type Registrations struct {
	Realm     string
	Directory *directory.Directory
	Now       func() time.Time
	// Token is the initial access token that a registration needs, or "".
	Token string
	// Schemes are private-use schemes that redirect URIs may have beside those of
	// oauth.CheckOwnRedirectURI.
	Schemes []string
}

// sealedMethods are the values of token_endpoint_auth_method, by their number in a
// sealed registration. The first is the default of RFC 7591 section 2.
var sealedMethods = []oauth.AuthMethod{oauth.AuthBasic, oauth.AuthPost, oauth.AuthNone}

// A RegistrationAnswer is the response to a registration (RFC 7591 section 3.2.1). It has no
// member that is null: some clients refuse those.
type RegistrationAnswer struct {
	ID              string           `json:"client_id"`
	IssuedAt        int64            `json:"client_id_issued_at"`
	Secret          string           `json:"client_secret,omitempty"`
	SecretExpiresAt *int             `json:"client_secret_expires_at,omitempty"` // zero: never
	Name            string           `json:"client_name,omitempty"`
	RedirectURIs    []string         `json:"redirect_uris"`
	GrantTypes      []string         `json:"grant_types"`
	ResponseTypes   []string         `json:"response_types"`
	Method          oauth.AuthMethod `json:"token_endpoint_auth_method"`
	Bound           bool             `json:"dpop_bound_access_tokens,omitempty"` // RFC 9449 section 5.2
}

// Register registers a client. It leaves out redirect URIs that are not accepted, and
// ignores members that it does not know. It writes nothing.
func (r *Registrations) Register(body string) (RegistrationAnswer, error) {
	var asked struct {
		RedirectURIs  []any            `json:"redirect_uris"`
		Method        oauth.AuthMethod `json:"token_endpoint_auth_method"`
		GrantTypes    []string         `json:"grant_types"`
		ResponseTypes []string         `json:"response_types"`
		Name          any              `json:"client_name"`
		Bound         bool             `json:"dpop_bound_access_tokens"`
	}
	if json.Unmarshal([]byte(body), &asked) != nil {
		return RegistrationAnswer{}, oauth.ErrMetadata
	}
	asked.Method = cmp.Or(asked.Method, sealedMethods[0])
	method := slices.Index(sealedMethods, asked.Method)
	out := RegistrationAnswer{Name: ownShortName(asked.Name), RedirectURIs: OwnRedirectURIs(asked.RedirectURIs, r.Schemes), ResponseTypes: []string{"code"}, Method: asked.Method, Bound: asked.Bound}
	sealed := keys.SealedRegistration{Method: byte(method), Device: slices.Contains(asked.GrantTypes, store.GrantDeviceCode), Bound: asked.Bound, Name: out.Name, At: grant.At(r.Now())}
	out.GrantTypes = ownGrantTypes(sealed.Device)
	for _, uri := range out.RedirectURIs {
		if d := keys.RedirectDigest(oauth.LoopbackForm(uri)); !slices.Contains(sealed.Redirects, d) {
			sealed.Redirects = append(sealed.Redirects, d)
		}
	}
	switch {
	case method < 0:
		return RegistrationAnswer{}, oauth.ErrMetadataMethod
	case len(asked.GrantTypes) > 0 && !slices.Contains(asked.GrantTypes, store.GrantAuthorizationCode):
		return RegistrationAnswer{}, oauth.ErrMetadataGrant
	case len(asked.ResponseTypes) > 0 && !slices.Contains(asked.ResponseTypes, "code"):
		return RegistrationAnswer{}, oauth.ErrMetadataResponse
	case len(sealed.Redirects) == 0:
		return RegistrationAnswer{}, oauth.ErrMetadataRedirect
	case len(sealed.Redirects) > keys.MaxSealedRedirects:
		return RegistrationAnswer{}, oauth.ErrManyRedirects
	}
	view, err := r.Directory.View()
	if err != nil {
		return RegistrationAnswer{}, store.Unavailable(err)
	}
	if out.ID, err = view.Ring.Registrations(r.Realm).Seal(sealed); err != nil {
		return RegistrationAnswer{}, store.Unavailable(err)
	}
	out.IssuedAt = sealed.At.Time().Unix()
	if out.Method != oauth.AuthNone {
		out.SecretExpiresAt = new(int)
		secret, err := view.Ring.Registrations(r.Realm).Secret(out.ID)
		if err != nil {
			return RegistrationAnswer{}, err
		}
		out.Secret = string(secret)
	}
	return out, nil
}

// ownShortName returns the name that a client gives itself, cut to what a sealed
// registration holds, or "" if OwnName does not accept it.
func ownShortName(name any) string {
	text := OwnName(name, "")
	for len(text) > keys.MaxSealedName {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return strings.TrimSpace(text)
}

// open returns the registration that an id contains.
func (r *Registrations) open(id string) (keys.SealedRegistration, error) {
	return r.Directory.Ring().Registrations(r.Realm).Open(id, grant.At(r.Now()))
}

// Admits reports whether an id is an authentic sealed registration. A nil r admits none.
func (r *Registrations) Admits(id string) bool {
	if r == nil || !keys.IsRegistration(id) {
		return false
	}
	_, err := r.open(id)
	return err == nil
}

// Client returns the client as it registered itself under id. Its only redirect URI is the
// registered form of redirectURI, which is "" for the device grant.
func (r *Registrations) Client(id, redirectURI string) (*store.Client, error) {
	s, err := r.open(id)
	if err != nil || int(s.Method) >= len(sealedMethods) {
		return nil, oauth.ErrUnknownClient
	}
	// An earlier version may have sealed a redirect URI that is no longer accepted, or
	// a port of localhost.
	if redirectURI != "" && oauth.CheckOwnRedirectURI(redirectURI, r.Schemes...) != nil {
		return nil, oauth.ErrRedirectMismatch
	}
	forms := []string{redirectURI, oauth.LoopbackForm(redirectURI)}
	i := slices.IndexFunc(forms, func(uri string) bool { return uri == "" || slices.Contains(s.Redirects, keys.RedirectDigest(uri)) })
	if i < 0 {
		return nil, oauth.ErrRedirectMismatch
	}
	c := ownClient(r.Realm, id, OwnName(s.Name, ""), forms[i], ownGrantTypes(s.Device), grant.At(r.Now()))
	c.RegisteredBy, c.Auth, c.CreatedAt = store.ByRequest, store.AuthEither, s.At
	if sealedMethods[s.Method] == oauth.AuthNone {
		c.Auth = store.AuthNone
	}
	if s.Bound {
		c.DPoP = store.DPoPRequired
	}
	c.Name = cmp.Or(c.Name, oauth.Host(forms[i]))
	return c, nil
}
