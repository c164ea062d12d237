package oauth

import "slices"

// A LogoutRequest is a client's request to end the session of a user (OpenID Connect
// RP-Initiated Logout 1.0 section 2). The parameter logout_hint is ignored: the
// browser's session determines who is signed in.
type LogoutRequest struct {
	IDTokenHint string
	ClientID    string
	RedirectURI string // post_logout_redirect_uri
	State       string
	UILocales   string
}

// MaxHint is the longest id_token_hint in bytes: longer than any id_token, which may
// have all claims about its user (2,048 bytes of JSON).
const MaxHint = 6144

// maxLogout is the longest accepted value of each parameter, in bytes. Others are
// ignored.
var maxLogout = map[string]int{
	"id_token_hint": MaxHint, "client_id": 255, "post_logout_redirect_uri": 2048, "state": 2048, "logout_hint": 255, "ui_locales": 255,
}

// The defects of a logout request. A page shows them: no redirect follows.
var (
	ErrLogoutHint     = &Error{InvalidRequest, "id_token_hint is not an id_token of this issuer"}
	ErrLogoutClient   = &Error{InvalidRequest, "client_id is not that of id_token_hint"}
	ErrLogoutToken    = &Error{InvalidRequest, "logout_token is not valid"}
	ErrLogoutRedirect = &Error{InvalidRequest, "post_logout_redirect_uri not registered"}
)

// ParseLogout reads a logout request from a form body and the query. It returns what
// it could read even with an error.
func ParseLogout(body, rawQuery string) (r LogoutRequest, realm string, err error) {
	inBody, err := parsePairs(make([]pair, 0, usualPairs), body)
	if err != nil {
		return r, "", err
	}
	inQuery, err := parsePairs(make([]pair, 0, usualPairs), rawQuery)
	if err != nil {
		return r, "", err
	}
	all := slices.Concat(inQuery, inBody)
	p := Params{}
	for i, kv := range all {
		most, known := maxLogout[kv.name]
		switch {
		case named(all[:i], kv.name) && (known || kv.name == "realm"):
			err = ErrRepeated
			delete(p, kv.name)
		case kv.name == "realm":
			realm = kv.value
		case known && len(kv.value) > most:
			err = ErrTooLong
		case known && kv.value != "":
			p[kv.name] = kv.value
		}
	}
	return LogoutRequest{p["id_token_hint"], p["client_id"], p["post_logout_redirect_uri"], p["state"], p["ui_locales"]}, realm, err
}
