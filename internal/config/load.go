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
// (by Key.Flag), and for what is then not given the credentials of systemd. It
// also returns where each setting comes from. It does not Check. Its error
// tells all faults at once; what is not at fault has been read even then.
func Load(file string, environ []string, flags map[string]string) (Config, Sources, error) {
	c, from := Default(), Sources{}
	all := Keys()
	var faults []error
	if file != "" {
		faults = append(faults, readFile(&c, all, from, file))
	}
	faults = append(faults, readEnv(&c, all, from, environ))
	for _, k := range all {
		text, given := flags[k.Flag]
		if !given {
			continue
		}
		from[k.Name] = Source{Flag: k.Flag}
		err := k.set(&c, text)
		if err == nil && k.Name == "store" {
			err = refusePassword(text)
		}
		if err != nil {
			faults = append(faults, &Fault{k.Name, from[k.Name], err})
		}
	}
	faults = append(faults, readCredentials(&c, all, from, environ))
	return c, from, errors.Join(faults...)
}

// serviceLink matches what Kubernetes puts into the environment of every pod
// beside a Service that is called mintage, or mintage-something. The value
// tells such a link from a mistake like MINTAGE_LISTEN_PORT=8443.
var serviceLink = regexp.MustCompile(`^MINTAGE_([A-Z0-9_]+_)?(` +
	`SERVICE_HOST=.*|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)$`)

func readEnv(c *Config, all []Key, from Sources, environ []string) error {
	byEnv := map[string]Key{}
	for _, k := range all {
		byEnv[k.Env] = k
		if k.EnvFile != "" {
			byEnv[k.EnvFile] = k
		}
	}
	var faults []error
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "MINTAGE_") || name == FileEnv {
			continue
		}
		k, known := byEnv[name]
		if !known && serviceLink.MatchString(kv) {
			continue
		}
		if !known {
			faults = append(faults, &Fault{Err: fmt.Errorf("environment: unknown setting %s%s", name, suggest(name, all, func(k Key) string { return k.Env }))})
			continue
		}
		other := from[k.Name].Env
		from[k.Name] = Source{Env: name}
		err := error(nil)
		if other != "" && other != name {
			err = fmt.Errorf("%s is set as well: leave one of them out", other)
		} else if name == k.EnvFile {
			text, err = readValue(text)
		}
		if err == nil {
			err = k.set(c, text)
		}
		if err != nil {
			faults = append(faults, &Fault{k.Name, from[k.Name], err})
		}
	}
	return errors.Join(faults...)
}

// readCredentials takes what systemd has put into the directory of the service
// (systemd.exec, LoadCredential) for settings that are not given otherwise.
func readCredentials(c *Config, all []Key, from Sources, environ []string) error {
	dir := ""
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, "CREDENTIALS_DIRECTORY="); ok {
			dir = value
		}
	}
	var faults []error
	for _, k := range all {
		if _, given := from[k.Name]; given || dir == "" || k.Credential == "" {
			continue
		}
		text := filepath.Join(dir, k.Credential)
		if _, err := os.Stat(text); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		from[k.Name] = Source{Credential: k.Credential}
		err := error(nil)
		if k.EnvFile != "" {
			text, err = readValue(text)
		}
		if err == nil {
			err = k.set(c, text)
		}
		if err != nil {
			faults = append(faults, &Fault{k.Name, from[k.Name], err})
		}
	}
	return errors.Join(faults...)
}
