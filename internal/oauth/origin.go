package oauth

import (
	"net/url"
	"strings"
)

// RedirectOrigin returns the web origin (RFC 6454 section 6.2) of a page at a
// registered redirect URI, or "" if the URI has none. A "*" takes the place of
// the port if MatchRedirectURI lets the client choose it.
func RedirectOrigin(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	origin := u.Scheme + "://" + host
	other := "1"
	if port == other {
		other = "2"
	}
	rest := uri[len(u.Scheme)+len("://")+len(u.Host):]
	switch {
	case MatchRedirectURI([]string{uri}, origin+":"+other+rest):
		return origin + anyPort
	case port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80":
		return origin
	}
	return origin + ":" + port
}

const anyPort = ":*"

// OriginOfAnyPort returns what RedirectOrigin returns for an origin whose client
// chooses the port, or "" if origin is not an http origin.
func OriginOfAnyPort(origin string) string {
	const scheme = "http://"
	host, ok := strings.CutPrefix(origin, scheme)
	if !ok {
		return ""
	}
	end := len(host)
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		end = i
	}
	if rest, ok := cutPort(host[end:]); !ok || rest != "" {
		return ""
	}
	return scheme + host[:end] + anyPort
}
