package resource

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A Config says whose tokens an API accepts, and how it checks them. Issuer and
// Audience are required; the zero value of everything else is the careful
// choice.
type Config struct {
	// Issuer is the authorization server's issuer identifier, character for
	// character as the server itself states it, such as
	// https://auth.example.com/oauth2/api. Its scheme is https, or http if the
	// host is localhost or a loopback address. Every endpoint is found through
	// the server's metadata (RFC 8414).
	Issuer string

	// Audience is the identifier of this API, such as https://api.example.com.
	// A token is accepted only if its aud has it, character for character: a
	// token that was made for another API, or stolen there, is of no use here.
	// Clients that are registered without an audience get tokens for the
	// issuer; to accept those, set Audience to Issuer. It is also the realm in
	// challenges.
	Audience string

	// ClientID and ClientSecret are this API's own registration at the
	// authorization server. They are needed to accept opaque tokens, which are
	// looked up there (RFC 7662). Without them, only JWTs are accepted.
	ClientID, ClientSecret string

	// IntrospectionCache is for how long a good answer about an opaque token is
	// used again, at most until the token expires. It is also how long a
	// revoked token may still be accepted. With 0, the server is asked for each
	// request, and a token that was revoked before a request came is refused;
	// 5 to 30 seconds spare a busy API most of these questions. Refusals and
	// failures are never kept.
	IntrospectionCache time.Duration

	// FollowRevocations makes JWTs that were revoked before they expire be
	// refused: the server's list of them is fetched in the background, every 5
	// seconds unless the server says otherwise, until Close. A revocation
	// is known that long, and 2 seconds, after it was made. Without it, a JWT is
	// good until it expires, whatever has happened to the grant behind it.
	FollowRevocations bool

	// StaleRevocations is for how long JWTs are accepted by a list that has
	// ended (it lasts 24 to 40 seconds by default), if no newer one can be had. With 0,
	// they are ErrUnavailable from then on: a server that cannot say what it
	// has revoked may have revoked this. A large value keeps the API up and
	// gives a thief who can cut the line the rest of the token's life.
	StaleRevocations time.Duration

	// AllowPlainJWTType accepts JWTs of type JWT beside those of type at+jwt,
	// for clients that are registered for that. Set it only if this
	// Audience is no client's id, so that no ID token can pass for an access
	// token.
	AllowPlainJWTType bool

	// Leeway is how far this machine's clock and the server's may differ when
	// a JWT's instants are looked at: 0 means 5 seconds, a negative value
	// none. More than a minute is a mistake.
	Leeway time.Duration

	// HTTPClient is used for everything that is asked of the authorization
	// server: set it for a private certificate authority or a proxy. Its
	// redirect policy and cookies are not used, since nothing is redirected and
	// no cookies are kept. Every request ends after 5 seconds, or its
	// Timeout if that is shorter. If nil, one with up to 100 connections is made.
	HTTPClient *http.Client

	// ErrorHandler writes the status and the body of refusals, if an API's
	// errors have a form of their own. The challenge (WWW-Authenticate),
	// Cache-Control and, with 503, Retry-After are set already; err wraps one of this
	// package's errors, and may be logged. If nil, the body is one line of
	// text.
	ErrorHandler func(w http.ResponseWriter, r *http.Request, status int, err error)

	// Logger is told, in one line each, when the authorization server begins to
	// fail and when it is well again. If nil, it is slog.Default.
	Logger *slog.Logger
}

const (
	defaultLeeway = 5 * time.Second
	maxLeeway     = time.Minute
)

// check completes c with defaults, and finds what cannot be meant.
func (c *Config) check() error {
	if err := checkURL(c.Issuer); err != nil {
		return fmt.Errorf("resource: Issuer: %w", err)
	}
	if strings.ContainsAny(c.Issuer, "?#") || strings.HasSuffix(c.Issuer, "/") {
		// RFC 8414 section 2 excludes the first two; of the last, nothing
		// would say that the server spells it so.
		return errors.New("resource: Issuer: no query, fragment or slash at its end")
	}
	switch {
	case c.Audience == "":
		return errors.New("resource: Audience is required: the identifier of this API, which its tokens must name")
	case !quotable(c.Audience):
		return errors.New(`resource: Audience: only printable ASCII without " and \`)
	case c.ClientID == "" && c.ClientSecret != "", c.ClientID != "" && c.ClientSecret == "":
		return errors.New("resource: ClientID and ClientSecret go together")
	case c.IntrospectionCache < 0 || c.StaleRevocations < 0:
		return errors.New("resource: IntrospectionCache and StaleRevocations are not negative")
	case c.IntrospectionCache > 0 && c.ClientID == "":
		return errors.New("resource: IntrospectionCache without ClientID: nothing is introspected")
	case c.StaleRevocations > 0 && !c.FollowRevocations:
		return errors.New("resource: StaleRevocations without FollowRevocations: there are no lists")
	case c.Leeway > maxLeeway:
		return errors.New("resource: Leeway: at most a minute; set the clocks instead")
	case c.Leeway == 0:
		c.Leeway = defaultLeeway
	case c.Leeway < 0:
		c.Leeway = 0
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// checkURL accepts addresses to which secrets may be sent, and from which keys
// may come: https ones, and http ones that do not leave the machine.
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

// quotable reports whether s can stand in a quoted string of a challenge as it
// is.
func quotable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
