// Package oauth parses and compares the strings of the protocol: error codes, form
// bodies, client credentials, scopes, redirect URIs and PKCE. It keeps no state,
// does no I/O and does not depend on grants.
package oauth

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// An ErrorCode is a registered value of the "error" member (RFC 6749 section
// 5.2). ServerError and TemporarilyUnavailable are borrowed from section 4.1.2.1
// for answers with a 5xx or 429 status, for which section 5.2 has no code.
type ErrorCode string

const (
	InvalidRequest         ErrorCode = "invalid_request"
	InvalidClient          ErrorCode = "invalid_client"
	InvalidGrant           ErrorCode = "invalid_grant"
	UnauthorizedClient     ErrorCode = "unauthorized_client"
	UnsupportedGrantType   ErrorCode = "unsupported_grant_type"
	InvalidScope           ErrorCode = "invalid_scope"
	UnsupportedTokenType   ErrorCode = "unsupported_token_type" // RFC 7009 section 2.2.1
	InvalidToken           ErrorCode = "invalid_token"          // RFC 6750 section 3.1
	InsufficientScope      ErrorCode = "insufficient_scope"     // RFC 6750 section 3.1
	InvalidRedirectURI     ErrorCode = "invalid_redirect_uri"   // RFC 7591 section 3.2.2
	InvalidClientMetadata  ErrorCode = "invalid_client_metadata"
	InvalidDPoPProof       ErrorCode = "invalid_dpop_proof"               // RFC 9449 section 5
	UseDPoPNonce           ErrorCode = "use_dpop_nonce"                   // RFC 9449 section 8
	InsufficientLogin      ErrorCode = "insufficient_user_authentication" // RFC 9470 section 3
	AuthorizationPending   ErrorCode = "authorization_pending"            // RFC 8628 section 3.5
	SlowDown               ErrorCode = "slow_down"
	ExpiredToken           ErrorCode = "expired_token"
	ServerError            ErrorCode = "server_error"
	TemporarilyUnavailable ErrorCode = "temporarily_unavailable"

	// Of the authorization endpoint (RFC 6749 section 4.1.2.1, RFC 8707
	// section 2, OpenID Connect Core section 3.1.2.6).
	AccessDenied             ErrorCode = "access_denied"
	UnsupportedResponseType  ErrorCode = "unsupported_response_type"
	InvalidTarget            ErrorCode = "invalid_target"
	LoginRequired            ErrorCode = "login_required"
	ConsentRequired          ErrorCode = "consent_required"
	InteractionRequired      ErrorCode = "interaction_required"
	AccountSelectionRequired ErrorCode = "account_selection_required"
	UnmetRequirements        ErrorCode = "unmet_authentication_requirements" // OpenID Connect Core Error Code, section 1
	RequestNotSupported      ErrorCode = "request_not_supported"
	RequestURINotSupported   ErrorCode = "request_uri_not_supported"
	InvalidRequestURI        ErrorCode = "invalid_request_uri" // RFC 9101 section 6.2
)

// An Error is a defect that is reported to a client. Description is a constant: it
// never contains input and never says which of several grant checks failed.
type Error struct {
	Code        ErrorCode
	Description string
}

// maxSent is how many bytes of a value Quoted writes.
const maxSent = 120

// Sent returns an error about a parameter with the value that was sent, bounded and in
// quotes, for the log. Clients and users see err alone.
func Sent(err error, value string) error {
	return fmt.Errorf("%w: it was %s", err, Quoted(value))
}

// Quoted returns what a caller sent, bounded and in quotes, for the log.
func Quoted(value string) string {
	if len(value) > maxSent {
		value = value[:maxSent] + "..."
	}
	return strconv.QuoteToASCII(value)
}

