package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

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

// RealmOfRecords returns the realm that records of the default one name, or "" where
// there is no other from which to tell it apart.
func (c Config) RealmOfRecords() string {
	if len(c.Realms) == 0 {
		return ""
	}
	return c.Realm
}

// LongestRefresh returns the longest lifetime that a realm gives refresh tokens.
func (c Config) LongestRefresh() (longest time.Duration) {
	for _, r := range c.Each() {
		longest = max(longest, r.RefreshTokenLifetime.Std())
	}
	return longest
}

// Named returns err with the faults of a further realm's settings under their whole
// names.
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

// realmName is what a realm may be called: the name is a part of paths, cookies and keys.
var realmName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`) })

// ReservedRealms are the first parts of paths, at the base path or below /oauth2/, that
// have another behind them: a realm of that name could not be told from the endpoint.
var ReservedRealms = []string{"account", "connect", "demo", "jwks", "oauth2", "realms", "token", "verify"}

const (
	// realmsKey is the section of the file with the further realms.
	realmsKey = "realms"
	// realmsEnv begins the variables of their settings: MINTAGE_REALMS_STAFF_BASE_PATH.
	realmsEnv = "MINTAGE_REALMS_"
	// maxRealms is more than one server is for.
	maxRealms = 1000
)

// RealmsDoc is the meaning of the section realms.
const RealmsDoc = "further realms by their names, each with settings of its own: users, clients, APIs and an issuer that no other realm knows; what a realm does not set is as outside of realms"

// inRealm returns the name of a setting of a realm.
func (c *Config) inRealm(key string) string {
	return realmsKey + "." + strings.TrimPrefix(c.Realm, "/") + "." + key
}

// readRealms reads the settings of the further realms when those of the deployment are
// complete: what a realm does not set is as there.
func (l *loader) readRealms(file string, sections []realmSection, environ []string) {
	if more := len(sections) - maxRealms; more > 0 {
		l.faults = append(l.faults, &Fault{realmsKey, Source{File: file, Line: sections[maxRealms].line}, fmt.Errorf("there are %d realms too many: at most %d", more, maxRealms)})
		sections = sections[:maxRealms]
	}
	keys := slices.DeleteFunc(Keys(), func(k Key) bool { return !k.OfRealm })
	realms := make([]Config, len(sections))
	for i, section := range sections {
		of := &realms[i]
		*of = l.config
		of.Realm = "/" + section.name
		r := fileReader{file: file, all: keys, into: of, within: of.inRealm(""), from: l.from, begun: map[string]int{}}
		l.from[strings.TrimSuffix(r.within, ".")] = Source{File: file, Line: section.line}
		if section.node.Kind == yaml.MappingNode {
			r.walk(section.node, "")
		}
		l.faults = append(l.faults, r.faults...)
	}
	l.readRealmsEnv(realms, keys, environ)
	for i := range realms {
		realms[i].inheritLess(keys, l.from)
	}
	if len(realms) > 0 {
		l.config.Realms = realms
	}
}

// readRealmsEnv reads the variables of realms that the file has. Those of the realm
// staff-eu begin with MINTAGE_REALMS_STAFF_EU_.
func (l *loader) readRealmsEnv(realms []Config, keys []Key, environ []string) {
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, realmsEnv)
		if !ok {
			continue
		}
		var of *Config
		var key Key
		found := 0
		for i := range realms {
			setting, ok := strings.CutPrefix(rest, strings.ToUpper(strings.ReplaceAll(realms[i].Realm[1:], "-", "_"))+"_")
			if k := slices.IndexFunc(keys, func(k Key) bool { return ok && k.Env == "MINTAGE_"+setting }); k >= 0 {
				of, key, found = &realms[i], keys[k], found+1
			}
		}
		if found != 1 {
			what := "is no setting of a realm that the file has"
			if found > 1 {
				what = "could be a setting of more than one realm: write it in the file"
			}
			l.faults = append(l.faults, &Fault{Source: Source{Env: name}, Err: errors.New(what)})
			continue
		}
		l.setOf(of, of.inRealm(key.Name), key, Source{Env: name}, text, nil)
	}
}

// inheritLess resets what a realm does not set and must not have from outside of realms:
// the issuer; what is for the deployment's OpenID Connect provider, its secret too, if the
// realm has a provider of its own; a token for registration, if the realm has none.
func (c *Config) inheritLess(keys []Key, from Sources) {
	def := Default()
	given := func(name string) bool { _, ok := from[c.inRealm(name)]; return ok }
	const provider = "login.upstream."
	for _, k := range keys {
		switch {
		case given(k.Name):
		case k.Name == "issuer", strings.HasPrefix(k.Name, provider) && given(provider+"issuer"),
			k.Name == "client_metadata.registration_token_file" && !c.ClientMetadata.Registration:
			k.value(c).Set(k.value(&def))
		}
	}
}

// Share sets what a realm does not have of its own to the deployment's value, where that
// was changed after Load.
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

// checkRealms checks the further realms. What is wrong with all of the deployment is
// among the faults, and is not reported again.
func (c *Config) checkRealms(faults []error) (list []error) {
	keys := Keys()
	ofRealm := func(name string) bool {
		return slices.ContainsFunc(keys, func(k Key) bool { return k.OfRealm && (k.Name == name || strings.HasPrefix(k.Name, name+".")) })
	}
	known := func(f *Fault) bool {
		return slices.ContainsFunc(faults, func(other error) bool { return other.Error() == f.Error() })
	}
	issuers, earlier := map[string]string{c.IssuerID(): c.Realm}, []*Config{c}
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
			var f *Fault
			if errors.As(err, &f) && ofRealm(f.Name) && !known(f) {
				fault(f.Name, "%w", f.Err)
			}
		}
		if other, taken := issuers[r.IssuerID()]; taken {
			fault("issuer", "%q is that of the realm %s too", r.IssuerID(), other[1:])
		}
		issuers[r.IssuerID()] = r.Realm
		for _, o := range earlier {
			switch {
			case oauth.HostOf(r.PublicURL) != oauth.HostOf(o.PublicURL):
			case r.BasePath == o.BasePath:
				fault("base_path", "%q is that of the realm %s too, at the same public_url: give the realm one of its own, such as /%s, or a public_url", r.BasePath, o.Realm[1:], r.Realm[1:])
			case within(r, o) || within(o, r):
				fault("base_path", "%q and that of the realm %s, %q, are in each other's way", r.BasePath, o.Realm[1:], o.BasePath)
			}
		}
		earlier = append(earlier, r)
	}
	return list
}

// within reports whether a's base path is among the paths of b.
func within(a, b *Config) bool {
	for _, part := range []string{"/oauth2/", "/account/", "/device/", "/demo/", "/.well-known/", "/openapi.json/"} {
		if strings.HasPrefix(a.BasePath+"/", b.BasePath+part) {
			return true
		}
	}
	return false
}

// reloadRealms sets the realms of next, which the deployment's settings are: those that
// run, with the reloadable settings of wanted.
func (c Config) reloadRealms(next *Config, wanted Config) (changed, kept []string) {
	next.Realms = nil
	for _, r := range c.Realms {
		then, there := wanted.Of(r.Realm)
		if !there {
			kept = append(kept, strings.TrimSuffix(r.inRealm(""), "."))
			then = r
		}
		after, own, same := r.reloaded(then)
		// What a realm has from outside of realms is reported once.
		for _, name := range own {
			if k := keyNamed(name); k.OfRealm && !sameValue(k.value(next), k.value(&after)) {
				changed = append(changed, r.inRealm(name))
			}
		}
		for _, name := range same {
			if k := keyNamed(name); k.OfRealm && !sameValue(k.value(&wanted), k.value(&then)) {
				kept = append(kept, r.inRealm(name))
			}
		}
		next.Realms = append(next.Realms, after)
	}
	for _, w := range wanted.Realms {
		if _, there := c.Of(w.Realm); !there {
			kept = append(kept, strings.TrimSuffix(w.inRealm(""), "."))
		}
	}
	return changed, kept
}

func keyNamed(name string) Key {
	keys := Keys()
	return keys[slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })]
}

// sameValue reports whether two values of a setting mean the same.
func sameValue(a, b reflect.Value) bool {
	return reflect.DeepEqual(a.Interface(), b.Interface()) || a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0
}
