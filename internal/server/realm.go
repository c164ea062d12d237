package server

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
)

// Realms returns the handler of the servers of all realms, the default one first. A
// request is for the realm at whose public address it arrives. At the address of the
// default realm, a path or the parameter realm names any realm with the same host, as in
// OpenAM: /oauth2/{realm}/, /oauth2/realms/root/realms/{realm}/ and /oauth2/?realm={realm}.
func Realms(servers []*Server) http.Handler {
	if len(servers) == 1 {
		return servers[0].Handler()
	}
	all := &sites{byHost: map[string]*site{}, byMetadata: map[string]*Server{}}
	for _, s := range servers {
		host := oauth.HostOf(s.PublicURL)
		if all.byHost[host] == nil {
			all.byHost[host] = &site{byBase: map[string]*Server{}, byName: map[string]*Server{}}
		}
		at := all.byHost[host]
		at.list = append(at.list, s)
		at.byBase[s.BasePath], at.byName[s.Realm] = s, s
		at.depth = max(at.depth, strings.Count(s.BasePath, "/"))
		for _, address := range metadataOf(s.Issuer) {
			all.byMetadata[address] = cmp.Or(all.byMetadata[address], s)
		}
	}
	all.main, all.first = servers[0], all.byHost[oauth.HostOf(servers[0].PublicURL)]
	return all
}

// sites are the public addresses of several realms.
type sites struct {
	byHost     map[string]*site
	byMetadata map[string]*Server // by host and path of the metadata of its issuer
	first      *site
	main       *Server // of the default realm
}

// A site is the realms at one host.
type site struct {
	list   []*Server
	byBase map[string]*Server
	byName map[string]*Server
	depth  int // the most parts of a base path
}

// ServeHTTP implements http.Handler.
func (all *sites) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := oauth.PlainHost(r.Host)
	if strings.Contains(r.URL.Path, "/.well-known/") {
		// Another server may have the path, too, for clients that do not know the issuer.
		if s := all.byMetadata[host+r.URL.Path]; s != nil {
			s.Handler().ServeHTTP(w, r)
			return
		}
	}
	at := all.byHost[host]
	if at == nil {
		at = all.first // a proxy has put another host into the request
	}
	s, r := at.choose(r, all.main)
	s.Handler().ServeHTTP(w, r)
}

// metadataOf returns host and path of each address at which clients look for the metadata of
// an issuer (RFC 8414 section 3.1, OpenID Connect Discovery section 4).
func metadataOf(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	host := oauth.PlainHost(u.Host)
	const server, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	return []string{host + server + u.Path, host + u.Path + server, host + openID + u.Path, host + u.Path + openID}
}

// choose returns the server of a request, and the request, rewritten to that server's
// base path if necessary. Main is the server of the default realm.
func (at *site) choose(r *http.Request, main *Server) (*Server, *http.Request) {
	s := at.ofPath(r.URL.Path)
	if strings.Contains(r.URL.Path, "/.well-known/") {
		if o := at.ofMetadata(s, r.URL.Path); o != s {
			return o, r
		}
	}
	below, ok := strings.CutPrefix(r.URL.Path, s.BasePath+"/oauth2/")
	if s != main || !ok {
		return s, r
	}
	query := r.URL.RawQuery
	if rest, behind := strings.CutPrefix(below, "verify/"); behind && rest != "" {
		query = "" // it belongs to the request that a proxy is verifying
	}
	other := s
	if name, _, deeper := strings.Cut(strings.TrimPrefix(below, "realms/root/realms/"), "/"); deeper && at.byName["/"+name] != nil {
		other = at.byName["/"+name]
	} else if named := at.byName[realmParameter(query)]; named != nil {
		other = named
	}
	if other == s {
		return s, r
	}
	// Replace the base path alone: the other server finds its realm in the rest and the query.
	next, u := *r, *r.URL
	u.Path = other.BasePath + strings.TrimPrefix(u.Path, s.BasePath)
	if u.RawPath != "" {
		u.RawPath = other.BasePath + strings.TrimPrefix(u.RawPath, s.BasePath)
	}
	next.URL = &u
	return other, &next
}

// ofMetadata returns the server whose metadata is at a path. The issuer determines the
// path, which need not be below the base path. It returns s if s or no server has
// metadata there.
func (at *site) ofMetadata(s *Server, path string) *Server {
	if _, own := s.patterns[path]; own {
		return s
	}
	for _, o := range at.list {
		if _, own := o.patterns[path]; own {
			return o
		}
	}
	return s
}

// ofPath returns the server whose base path is the longest prefix of a path.
func (at *site) ofPath(path string) *Server {
	best, end := at.byBase[""], 0
	for range at.depth {
		i := strings.IndexByte(path[min(end+1, len(path)):], '/')
		if i < 0 {
			if s := at.byBase[path]; s != nil {
				best = s
			}
			break
		}
		end += 1 + i
		if s := at.byBase[path[:end]]; s != nil {
			best = s
		}
	}
	if best == nil {
		return at.list[0]
	}
	return best
}

// realmParameter returns the realm that a query names, with a slash; "" if it names none
// or several.
func realmParameter(query string) string {
	if !strings.Contains(query, "realm=") {
		return ""
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values["realm"]) != 1 {
		return ""
	}
	return "/" + strings.TrimPrefix(values["realm"][0], "/")
}