// LoggedURI returns a URI for the log, with scheme, host and path: without userinfo, the
// values of its query and its fragment, which may be secrets that were put there by
// mistake. The text may be percent-encoded once too often, or no URI at all.
func LoggedURI(text string) string {
	u, err := url.Parse(text)
	first, _, hierarchical := strings.Cut(text, ":/")
	if !hierarchical && ends(first, ":/") != nil {
		first = first[:ends(first, ":/")[0]-1]
		hierarchical = strings.Contains(first, ".") || strings.Contains(first, "%") || first == "urn" || first == "localhost"
	}
	if !hierarchical || err != nil && ends(text, "@") != nil {
		return "(no URI)"
	}
	if at := ends(text, "?#&;=%"); at != nil {
		text = text[:at[0]] + "..."
	}
	if users := ends(text, "@"); users != nil && (u.Host == "" || u.User != nil || u.Port() != "") {
		scheme := ""
		if strings.HasPrefix(text, u.Scheme+":/") {
			scheme = u.Scheme + "://"
		}
		text = scheme + "...@" + text[users[len(users)-1]:]
	}
	return text
}

// ends returns the end of each character in text that is one of marks, plain or
// percent-encoded. It finds "%" only if that is encoded.
func ends(text, marks string) (list []int) {
	for i := range len(text) {
		if c := text[i]; c != '%' && strings.IndexByte(marks, c) >= 0 {
			list = append(list, i+1)
		} else if b, err := url.PathUnescape(text[i:min(i+3, len(text))]); c == '%' && err == nil && strings.Contains(marks, b) {
			list = append(list, i+3)
		}
	}
	return list
}

func (e *Error) Error() string {
	if e.Code == "" { // ErrNoBearer
		return "access token missing"
	}
	return string(e.Code) + ": " + e.Description
}

// The defects of a token request, in the order of the checks.
var (
	ErrMethod          = &Error{InvalidRequest, "method must be POST"}
	ErrHTTPS           = &Error{InvalidRequest, "https required"}
	ErrTooLarge        = &Error{InvalidRequest, "request too large"}
	ErrIncompleteBody  = &Error{InvalidRequest, "request body incomplete"}
	ErrTooManyRequests = &Error{TemporarilyUnavailable, "too many requests"}
	ErrNotFound        = &Error{InvalidRequest, "no such endpoint"}
	ErrTargetForm      = &Error{InvalidRequest, "request target must be a path"}

	ErrContentType     = &Error{InvalidRequest, "content type must be application/x-www-form-urlencoded"}
	ErrContentEncoding = &Error{InvalidRequest, "content encoding not supported"}
	ErrMalformedBody   = &Error{InvalidRequest, "malformed request body"}
	ErrMalformedValue  = &Error{InvalidRequest, "malformed parameter value"}

	ErrRepeated     = &Error{InvalidRequest, "parameter repeated"}
	ErrQuery        = &Error{InvalidRequest, "parameters belong in the request body"}
	ErrRealm        = &Error{InvalidRequest, "unknown realm"}
	ErrTooLong      = &Error{InvalidRequest, "parameter too long"}
	ErrNoGrantType  = &Error{InvalidRequest, "grant_type missing"}
	ErrGrantType    = &Error{UnsupportedGrantType, "grant type not supported"}
	ErrNoCode       = &Error{InvalidRequest, "code missing"}
	ErrNoRedirect   = &Error{InvalidRequest, "redirect_uri missing"}
	ErrNoRefresh    = &Error{InvalidRequest, "refresh_token missing"}
	ErrVerifier     = &Error{InvalidRequest, "code_verifier malformed"}
	ErrNoDeviceCode = &Error{InvalidRequest, "device_code missing"}
	ErrNoClient     = &Error{InvalidRequest, "client_id missing"}
	ErrTwoMethods   = &Error{InvalidRequest, "more than one client authentication method"}
	ErrClientDiffer = &Error{InvalidRequest, "client_id mismatch"}
	ErrAssertion    = &Error{InvalidRequest, "client assertion malformed"}

	ErrProof      = &Error{InvalidDPoPProof, "DPoP proof is not valid"}
	ErrNoProof    = &Error{InvalidDPoPProof, "DPoP proof missing"}
	ErrProofNonce = &Error{UseDPoPNonce, "DPoP proof needs the nonce of DPoP-Nonce"}

	ErrClient           = &Error{InvalidClient, "client authentication failed"}
	ErrClientGrantType  = &Error{UnauthorizedClient, "grant type not allowed for this client"}
	ErrGrant            = &Error{InvalidGrant, "grant is invalid"}
	ErrDeadRefreshToken = &Error{InvalidRequest, "grant is invalid"} // compat.invalid_request_for_dead_refresh
	ErrScope            = &Error{InvalidScope, "scope not allowed"}
	ErrUnavailable      = &Error{TemporarilyUnavailable, "try again later"}
	ErrInternal         = &Error{ServerError, "internal error"}
)

