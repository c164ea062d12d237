package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// realmName is what a realm can be called.
var realmName = regexp.MustCompile(`^[a-z0-9-]+$`)

// realmKey is the key of the realm that an address names.
type realmKey struct{}

// ofRealm returns the request of a page below /realms/NAME/ as one of the page itself,
// with the realm. So each page is there for each realm. The admin API decides who may see
// it.
func ofRealm(r *http.Request) *http.Request {
	rest, named := strings.CutPrefix(r.URL.EscapedPath(), "/realms/")
	name, below, deeper := strings.Cut(rest, "/")
	path, err := url.PathUnescape(below)
	if !named || !deeper || err != nil || !realmName.MatchString(name) {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = "/"+path, "/"+below
	next := r.WithContext(context.WithValue(r.Context(), realmKey{}, name))
	next.URL = &u
	return next
}

// realm returns the name of the realm of which r asks: that of its address, or else the
// operator's; "" is the first one.
func (r *request) realm() string {
	if name, ok := r.Context().Value(realmKey{}).(string); ok {
		return name
	}
	if r.who == nil {
		return ""
	}
	return strings.TrimPrefix(r.who.Realm, "/")
}

// at returns the address of a page of the realm that the address of r names. One of
// another site stays.
func (r *request) at(path string) string {
	if name, ok := r.Context().Value(realmKey{}).(string); ok && !strings.Contains(path, "://") {
		return "/realms/" + name + path
	}
	return path
}

var (
	// links are the beginnings of addresses of pages, which templates write without a realm.
	// What others have given never has a quotation mark that is not escaped.
	links = regexp.MustCompile(` (?:href|action)="/[a-z]*`)
	// commands are those with the flag --realm.
	commands = regexp.MustCompile(`<code lang="en">mintage (?:(?:client|api|user|grant|session)(?: secret)? [a-z]+|explain|audit show)`)
)

// within returns a page, or a part of one, with the realm of r in its links and commands.
func (r *request) within(page []byte) []byte {
	if base := r.at(""); base != "" {
		page = links.ReplaceAllFunc(page, func(link []byte) []byte {
			attribute, path, _ := strings.Cut(string(link), `"`)
			if path == "/realms" || path == "/assets" {
				return link
			}
			return []byte(attribute + `"` + base + path)
		})
	}
	if name := r.realm(); name != "" {
		page = commands.ReplaceAll(page, []byte("$0 --realm "+name))
	}
	return page
}
