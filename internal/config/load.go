package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	// FileEnv is the variable that names the configuration file.
	FileEnv = "MINTAGE_CONFIG"
	// PackagedFile is the configuration file of the packages.
	PackagedFile = "/etc/mintage/mintage.yaml"
)

// Load reads the file, if one is named, then the environment, then the flags
// (by Key.Flag), and then systemd's credentials for settings that are not given.
// It also returns the source of each setting. It does not call Check. Its error
// joins all faults; the other settings are read even then.
func Load(file string, environ []string, flags map[string]string) (Config, Sources, error) {
	l := loader{config: Default(), keys: Keys(), from: Sources{}}
	var realms []realmSection
	if file != "" {
		realms, l.faults = readFile(&l.config, l.keys, l.from, file)
		var open *Exposed
		if u, err := postgresURL(l.config.Store); err == nil && hasPassword(u) {
			if _, err := ReadSecret(file); errors.As(err, &open) {
				l.faults = append(l.faults, &Fault{"store", l.from["store"], fmt.Errorf("it holds a password, and everybody on this machine can read or change the file (mode %04o): run chmod o= on it, or use store_password_file", open.Mode)})
			}
		}
	}
	l.readEnv(environ)
	for _, k := range l.keys {
		text, given := flags[k.Flag]
		if !given {
			continue
		}
		var err error
		if k.Name == "store" {
			err = refusePassword(text)
		}
		l.set(k, Source{Flag: k.Flag}, text, false, err)
	}
	l.readCredentials(environ)
	l.readRealms(file, realms, environ)
	if more := len(l.faults) - maxFaults; more > 0 {
		l.faults = append(l.faults[:maxFaults], &Fault{Source: Source{File: file, Line: 1}, Err: fmt.Errorf("%d more faults", more)})
	}
	return l.config, l.from, errors.Join(l.faults...)
}

// A loader collects settings and faults.
type loader struct {
	config Config
	keys   []Key
	from   Sources
	faults []error
}

// set sets a key from text, or from the file that text names. If err is not nil, set
// reports err as the fault of this source instead.
func (l *loader) set(k Key, s Source, text string, isFile bool, err error) {
	if err == nil && isFile {
		text, err = readValue(text)
	}
	l.setOf(&l.config, k.Name, k, s, text, err)
}

// setOf sets a key of c, the settings of a realm, from text. The whole name of the setting
// is name. If err is not nil, setOf reports err as the fault of this source instead.
func (l *loader) setOf(c *Config, name string, k Key, s Source, text string, err error) {
	l.from[name] = s
	if err == nil {
		err = k.set(c, text)
	}
	if err != nil {
		l.faults = append(l.faults, &Fault{name, s, err})
	}
}

// serviceLink matches the variables that Kubernetes adds to every pod beside a
// Service that is called mintage or mintage-something. The value distinguishes
// such a link from a mistake like MINTAGE_LISTEN_PORT=8443.
const serviceLink = `^MINTAGE_([A-Z0-9_]+_)?(` +
	`SERVICE_HOST=.*|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)$`

func (l *loader) readEnv(environ []string) {
	byEnv := map[string]Key{}
	for _, k := range l.keys {
		byEnv[k.Env] = k
		if k.EnvFile != "" {
			byEnv[k.EnvFile] = k
		}
	}
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "MINTAGE_") || name == FileEnv || strings.HasPrefix(name, realmsEnv) {
			continue
		}
		k, known := byEnv[name]
		if !known {
			if !regexp.MustCompile(serviceLink).MatchString(kv) {
				l.faults = append(l.faults, &Fault{Err: fmt.Errorf("environment: unknown setting %s%s", name, suggest(name, l.keys, func(k Key) string { return k.Env }))})
			}
			continue
		}
		var err error
		if other := l.from[k.Name].Env; other != "" && other != name {
			err = fmt.Errorf("%s is set as well: leave one of them out", other)
		}
		l.set(k, Source{Env: name}, text, name == k.EnvFile, err)
	}
}

// readCredentials reads the service's directory of systemd credentials
// (systemd.exec, LoadCredential) for settings that are not given otherwise.
func (l *loader) readCredentials(environ []string) {
	dir := ""
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, "CREDENTIALS_DIRECTORY="); ok {
			dir = value
		}
	}
	for _, k := range l.keys {
		if _, given := l.from[k.Name]; given || dir == "" || k.Credential == "" {
			continue
		}
		path := filepath.Join(dir, k.Credential)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			l.set(k, Source{Credential: k.Credential}, path, k.EnvFile != "", nil)
		}
	}
}

// Reloaded returns c with the values of wanted for the settings that a reload applies.
// changed names the settings that it has changed, and kept those that differ but require a
// restart.
func (c Config) Reloaded(wanted Config) (next Config, changed, kept []string) {
	next, changed, kept = c.reloaded(wanted)
	ofRealms, keptRealms := c.reloadRealms(&next, wanted)
	return next, append(changed, ofRealms...), append(kept, keptRealms...)
}

// reloaded is Reloaded for the settings of one realm.
func (c Config) reloaded(wanted Config) (next Config, changed, kept []string) {
	next = c
	for _, k := range Keys() {
		now, then := k.value(&next), k.value(&wanted)
		switch {
		case sameValue(now, then):
		case k.Reloads:
			now.Set(then)
			changed = append(changed, k.Name)
		default:
			kept = append(kept, k.Name)
		}
	}
	return next, changed, kept
}

// readRealms reads the settings of the further realms. Those of the deployment must be
// complete, because a realm inherits from them what it does not set.
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
		realms[i].resetUninherited(keys, l.from)
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

// resetUninherited resets settings that a realm must not inherit: the issuer; all of
// login.upstream, which includes the client secret, if the realm has an OpenID Connect
// provider of its own; the token for registration, if the realm has no registration.
func (c *Config) resetUninherited(keys []Key, from Sources) {
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

// reloadRealms sets next.Realms to the realms that run, with their reloadable settings
// from wanted. The deployment's own settings in next must be complete.
func (c Config) reloadRealms(next *Config, wanted Config) (changed, kept []string) {
	next.Realms = nil
	for _, r := range c.Realms {
		then, there := wanted.Of(r.Realm)
		if !there {
			kept = append(kept, strings.TrimSuffix(r.inRealm(""), "."))
			then = r
		}
		after, own, same := r.reloaded(then)
		// A setting that a realm inherits is reported once, for the deployment.
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