// The errors for a client that polls for its device (RFC 8628 section 3.5), besides
// ErrDenied. ErrDeviceClient is for one that requests device codes without credentials,
// and is not registered as public.
var (
	ErrPending       = &Error{AuthorizationPending, "the user has not answered yet"}
	ErrSlowDown      = &Error{SlowDown, "polled too soon: wait 5 seconds more between polls"}
	ErrExpiredDevice = &Error{ExpiredToken, "device code expired"}
	ErrDeviceClient  = &Error{InvalidClient, "a confidential client authenticates here too (golang.org/x/oauth2: DeviceAuth with SetAuthURLParam of client_secret), or is registered as public"}
)

// The defects of a token exchange (RFC 8693 section 2.2.2).
var (
	ErrNoAssertion   = &Error{InvalidRequest, "assertion missing"}
	ErrNoSubject     = &Error{InvalidRequest, "subject_token or subject_token_type missing"}
	ErrActorType     = &Error{InvalidRequest, "actor_token and actor_token_type go together"}
	ErrExchangeType  = &Error{InvalidRequest, "token type not supported: access_token and jwt are"}
	ErrRequestedType = &Error{InvalidRequest, "requested_token_type not available for this API"}
	ErrSubjectToken  = &Error{InvalidRequest, "subject_token is not acceptable"}
	ErrActorToken    = &Error{InvalidRequest, "actor_token is not acceptable"}
	ErrIDJAGType     = &Error{InvalidRequest, "subject_token_type not supported for an id-jag: id_token and refresh_token are"}
	ErrIDJAGActor    = &Error{InvalidRequest, "actor_token not supported for an id-jag"}
	ErrNoAudience    = &Error{InvalidRequest, "audience missing: the issuer of the server that is to accept the id-jag"}
)

// The defects of requests that are about a token, or present one.
var (
	ErrNotGet            = &Error{InvalidRequest, "method must be GET"}
	ErrNotGetOrPost      = &Error{InvalidRequest, "method must be GET or POST"}
	ErrNoToken           = &Error{InvalidRequest, "token missing"}
	ErrTokenInQuery      = &Error{InvalidRequest, "access token belongs in the Authorization header"}
	ErrTwoTokens         = &Error{InvalidRequest, "access token in header and form"}
	ErrTokenType         = &Error{UnsupportedTokenType, "token type not supported"}
	ErrNoBearer          = &Error{} // RFC 6750 section 3.1: no code if nothing was presented
	ErrBearer            = &Error{InvalidRequest, "malformed bearer token"}
	ErrHeaderName        = &Error{InvalidRequest, "ambiguous header name"}
	ErrInvalidToken      = &Error{InvalidToken, "token is invalid"}
	ErrTokenProof        = &Error{InvalidDPoPProof, "DPoP proof of the access token missing or not valid"}
	ErrTokenNonce        = &Error{UseDPoPNonce, "DPoP proof of the access token needs the nonce of DPoP-Nonce"}
	ErrInsufficientScope = &Error{InsufficientScope, "token lacks a scope"}
	ErrNoActor           = &Error{InsufficientScope, "token names no actor"}
	ErrActor             = &Error{InsufficientScope, "token names an actor"}
	ErrInsufficientLogin = &Error{InsufficientLogin, "a more recent or another login of the user is required"}
)

