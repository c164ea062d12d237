package resource

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A Config says which tokens an API accepts, and how it verifies them. Issuer and Audience
// are required. The zero value of every other field is the safe choice.
type Config struct {
	// Issuer is the authorization server's issuer identifier, character for
	// character as the server itself states it, such as
	// https://auth.example.com/oauth2/api. Its scheme is https, or http if the
	// host is localhost or a loopback address. Every endpoint is found through
	// the server's metadata (RFC 8414).
	Issuer string

	// Audience is the identifier of this API, such as https://api.example.com. A token is
	// accepted only if its aud contains Audience, compared exactly except for one trailing
	// slash, which clients append. A token for another API, or stolen there, is refused.
	// Clients that are registered without an audience get tokens for the issuer; to accept
	// those, set Audience to Issuer. Audience is also the realm in challenges.
	Audience string

	// ClientID and ClientSecret are this API's own registration at the
	// authorization server. They are needed to accept opaque tokens, which are
	// looked up there (RFC 7662). Without them, only JWTs are accepted.
	ClientID, ClientSecret string

	// IntrospectionCache is how long a positive response for an opaque token is
	// cached, at most until the token expires. For that long, a revoked token may
	// still be accepted. With 0, each request is introspected, and a token that
	// was revoked before the request is refused. With 5 to 30 seconds, a busy API
	// sends few of these requests. Refusals and failures are never cached.
	IntrospectionCache time.Duration

	// FollowRevocations refuses JWTs that were revoked before they expire. It
	// fetches the server's list of revocations in the background, every 5 seconds
	// unless the server sets another interval, until Close. A revocation takes
	// effect after that interval and 2 seconds more. Without it, a JWT is accepted
	// until it expires, also if its grant was revoked.
	FollowRevocations bool

	// StaleRevocations is how long an expired list (lists expire after 24 to 40 seconds by
	// default) is still used if no newer one can be fetched. With 0, JWTs then fail with
	// ErrUnavailable, because they may have been revoked. With a large value, the API keeps
	// working, and a thief who can cut the connection to the server can use a stolen token
	// until it expires.
	StaleRevocations time.Duration

	// AllowPlainJWTType also accepts JWTs of type JWT, for clients that are
	// registered for it. Set it only if Audience is not the id of a client:
	// otherwise an ID token would be accepted as an access token.
	AllowPlainJWTType bool

	// Origin is scheme, host and port at which clients reach this API, such as
	// https://api.example.com. DPoP proofs (RFC 9449) contain it, with the path of the
	// request. If empty, it is the origin of Audience; if Audience is neither https nor http
	// on loopback, requests with proofs are refused, and New logs that. The Host of a request
	// is not used, because a client could choose it.
	Origin string

	// NonceKey makes this API issue nonces, and demand one in each DPoP proof. A proof can
	// then not be made in advance, and is valid for at most two minutes on any instance. All
	// instances must have the same key of 32 random bytes.
	NonceKey []byte

	// PublishMetadata makes challenges contain the address of this API's metadata (RFC 9728),
	// with which clients that have only the API's address, such as agents, find its
	// authorization server. Serve [Verifier.Metadata] at [Verifier.MetadataPath]. Audience
	// must then be the https address of the API.
	PublishMetadata bool

	// ScopesSupported are listed in the metadata. Some clients request all of them.
	ScopesSupported []string

	// Actors says whether tokens may or must name an actor (RFC 8693): a client that acts for
	// the user by a token from a token exchange. By default, they may. Other tokens get 403.
	Actors ActorRule

	// Leeway is how much this machine's clock and the server's may differ in the
	// checks of a JWT's times: 0 means 5 seconds, a negative value none. More than
	// a minute is an error.
	Leeway time.Duration

	// HTTPClient sends all requests to the authorization server. Set it for a
	// private certificate authority or a proxy. Its redirect policy and cookies
	// are not used: redirects are not followed. Each request ends after 5 seconds,
	// or Timeout if that is shorter. If nil, a client with up to 100 connections
	// is used.
	HTTPClient *http.Client

	// ErrorHandler writes the status and the body of a refusal in the API's own
	// form. WWW-Authenticate, Cache-Control and, with 503, Retry-After are set
	// before the call. The error wraps one of this package's errors and may be
	// logged. If nil, the body is one line of text.
	ErrorHandler func(w http.ResponseWriter, r *http.Request, status int, err error)

	// Logger receives a line when the authorization server begins to fail, and when it works
	// again. New logs if DPoP proofs will be refused (see Origin). If nil, it is
	// slog.Default.
	Logger *slog.Logger
}

