package oauth

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Prompt holds the values of the parameter prompt (OpenID Connect Core section
// 3.1.2.1). If None is set, no other field is.
type Prompt struct {
	None          bool `json:"none,omitempty"`
	Login         bool `json:"login,omitempty"`
	Consent       bool `json:"consent,omitempty"`
	SelectAccount bool `json:"select_account,omitempty"`
}

// An AuthorizationRequest is a client's request to the authorization endpoint (RFC
// 6749 section 4.1.1).
type AuthorizationRequest struct {
	ClientID    string `json:"client_id"`
	RedirectURI string `json:"redirect_uri"`
	// State is returned to the client byte for byte. It is a byte slice because
	// JSON replaces bytes that are not UTF-8 in a string.
	State []byte `json:"state,omitempty"`
	// FormPost: the response is a form that the browser posts (OAuth 2.0 Form Post
	// Response Mode), and not a redirect.
	FormPost  bool   `json:"form_post,omitempty"`
	Scope     Scope  `json:"scope,omitempty"` // "" for all that the client is registered for
	Asked     Scope  `json:"asked,omitempty"` // the scope as sent, if Scope is less, for the log
	Challenge string `json:"challenge,omitempty"`
	Nonce     string `json:"nonce,omitempty"` // for the id_token; "" without the scope openid
	// Pushed is the id of the request if it was pushed (RFC 9126), or "".
	Pushed    string   `json:"pushed,omitempty"`
	Prompt    Prompt   `json:"prompt"`
	MaxAge    *int     `json:"max_age,omitempty"` // seconds since the login
	LoginHint string   `json:"login_hint,omitempty"`
	ACRValues string   `json:"acr_values,omitempty"`
	UILocales string   `json:"ui_locales,omitempty"`
	Resources []string `json:"resources,omitempty"` // RFC 8707
	// Audience is a resource in the parameter audience, which some clients may send.
	Audience string `json:"-"`
	// Parameters of OpenID Connect, as sent. Subjects, Classes, InUserInfo and InIDToken
	// hold what they demand.
	IDTokenHint string `json:"-"`
	Claims      string `json:"-"`
	// Subjects are the users of whom one must be signed in; empty: any user may be.
	Subjects []string `json:"subjects,omitempty"`
	// Classes are the accepted values of the login's acr, with "" for no acr; nil: any.
	Classes []string `json:"classes,omitempty"`
	// InUserInfo and InIDToken are the claims that it requests by name, and may have, as
	// bits in the form of grant.Facts.
	InUserInfo uint32 `json:"in_userinfo,omitempty"`
	InIDToken  uint32 `json:"in_id_token,omitempty"`
	// JKT is the key that alone may redeem the code (RFC 9449 section 10), or zero.
	JKT JKT `json:"dpop_jkt,omitzero"`
	// Device is set if a device makes the request, and polls for the answer (RFC 8628).
	// There is no redirect URI.
	Device bool `json:"device,omitempty"`
	// Defect is the first defect beside those of client and redirect URI. It is
	// sent to the client once both are verified.
	Defect *Error `json:"-"`
}

// maxAuthorization is the longest accepted value of each parameter of an
// authorization request, in bytes. Others are ignored (RFC 6749 section 3.1).
var maxAuthorization = map[string]int{
	"client_id": 255, "redirect_uri": 2048, "state": 8192, "scope": 1024,
	"response_type": 255, "response_mode": 255, "code_challenge": 255, "code_challenge_method": 255,
	"dpop_jkt": 255, "prompt": 255, "max_age": 20, "login_hint": 255, "acr_values": 1024, "ui_locales": 255, "resource": 2048,
	"request": 1 << 20, "request_uri": 1 << 20, // refused, whatever their length
}

// maxAgeLimit is longer than any session, in seconds. A larger value would
// overflow.
const maxAgeLimit = 1_000_000_000

// ParseAuthorization reads an authorization request from a form body and the
// query of its URL. A parameter in both counts as repeated. The realm is returned
// apart, as by ParseParams.
//
// For a request that was pushed, r has only the client and the id. An error means that
// the client, the redirect URI or the pushed request is unknown, so that the browser must
// not be redirected. Every other defect is in r.Defect.
func ParseAuthorization(body, rawQuery string) (r AuthorizationRequest, realm string, err error) {
	inBody, err := readPairs(make([]pair, 0, usualPairs), body)
	if err != nil {
		return r, "", err
	}
	inQuery, err := readPairs(make([]pair, 0, usualPairs), rawQuery)
	if err != nil {
		return r, "", err
	}
	all := slices.Concat(inQuery, inBody)
	p := Params{}
	spoilt := map[string]bool{} // foul, repeated or too long: ignored as if not sent
	for i, kv := range all {
		most, known := maxAuthorization[kv.name]
		switch {
		case kv.name == "realm":
			if realm != "" || kv.foul {
				return r, "", ErrRealm
			}
			realm = kv.value
			continue
		case kv.foul:
			r.note(ErrMalformedValue)
		case kv.name == "resource" && len(kv.value) <= most:
			if kv.value != "" && !slices.Contains(r.Resources, kv.value) {
				r.Resources = append(r.Resources, kv.value)
			}
			continue
		case named(all[:i], kv.name):
			r.note(ErrRepeated)
		case known && len(kv.value) > most:
			r.note(ErrTooLong)
		default:
			if kv.value != "" {
				p[kv.name] = kv.value
			}
			continue
		}
		spoilt[kv.name] = true
	}
	for name := range spoilt {
		delete(p, name)
	}
	if r.ClientID = p["client_id"]; r.ClientID == "" {
		return r, realm, ErrAuthorizationClient
	}
	if id, ok := strings.CutPrefix(p["request_uri"], PushedPrefix); ok {
		if id == "" {
			err = ErrPushed
		}
		// All other parameters are ignored (RFC 9126 section 4, RFC 9101 section 6.3).
		return AuthorizationRequest{ClientID: r.ClientID, Pushed: id}, realm, err
	}
	if r.RedirectURI = p["redirect_uri"]; r.RedirectURI == "" {
		return r, realm, ErrAuthorizationRedirect
	}
	if state := p["state"]; state != "" {
		r.State = []byte(state)
	}
	r.LoginHint, r.UILocales, r.Audience = p["login_hint"], p["ui_locales"], p["audience"]
	r.parse(p)
	return r, realm, nil
}

// note keeps the first defect.
func (r *AuthorizationRequest) note(defect *Error) {
	if r.Defect == nil {
		r.Defect = defect
	}
}

// parse reads the parameters that have a syntax, in the order in which defects are
// reported.
func (r *AuthorizationRequest) parse(p Params) {
	// A browser cannot post a form to a program with a private-use scheme.
	r.FormPost = p["response_mode"] == "form_post" && (strings.HasPrefix(r.RedirectURI, "https://") || strings.HasPrefix(r.RedirectURI, "http://"))
	switch {
	case p["request"] != "":
		r.note(ErrRequestObject)
	case p["request_uri"] != "":
		r.note(ErrRequestURI) // and never fetched
	case p["response_type"] == "":
		r.note(ErrNoResponseType)
	case p["response_type"] != "code":
		r.note(ErrResponseType)
	case p["response_mode"] != "" && p["response_mode"] != "query" && !r.FormPost:
		r.note(ErrResponseMode)
	}
	r.ParsePKCE(p["code_challenge"], p["code_challenge_method"])
	if r.JKT.UnmarshalText([]byte(p["dpop_jkt"])) != nil {
		r.note(ErrJKT)
	}
	r.parsePrompt(p["prompt"])
	if text := p["max_age"]; text != "" {
		age, err := strconv.ParseUint(text, 10, 63)
		if err != nil || text[0] == '+' {
			r.note(ErrMaxAge)
		}
		seconds := int(min(age, maxAgeLimit))
		r.MaxAge = &seconds
	}
	var err error
	if r.Scope, err = ParseScope(p["scope"]); err != nil {
		r.Asked = Scope(p["scope"])
		r.note(ErrScope)
	}
	r.Scope = r.Scope.Without(OfflineAccess)
	r.parseNonce(p["nonce"])
	r.IDTokenHint, r.Claims, r.ACRValues = p["id_token_hint"], p["claims"], p["acr_values"]
	if slices.ContainsFunc(r.Resources, func(uri string) bool { return !IsTarget(uri) }) {
		r.note(ErrTarget)
	}
}

// ParsePKCE reads the challenge of a request, and accepts only S256. A challenge without a
// method would mean plain (RFC 7636 section 4.3), whose challenge is the verifier itself.
func (r *AuthorizationRequest) ParsePKCE(challenge, method string) {
	if challenge == "" && method == "" {
		return
	}
	switch _, ok := ParseChallenge(challenge); {
	case challenge == "":
		r.note(ErrNoChallenge)
	case method != "S256":
		r.note(ErrChallengeMethod)
	case !ok:
		r.note(ErrChallenge)
	}
	r.Challenge = challenge
}

// MaxNonce is the longest nonce in bytes: the code carries it.
const MaxNonce = 255

// parseNonce keeps the nonce if the request may get an id_token: it has the scope openid,
// or no scope, which leaves the decision to the client's registration. It cuts a longer
// nonce at MaxNonce+1 bytes: enough to reject it once an id_token is due.
func (r *AuthorizationRequest) parseNonce(nonce string) {
	if r.Scope == "" || r.Scope.Has(OpenID) {
		r.Nonce = nonce[:min(len(nonce), MaxNonce+1)]
	}
}

func (r *AuthorizationRequest) parsePrompt(text string) {
	for word := range strings.FieldsSeq(text) {
		switch word {
		case "none":
			r.Prompt.None = true
		case "login":
			r.Prompt.Login = true
		case "consent":
			r.Prompt.Consent = true
		case "select_account":
			r.Prompt.SelectAccount = true
		default:
			r.note(ErrPrompt)
		}
	}
	if r.Prompt.None && r.Prompt != (Prompt{None: true}) {
		r.note(ErrPrompt)
	}
}

// ParseCallback reads the response of another authorization server at our own
// redirect URI (RFC 6749 section 4.1.2, RFC 9207). It ignores other parameters,
// such as an error description.
func ParseCallback(rawQuery string) (Params, error) {
	pairs, err := readPairs(make([]pair, 0, usualPairs), rawQuery)
	if err != nil {
		return nil, err
	}
	p := Params{}
	for _, kv := range pairs {
		switch kv.name {
		case "state", "code", "error", "iss":
		default:
			continue
		}
		if kv.foul {
			return nil, ErrMalformedValue
		}
		if _, there := p[kv.name]; there {
			return nil, ErrRepeated
		}
		p[kv.name] = kv.value
	}
	return p, nil
}

// PushedPrefix begins the request_uri of a pushed request (RFC 9126 section 2.2).
const PushedPrefix = "urn:ietf:params:oauth:request_uri:"

// PushedForm returns the authorization request in the body of a pushed one, for
// ParseAuthorization. It names the client, and leaves out the client's credentials. It also
// leaves out parameters without a value, so that the server can add one, such as dpop_jkt.
func PushedForm(body, clientID string) string {
	var b strings.Builder
	b.WriteString("client_id=" + url.QueryEscape(clientID))
	for one := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(one, "=")
		if name, err := unescape(name); err == nil && value != "" && !isCredential(name) {
			b.WriteString("&" + one)
		}
	}
	return b.String()
}

// isCredential reports whether a parameter belongs to the pushed request, and not to the
// authorization request in it: client authentication and realm.
func isCredential(name string) bool {
	return slices.Contains([]string{"client_id", "client_secret", "client_assertion", "client_assertion_type", "realm"}, name)
}
