package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A demand is the rule of a profile for one setting.
type demand struct {
	flag string
	rule string // and where the profile says so
	met  func(*Registration) bool
	set  func(*Registration) // nil: no value suits every client
}

// must is a demand that one value of a setting meets.
func must[T comparable](flag string, of func(*Registration) *T, value T, rule string) demand {
	return demand{flag, rule, func(r *Registration) bool { return *of(r) == value }, func(r *Registration) { *of(r) = value }}
}

const rightAlgorithms = "PS256, ES256 and EdDSA sign, and RS256 does not (section 5.4.1)"

// signs is the demand that a signing algorithm is not RS256, which FAPI excludes and some
// settings have as their default. It accepts an empty setting if none is true.
func signs[T ~string](flag string, of func(*Registration) *T, none bool, value T) demand {
	return demand{flag, rightAlgorithms,
		func(r *Registration) bool { return *of(r) != T(keys.RS256) && (none || *of(r) != "") },
		func(r *Registration) {
			if *of(r) == T(keys.RS256) || !none {
				*of(r) = value
			}
		}}
}

// fapi2 are the demands of the FAPI 2.0 Security Profile on a client. Its demands on the
// server alone (iss, redirects by 303, codes for one use) hold for every client; see
// store.Profile for the rest.
var fapi2 = []demand{
	must("auth-method", func(r *Registration) *store.AuthRule { return &r.Auth }, store.AuthPrivateKeyJWT,
		"clients are confidential and authenticate by private_key_jwt (sections 5.3.2.1-3 and 5.3.2.1-6)"),
	signs("assertion-signing-alg", func(r *Registration) *string { return &r.Assertion.Alg }, true, string(keys.ES256)),
	must("assertion-token-endpoint-audience", func(r *Registration) *bool { return &r.Assertion.TokenEndpoint }, false,
		"the issuer is the only audience of assertions (section 5.3.2.1-8)"),
	must("no-pkce", func(r *Registration) *store.Waiver { return &r.NoPKCE }, false,
		"every request has a PKCE challenge (section 5.3.2.2-5)"),
	must("require-par", func(r *Registration) *bool { return &r.RequirePAR }, true,
		"every authorization request is pushed (section 5.3.2.2-3)"),
	must("dpop", func(r *Registration) *store.DPoPRule { return &r.DPoP }, store.DPoPRequired,
		"every access token is bound to a key (section 5.3.2.1-4)"),
	must("no-rotation", func(r *Registration) *bool { return &r.NoRotation }, true,
		"refresh tokens do not rotate (section 5.3.2.1-9)"),
	{"grant-types", "device codes are neither pushed nor have PKCE (sections 5.3.2.2-3 and 5.3.2.2-5)",
		func(r *Registration) bool { return !slices.Contains(r.GrantTypes, store.GrantDeviceCode) }, nil},
	{"redirect-uri", "http is for 127.0.0.1 and [::1] alone (section 5.3.2.2-8)", func(r *Registration) bool {
		return !slices.ContainsFunc(r.RedirectURIs, func(uri string) bool { return strings.HasPrefix(uri, "http://localhost") })
	}, nil},
	signs("signing-alg", func(r *Registration) *keys.Purpose { return &r.SigningAlg }, true, keys.ES256),
	signs("id-token-signing-alg", func(r *Registration) *keys.Purpose { return &r.IDTokenAlg }, false, keys.ES256),
	{"id-jag", rightAlgorithms + ": give each alg=ES256 or alg=EdDSA", func(r *Registration) bool {
		return !slices.ContainsFunc(r.IDJAGs, func(text string) bool {
			p, err := store.ReadIDJAG(text)
			return err == nil && cmp.Or(p.Alg, keys.RS256) == keys.RS256
		})
	}, nil},
	signs("userinfo-signed-response-alg", func(r *Registration) *keys.Purpose { return &r.UserInfoAlg }, true, keys.ES256),
}

// Follow sets every setting to the value that the profile demands, if it demands one. Call
// it before the requested settings are applied, so that checkProfile rejects those that
// contradict the profile.
func (r *Registration) Follow() {
	if r.Profile != store.ProfileFAPI2 {
		return
	}
	for _, d := range fapi2 {
		if d.set != nil && !d.met(r) {
			d.set(r)
		}
	}
}

// checkProfile returns an error that names the first rule of the profile which the
// registration contradicts.
func (r *Registration) checkProfile() error {
	if err := oneOf(r.Profile, "", store.ProfileFAPI2); err != nil {
		return fmt.Errorf("%q is not %s", string(r.Profile), store.ProfileFAPI2)
	}
	for _, d := range fapi2 {
		if r.Profile == store.ProfileFAPI2 && !d.met(r) {
			return invalid(d.flag, "it contradicts --profile %s: by the FAPI 2.0 Security Profile, %s", r.Profile, d.rule)
		}
	}
	return nil
}
