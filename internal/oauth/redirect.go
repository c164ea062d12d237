package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxRedirectURI is the limit of a redirect URI, in bytes.
const MaxRedirectURI = 2000

// CheckRedirectURI returns why uri cannot be registered, or nil. Native
// clients may also register a loopback address over http (RFC 8252 section
// 7.3), http://localhost (which section 8.3 discourages, and development tools
// use), and a private-use scheme that holds a dot (section 7.1).
func CheckRedirectURI(uri string, native bool) error {
	u, err := ParseRedirectURI(uri)
	switch {
	case err != nil:
		return err
	case u.Scheme == "https":
		if u.Hostname() == "" {
			return errors.New("redirect URI has no host")
		}
		return nil
	case u.Scheme == "http":
		switch {
		case !isLoopback(u.Hostname()):
			return errors.New("redirect URI is not https: http is for 127.0.0.1, [::1] and localhost alone, with --native")
		case !native:
			return errors.New("redirect URI is not https: add --native to use http on this machine, as a program on a user's device or under development does")
		}
		return nil
	case native && strings.Contains(u.Scheme, "."):
		return nil
	}
	return (*schemeError)(&u.Scheme)
}

// outsideURI reports whether c must be percent-encoded in a URI (RFC 3986).
func outsideURI(c rune) bool {
	return c <= 0x20 || c >= 0x7f || strings.ContainsRune(`"<>\^{|}*`+"`", c)
}

// ParseRedirectURI parses a URI in the one spelling that this server, browsers and
// people read alike, whatever its scheme is (CWE-451). It does not check who may
// register the URI: CheckRedirectURI does.
func ParseRedirectURI(uri string) (*url.URL, error) {
	if i := strings.IndexFunc(uri, outsideURI); i >= 0 {
		return nil, fmt.Errorf("redirect URI holds the character %q: write it percent-encoded; wildcards are not supported", uri[i])
	}
	if len(uri) > MaxRedirectURI {
		return nil, fmt.Errorf("redirect URI is longer than %d bytes", MaxRedirectURI)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, errors.New("redirect URI is not a URI")
	}
	plain, err := url.PathUnescape(uri)
	switch {
	case err != nil:
		return nil, errors.New("redirect URI is not a URI")
	case !u.IsAbs():
		return nil, errors.New("redirect URI is not absolute: begin it with https://")
	case strings.ContainsRune(uri, '#'):
		return nil, errors.New("redirect URI has a fragment (RFC 6749 section 3.1.2 forbids it)")
	case u.User != nil:
		return nil, errors.New("redirect URI holds user information")
	case strings.ContainsFunc(plain, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return nil, errors.New("redirect URI holds a percent-encoded control or format character: leave it out")
	}
	if err := checkAuthority(uri); err != nil {
		return nil, fmt.Errorf("redirect URI %w", err)
	}
	return u, nil
}

// A schemeError is the scheme of a redirect URI, which is not allowed.
type schemeError string

func (e *schemeError) Error() string {
	return fmt.Sprintf("redirect URI scheme %q is not allowed: https, or with --native a private-use scheme such as com.example.app", string(*e))
}

// MatchRedirectURI reports whether uri is one of the registered ones, byte for
// byte (RFC 9700 section 2.1). Of a registered loopback address, any port matches,
// and nothing else (RFC 8252 section 7.3). Of localhost, any port matches if the
// registered URI names none. The kind of client does not matter: CheckRedirectURI
// decides which clients may register such a URI.
func MatchRedirectURI(registered []string, uri string) bool {
	return slices.ContainsFunc(registered, func(r string) bool { return r == uri || sameButPort(r, uri) })
}

// sameButPort reports whether uri is a registered loopback URI but for the port. It
// compares bytes: parsing would accept spellings of a host that browsers resolve to
// somewhere else.
func sameButPort(registered, uri string) bool {
	for _, prefix := range []string{"http://127.0.0.1", "http://[::1]"} {
		if strings.HasPrefix(registered, prefix) && strings.HasPrefix(uri, prefix) {
			have, ok1 := cutPort(registered[len(prefix):])
			sent, ok2 := cutPort(uri[len(prefix):])
			return ok1 && ok2 && have == sent
		}
	}
	// RFC 8252 section 7.3 is about addresses: what localhost resolves to is not
	// certain (section 8.3), so a port that was registered stays the only one.
	const localhost = "http://localhost"
	have, named := strings.CutPrefix(registered, localhost)
	sent, same := strings.CutPrefix(uri, localhost)
	if !named || !same || strings.HasPrefix(have, ":") {
		return false
	}
	sent, ok := cutPort(sent)
	return ok && have == sent
}

// LoopbackForm returns a redirect URI of this machine without its port, and any other
// as it is.
func LoopbackForm(uri string) string {
	for _, prefix := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		if rest, ok := strings.CutPrefix(uri, prefix); ok {
			if rest, ok = cutPort(rest); ok {
				return prefix + rest
			}
		}
	}
	return uri
}

// cutPort takes an optional port from the front of the text after a host.
func cutPort(s string) (rest string, ok bool) {
	if strings.HasPrefix(s, ":") {
		end := strings.IndexAny(s, "/?")
		if end < 0 {
			end = len(s)
		}
		port, err := strconv.ParseUint(s[1:end], 10, 16)
		if err != nil || port == 0 || s[1] == '0' {
			return "", false
		}
		s = s[end:]
	}
	return s, s == "" || s[0] == '/' || s[0] == '?'
}

func isLoopback(host string) bool {
	return host == "127.0.0.1" || host == "::1" || host == "localhost"
}
