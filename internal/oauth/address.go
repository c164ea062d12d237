package oauth

import (
	"errors"
	"fmt"
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
	for i := 0; i < len(id); i++ {
		if id[i] <= 0x20 || id[i] >= 0x7f || strings.IndexByte(`"<>\^{|}*`+"`", id[i]) >= 0 {
			return fmt.Errorf("holds the character %q", id[i])
		}
	}
	u, err := url.Parse(id)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Hostname() == "" || strings.Contains(u.Host, "%"):
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
	return nil
}

// CheckOwnRedirectURI returns why uri is not accepted of a client that registered
// itself, or nil. It is CheckRedirectURI for native clients, and private-use schemes
// need no dot: agents use such ones.
func CheckOwnRedirectURI(uri string) error {
	err := CheckRedirectURI(uri, true)
	var scheme *schemeError
	if !errors.As(err, &scheme) || foreign(string(*scheme)) {
		return err
	}
	return nil
}

// foreign reports whether a scheme is not a program's own: it is the Web's, or what
// browsers and operating systems, and not programs, give a meaning. A page that sends
// a browser to one of the latter can make the system search, open or run something.
func foreign(scheme string) bool {
	return strings.HasPrefix(scheme, "http") || strings.HasPrefix(scheme, "web+") || strings.HasPrefix(scheme, "ms-") || slices.Contains([]string{
		"about", "afp", "android-app", "blob", "cid", "chrome", "chrome-extension", "content", "data", "dns", "feed", "file", "filesystem", "ftp", "ftps",
		"intent", "jar", "javascript", "jnlp", "jsc", "ldap", "ldaps", "livescript", "mailto", "mhtml", "mid", "moz-extension", "news", "nfs", "opera", "resource", "safari-extension",
		"search", "search-ms", "sftp", "shell", "smb", "sms", "ssh", "tel", "telnet", "urn", "vbscript", "view-source", "ws", "wss", "wyciwyg",
	}, scheme)
}

// IsRemote reports whether a redirect URI names a host of the Web: any other leads to
// a program on the user's device, and any program there could have made the request
// (RFC 8252 section 8.6).
func IsRemote(redirectURI string) bool { return strings.HasPrefix(redirectURI, "https:") }

// IsLoopback reports whether a redirect URI leads to this machine by http.
func IsLoopback(redirectURI string) bool {
	u, err := url.Parse(redirectURI)
	return err == nil && u.Scheme == "http" && isLoopback(u.Hostname())
}
