package oauth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// MaxClientAddress is the longest client_id that is an address, in bytes.
const MaxClientAddress = 255

// IsClientAddress reports whether a client_id has the form of an address.
func IsClientAddress(id string) bool { return strings.HasPrefix(id, "https://") }

// CheckClientAddress returns why a client_id cannot be the address of its metadata
// document (OAuth Client ID Metadata Document section 3), or nil. Addresses are
// compared as bytes.
func CheckClientAddress(id string) error {
	if !IsClientAddress(id) {
		return errors.New("not an https address")
	}
	if len(id) > MaxClientAddress {
		return fmt.Errorf("longer than %d bytes", MaxClientAddress)
	}
	if i := strings.IndexFunc(id, outsideURI); i >= 0 {
		return fmt.Errorf("holds the character %q", id[i])
	}
	u, err := url.Parse(id)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Hostname() == "":
		return errors.New("without a host")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return errors.New("with credentials")
	case strings.ContainsAny(id, "?#"):
		return errors.New("with a query or a fragment")
	case u.Path == "":
		return errors.New("without a path")
	}
	for segment := range strings.SplitSeq(u.Path, "/") { // decoded
		if segment == "." || segment == ".." {
			return errors.New("with a dot segment")
		}
	}
	return checkAuthority(id)
}

// splitURI returns the scheme of a URI in lower case, and its authority (RFC 3986
// section 3.2) as written: it decodes nothing.
func splitURI(uri string) (scheme, authority string) {
	scheme, rest, _ := strings.Cut(uri, ":")
	if rest, ok := strings.CutPrefix(rest, "//"); ok {
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			rest = rest[:end]
		}
		authority = rest
	}
	return strings.ToLower(scheme), authority
}

// checkAuthority returns why the scheme and the authority of a URI are not in the form
// to which browsers normalize them (WHATWG URL section 3.5), or nil. In another form, a
// page could show the user one address and the browser go to another.
func checkAuthority(uri string) error {
	scheme, authority := splitURI(uri)
	host := authority
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host = authority[:i]
	}
	switch port, ok := cutPort(authority[len(host):]); {
	case uri[:len(scheme)] != scheme || authority != strings.ToLower(authority):
		return errors.New("has a scheme or a host that is not in lower case")
	case strings.Contains(authority, "%"):
		return errors.New("has a percent-encoded host: write it as DNS has it, such as xn--bcher-kva.example")
	case scheme != "https" && scheme != "http":
		return nil // the authority means something to the program alone
	case !ok || port != "":
		return errors.New("has a port that is not 1 to 65535 without leading zeros")
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || ip.Is4In6() || "["+ip.String()+"]" != host {
			return errors.New("has an IPv6 address that is not in the form of RFC 5952")
		}
		return nil
	}
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return errors.New("has a host that is neither a name in DNS nor an address")
	}
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok && strings.Trim(hex, "0123456789abcdef") == "" || last != "" && strings.Trim(last, "0123456789") == "" {
		if _, err := netip.ParseAddr(host); err != nil {
			return errors.New("has a host that browsers read as an IPv4 address: write it as four decimal numbers")
		}
	}
	return nil
}

// agents are the private-use schemes without a dot that self-registered clients may use:
// those of code editors that act as agents.
var agents = []string{"cursor", "kiro", "vscode", "vscode-insiders", "vscodium", "windsurf", "windsurf-next", "zed"}

// CheckOwnRedirectURI returns why uri is not accepted of a client that registered
// itself, or nil. It is CheckRedirectURI for native clients, but a private-use scheme
// must begin with a top-level domain (RFC 8252 section 7.1), or be one of agents or
// more. Any other scheme could make the operating system open, call or install
// something, as Windows does for microsoft.windows.camera.
func CheckOwnRedirectURI(uri string, more ...string) error {
	err := CheckRedirectURI(uri, true)
	if err != nil && !errors.As(err, new(*schemeError)) {
		return err
	}
	scheme, _ := splitURI(uri)
	domain, _, dotted := strings.Cut(scheme, ".")
	switch {
	case scheme == "https", scheme == "http", slices.Contains(agents, scheme), slices.Contains(more, scheme):
		return nil
	case domain != "microsoft" && dotted && strings.Trim(domain, "abcdefghijklmnopqrstuvwxyz") == "":
		return nil
	}
	return (*schemeError)(&scheme)
}

// CheckProgramScheme returns nil for a scheme that an operator may allow to clients that
// registered themselves, and otherwise an error. It must be a program's own: neither the
// Web nor a browser or an operating system gives it a meaning.
func CheckProgramScheme(scheme string) error {
	switch {
	case scheme == "" || scheme[0] < 'a' || scheme[0] > 'z' || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "":
		return errors.New("not a scheme in lower case, such as example-agent, without a colon")
	case foreign(scheme):
		return errors.New("browsers or operating systems, and not a program of its own, give this scheme a meaning")
	}
	return nil
}

// foreign reports whether browsers or operating systems give a scheme a meaning.
func foreign(scheme string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(scheme, prefix) }
	return slices.ContainsFunc([]string{"http", "web+", "ms-", "microsoft-edge", "googlechrome", "x-apple", "itms", "chrome"}, begins) || slices.Contains([]string{
		"about", "afp", "android-app", "applescript", "blob", "cid", "content", "data", "dns", "facetime", "feed", "file", "filesystem", "ftp", "ftps",
		"intent", "jar", "javascript", "jnlp", "jsc", "ldap", "ldaps", "livescript", "mailto", "market", "mhtml", "mid", "moz-extension", "news", "nfs", "opera",
		"rdp", "res", "resource", "safari-extension", "search", "sftp", "shell", "shortcuts", "skype", "smb", "sms", "ssh", "steam",
		"tel", "telnet", "urn", "vbscript", "view-source", "vnc", "ws", "wss", "wyciwyg",
	}, scheme)
}

// Host returns the part of an address by which a user can judge it. For https and http,
// this is the host with its port, unless the port is the default one. For another
// scheme, it is the scheme and a colon, because only the program interprets the host.
func Host(uri string) string {
	switch scheme, authority := splitURI(uri); {
	case !strings.Contains(uri, ":"):
		return ""
	case scheme == "https":
		return strings.TrimSuffix(authority, ":443")
	case scheme == "http":
		return strings.TrimSuffix(authority, ":80")
	default:
		return scheme + ":"
	}
}

// IsRemote reports whether a redirect URI leads to a web server. Any other leads to a
// program on the user's device, where any other program could have made the request
// (RFC 8252 section 8.6).
func IsRemote(redirectURI string) bool {
	scheme, _ := splitURI(redirectURI)
	return scheme == "https"
}

// IsLoopback reports whether a redirect URI leads to this machine by http.
func IsLoopback(redirectURI string) bool {
	u, err := url.Parse(redirectURI)
	return err == nil && u.Scheme == "http" && isLoopback(u.Hostname())
}

// HostOf returns the PlainHost of an https address, by which requests are routed to realms.
// It returns a text that is no URL unchanged.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return PlainHost(u.Host)
}

// PlainHost returns a host in lower case, without the default port of https and without a
// dot at the end of its name, which clients may send or leave out.
func PlainHost(host string) string {
	host = strings.Replace(strings.ToLower(host), ".:", ":", 1)
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ".")
}
