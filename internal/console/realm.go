package console

import (
	"net/url"
	"strings"
)

// realmLetters are the characters that names of realms may have.
const realmLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// realm returns the name of the realm in the path of r, or else that of the operator; ""
// is the first one. The admin API decides who may see it.
func (r *request) realm() string {
	if name := r.PathValue("realm"); name != "" || r.who == nil {
		return name
	}
	return strings.TrimPrefix(r.who.Realm, "/")
}

// at returns the address of a page in the realm of r's path, followed by escaped segments:
// an id may have a slash. A path with a scheme leads to another site, and gets no realm.
func (r *request) at(path string, segments ...string) string {
	if name := r.PathValue("realm"); name != "" && !strings.Contains(path, "://") {
		path = "/realms/" + name + path
	}
	for _, segment := range segments {
		path += "/" + url.PathEscape(segment)
	}
	return path
}

// named replaces {client} and {user} in a path by the values in the path of r.
func (r *request) named(path string) string {
	return strings.NewReplacer("{client}", url.PathEscape(r.PathValue("client")), "{user}", url.PathEscape(r.PathValue("user"))).Replace(path)
}

// mintage returns a command for the realm of r.
func (r *request) mintage(verb string, args ...string) string {
	text := "mintage " + verb
	if name := r.realm(); name != "" {
		text += " --realm " + name
	}
	return strings.Join(append([]string{text}, args...), " ")
}

// admin reports whether the operator who sent r may make changes.
func (r *request) admin() bool { return r.who.Role == "admin" }

// all reports whether the operator may see all realms, and the deployment.
func (r *request) all() bool { return r.who.Realm == "" }
