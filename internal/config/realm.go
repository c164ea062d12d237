package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// Each returns the settings of each realm, the default one first.
func (c Config) Each() []Config {
	return append([]Config{c}, c.Realms...)
}

// RealmNames returns the realms, the default one first.
func (c Config) RealmNames() (list []string) {
	for _, of := range c.Each() {
		list = append(list, of.Realm)
	}
	return list
}

// Of returns the settings of a realm, by its name with a slash or without.
func (c Config) Of(realm string) (Config, bool) {
	for _, r := range c.Each() {
		if r.Realm == "/"+strings.TrimPrefix(realm, "/") {
			return r, true
		}
	}
	return Config{}, false
}

// LongestRefresh returns the longest lifetime that a realm gives refresh tokens.
func (c Config) LongestRefresh() (longest time.Duration) {
	for _, r := range c.Each() {
		longest = max(longest, r.RefreshTokenLifetime.Std())
	}
	return longest
}

// Named returns err with each Fault under the whole name of its setting, which begins with
// realms.NAME if c is a further realm.
func (c Config) Named(err error) error {
	if c.Realm == oauth.DefaultRealm {
		return err
	}
	var list []error
	for _, e := range apart(err) {
		if f, ok := e.(*Fault); ok {
			e = &Fault{c.inRealm(f.Name), f.Source, f.Err}
		}
		list = append(list, e)
	}
	return errors.Join(list...)
}

// realmName matches names of realms, which are parts of paths, cookies and keys.
var realmName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`) })

// ReservedRealms are names that no realm may have, because paths would be ambiguous: they
// are segments of paths, at the base path or below /oauth2/, with further segments.
var ReservedRealms = []string{"account", "connect", "demo", "jwks", "oauth2", "realms", "token", "verify"}

// inRealm returns the name of a setting of a realm.
func (c *Config) inRealm(key string) string {
	return realmsKey + "." + strings.TrimPrefix(c.Realm, "/") + "." + key
}

// Share copies to the realms the settings that no realm has of its own, and public_url to
// realms without one. Call it if these settings were changed after Load.
func (c *Config) Share() {
	for i := range c.Realms {
		r := &c.Realms[i]
		for _, k := range Keys() {
			if !k.OfRealm {
				k.value(r).Set(k.value(c))
			}
		}
		r.PublicURL = cmp.Or(r.PublicURL, c.PublicURL)
	}
}

// checkRealms checks the further realms. It does not report again what faults, those of the
// deployment, already contain.
func (c *Config) checkRealms(faults []error) (list []error) {
	keys := Keys()
	ofRealm := func(name string) bool {
		return slices.ContainsFunc(keys, func(k Key) bool { return k.OfRealm && (k.Name == name || strings.HasPrefix(k.Name, name+".")) })
	}
	known := func(f *Fault) bool {
		return slices.ContainsFunc(faults, func(other error) bool { return other.Error() == f.Error() })
	}
	issuers, earlier := map[string]string{plainIssuer(c): c.Realm}, []*Config{c}
	for i := range c.Realms {
		r := &c.Realms[i]
		fault := func(key, format string, args ...any) {
			list = append(list, &Fault{Name: strings.TrimSuffix(r.inRealm(key), "."), Err: fmt.Errorf(format, args...)})
		}
		if r.Realm == c.Realm {
			fault("", "that is the realm of the settings outside of realms")
			continue
		}
		if name := r.Realm[1:]; !realmName().MatchString(name) || slices.Contains(ReservedRealms, name) {
			fault("", "%s cannot be the name of a realm: use up to 40 lower-case letters, digits and dashes, and none of %s", quoted(name), strings.Join(ReservedRealms, ", "))
			continue
		}
		for _, err := range r.check() {
			if f, ok := errors.AsType[*Fault](err); ok && ofRealm(f.Name) && !known(f) {
				fault(f.Name, "%w", f.Err)
			}
		}
		if other, taken := issuers[plainIssuer(r)]; taken {
			fault("issuer", "%q is that of the realm %s too", r.IssuerID(), other[1:])
		}
		issuers[plainIssuer(r)] = r.Realm
		for _, o := range earlier {
			switch {
			case oauth.HostOf(r.PublicURL) != oauth.HostOf(o.PublicURL):
			case r.BasePath == o.BasePath:
				fault("base_path", "%q is that of the realm %s too, at the same public_url: give the realm one of its own, such as /%s, or a public_url", r.BasePath, o.Realm[1:], r.Realm[1:])
			case within(r, o) || within(o, r):
				fault("base_path", "%q overlaps with the base_path of the realm %s, %q", r.BasePath, o.Realm[1:], o.BasePath)
			}
		}
		earlier = append(earlier, r)
	}
	return list
}

// plainIssuer returns the issuer with its host as requests are routed by it: the metadata
// of two issuers that differ only in the spelling of the host have one address.
func plainIssuer(c *Config) string {
	_, address, _ := strings.Cut(c.IssuerID(), "://") // the scheme may be HTTPS
	host, path, _ := strings.Cut(address, "/")
	return oauth.PlainHost(host) + "/" + path
}

// unusedLogins returns a fault for each realm that sets login.upstream or login.handoff_url
// but has another login.mode, by which its users would log in instead. Outside of realms,
// the settings may be for a realm that has their mode.
func unusedLogins(c *Config) (faults []error) {
	def := Default()
	for _, mode := range []string{LoginHandoff, LoginUpstream} {
		usedBy := func(r Config) bool { return r.Login.Mode == mode }
		for i, r := range c.Each() {
			first := slices.IndexFunc(keys(), func(k Key) bool {
				v := k.value(&r)
				return strings.HasPrefix(k.Name, "login."+mode) && !sameValue(v, k.value(&def)) && (i == 0 || !sameValue(v, k.value(c)))
			})
			if first >= 0 && !usedBy(r) && (i > 0 || !slices.ContainsFunc(c.Realms, usedBy)) {
				f := &Fault{Name: keys()[first].Name, Err: fmt.Errorf("is given, and login.mode is %s: set login.mode to %s, or leave this out", r.Login.Mode, mode)}
				faults = append(faults, r.Named(f))
			}
		}
	}
	return faults
}

// within reports whether a's base path is among the paths of b.
func within(a, b *Config) bool {
	paths := []string{"/oauth2/", "/account/", "/device/", "/demo/", "/.well-known/", "/openapi.json/"}
	return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(a.BasePath+"/", b.BasePath+path) })
}