// Errors of the registration endpoint (RFC 7591 section 3.2.2).
var (
	ErrMetadata         = &Error{InvalidClientMetadata, "not a JSON object with members of the right types"}
	ErrMetadataType     = &Error{InvalidClientMetadata, "content type must be application/json"}
	ErrMetadataMethod   = &Error{InvalidClientMetadata, "token_endpoint_auth_method not supported"}
	ErrMetadataGrant    = &Error{InvalidClientMetadata, "grant_types needs authorization_code"}
	ErrMetadataResponse = &Error{InvalidClientMetadata, "response_types needs code"}
	ErrMetadataRedirect = &Error{InvalidRedirectURI, "no redirect URI that is accepted"}
	ErrManyRedirects    = &Error{InvalidRedirectURI, "more than 5 redirect URIs"}
)

// The defects of an authorization request. Those of the first group are never sent
// to the client, because its redirect URI is not verified yet.
var (
	ErrAuthorizationClient   = &Error{InvalidRequest, "client_id missing or repeated"}
	ErrAuthorizationRedirect = &Error{InvalidRequest, "redirect_uri missing or repeated"}
	ErrUnknownClient         = &Error{InvalidRequest, "client unknown"}
	ErrDisabledClient        = &Error{InvalidRequest, "client disabled"} // that registered itself
	ErrRedirectMismatch      = &Error{InvalidRequest, "redirect_uri not registered"}

	ErrNoResponseType   = &Error{InvalidRequest, "response_type missing"}
	ErrResponseType     = &Error{UnsupportedResponseType, "response_type must be code"}
	ErrResponseMode     = &Error{InvalidRequest, "response_mode must be query or form_post"}
	ErrResponseClient   = &Error{UnauthorizedClient, "client may not ask for codes"}
	ErrNotPushed        = &Error{InvalidRequest, "request must be pushed"}                      // RFC 9126 section 5
	ErrPushedURI        = &Error{InvalidRequest, "request_uri not allowed in a pushed request"} // RFC 9126 section 2.1
	ErrPushed           = &Error{InvalidRequestURI, "request_uri unknown, expired, used or of another client"}
	ErrNoChallenge      = &Error{InvalidRequest, "code_challenge missing"}
	ErrChallengeMethod  = &Error{InvalidRequest, "code_challenge_method must be S256"}
	ErrChallenge        = &Error{InvalidRequest, "code_challenge malformed"}
	ErrJKT              = &Error{InvalidRequest, "dpop_jkt malformed"}
	ErrGuestState       = &Error{InvalidRequest, "state too long: at most 4096 bytes for a user who is not signed in"}
	ErrPrompt           = &Error{InvalidRequest, "prompt not supported"}
	ErrMaxAge           = &Error{InvalidRequest, "max_age malformed"}
	ErrHint             = &Error{InvalidRequest, "id_token_hint is not an id_token of this client"}
	ErrClaims           = &Error{InvalidRequest, "claims malformed"}
	ErrTarget           = &Error{InvalidTarget, "resource not allowed"}
	ErrRequestObject    = &Error{RequestNotSupported, "request not supported"}
	ErrRequestURI       = &Error{RequestURINotSupported, "request_uri not supported"}
	ErrDenied           = &Error{AccessDenied, "access denied"}
	ErrLoginRequired    = &Error{LoginRequired, "login required"}
	ErrConsentRequired  = &Error{ConsentRequired, "consent required"}
	ErrInteraction      = &Error{InteractionRequired, "interaction required"}
	ErrUnmet            = &Error{UnmetRequirements, "requested acr not reached"}
	ErrAccountSelection = &Error{AccountSelectionRequired, "account selection required"}
)

// Invalid is the error about an input that is not valid, for the person who made it.
type Invalid struct {
	Field   string // as the caller spells it
	Message string
	Unknown bool // the caller may have made the name up: it is not logged
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Message }
