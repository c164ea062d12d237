package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// set sets a key from text, or from the file that text names, unless err is the
// fault of this source.
func (l *loader) set(k Key, s Source, text string, isFile bool, err error) {
	if err == nil && isFile {
		text, err = readValue(text)
	}
	l.setOf(&l.config, k.Name, k, s, text, err)
}

// setOf sets a key of a realm's settings, which has the name there, from text, unless
// err is the fault of this source.
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

// Reloaded returns c with the values of wanted for the settings that a reload
// applies. changed names those; kept names settings that differ but require a
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
