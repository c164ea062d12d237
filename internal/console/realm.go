package console

import (
	"net/url"
	"strings"
)

// realmLetters are those that names of realms have.
const realmLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// realm returns the name of the realm of which r asks: that of its address, or else the
// operator's; "" is the first one. The admin API decides who may see it.
func (r *request) realm() string {
	if name := r.PathValue("realm"); name != "" || r.who == nil {
		return name
	}
	return strings.TrimPrefix(r.who.Realm, "/")
}

// at returns the address of a page of the realm that the address of r names, with ids and
// other segments below it. An id may have a slash. An address of another site stays.
func (r *request) at(path string, segments ...string) string {
	if name := r.PathValue("realm"); name != "" && !strings.Contains(path, "://") {
		path = "/realms/" + name + path
	}
	for _, segment := range segments {
		path += "/" + url.PathEscape(segment)
	}
	return path
}

// named returns a path with the client or the user of r in the place of its pattern.
func (r *request) named(path string) string {
	return strings.NewReplacer("{client}", url.PathEscape(r.PathValue("client")), "{user}", url.PathEscape(r.PathValue("user"))).Replace(path)
}

// mintage returns a command about what the realm of r has.
func (r *request) mintage(verb string, args ...string) string {
	text := "mintage " + verb
	if name := r.realm(); name != "" {
		text += " --realm " + name
	}
	return strings.Join(append([]string{text}, args...), " ")
}

// admin reports whether the operator who sent r may make changes.
func (r *request) admin() bool { return r.who.Role == "admin" }

// all reports whether who looks may see all realms, and the deployment.
func (r *request) all() bool { return r.who.Realm == "" }