// An ActorRule says whether the tokens of an API may or must name an actor.
type ActorRule string

const (
	ActorsAllowed  ActorRule = ""
	ActorsRequired ActorRule = "required"
	ActorsRefused  ActorRule = "refused"
)

const (
	defaultLeeway = 5 * time.Second
	maxLeeway     = time.Minute
)

// A fault is a condition that must not hold, and the text of the error if it does.
type fault struct {
	holds bool
	text  string
}

// firstOf returns the text of the first fault whose condition holds, or "".
func firstOf(list ...fault) string {
	for _, f := range list {
		if f.holds {
			return f.text
		}
	}
	return ""
}

// check sets defaults, and returns an error for values that contradict each other.
func (c *Config) check() error {
	issuer, origin, audience := checkURL(c.Issuer), checkURL(c.Origin), checkURL(c.Audience)
	_, behindScheme, _ := strings.Cut(c.Origin, "://")
	text := firstOf(
		fault{issuer != nil, fmt.Sprint("Issuer: ", issuer)},
		// RFC 8414 section 2 excludes query and fragment. A slash at the end is usually a
		// mistake, and issuers are compared exactly.
		fault{strings.ContainsAny(c.Issuer, "?#") || strings.HasSuffix(c.Issuer, "/"), "Issuer: no query, fragment or slash at its end"},
		fault{c.Audience == "", "Audience is required: the identifier of this API, which its tokens must name"},
		fault{!quotable(c.Audience), `Audience: only printable ASCII without " and \`},
		fault{c.Origin != "" && origin != nil, fmt.Sprint("Origin: ", origin)},
		fault{strings.ContainsAny(behindScheme, "/?#"), "Origin: scheme and host alone"},
		fault{c.NonceKey != nil && len(c.NonceKey) < 32, "NonceKey: at least 32 bytes, or nil for no nonces"}, // an empty key comes from a variable that is not set
		fault{c.PublishMetadata && audience != nil, fmt.Sprint("PublishMetadata: Audience: ", audience)},
		fault{c.PublishMetadata && strings.ContainsAny(c.Audience, "?#"), "PublishMetadata: Audience: no query and no fragment"},
		fault{len(c.ScopesSupported) > 0 && !c.PublishMetadata, "ScopesSupported without PublishMetadata: nothing lists them"},
		fault{(c.ClientID == "") != (c.ClientSecret == ""), "ClientID and ClientSecret go together"},
		fault{c.IntrospectionCache < 0 || c.StaleRevocations < 0, "IntrospectionCache and StaleRevocations are not negative"},
		fault{c.IntrospectionCache > 0 && c.ClientID == "", "IntrospectionCache without ClientID: nothing is introspected"},
		fault{c.StaleRevocations > 0 && !c.FollowRevocations, "StaleRevocations without FollowRevocations: there are no lists"},
		fault{c.Actors != ActorsAllowed && c.Actors != ActorsRequired && c.Actors != ActorsRefused, "Actors: required or refused"},
		fault{c.Leeway > maxLeeway, "Leeway: at most a minute; set the clocks instead"},
	)
	if text != "" {
		return errors.New("resource: " + text)
	}
	c.Leeway = max(cmp.Or(c.Leeway, defaultLeeway), 0)
	if c.Origin == "" && audience == nil {
		u, _ := url.Parse(c.Audience)
		c.Origin = u.Scheme + "://" + u.Host
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Origin == "" {
		c.Logger.Info("DPoP proofs will be refused: " + noOrigin)
	}
	return nil
}

// checkURL accepts addresses that may receive secrets and provide keys: https
// addresses, and http addresses of this machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("not an absolute https address")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("neither https nor on this machine")
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// quotable reports whether s needs no escape in a quoted string of a challenge.
func quotable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c > 0x7e || c == '"' || c == '\\' })
}
