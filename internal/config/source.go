package config

import (
	"errors"
	"fmt"
	"strings"
)

// A Source is where the value of a setting comes from. The zero Source is the
// default.
type Source struct {
	File       string // with Line
	Line       int
	Env        string // MINTAGE_TLS_CERT
	Flag       string // tls-cert
	Credential string // kek
}

func (s Source) String() string {
	switch {
	case s.File != "":
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	case s.Env != "":
		return s.Env
	case s.Flag != "":
		return "--" + s.Flag
	case s.Credential != "":
		return "systemd credential " + s.Credential
	}
	return "default"
}

// Sources holds the source of each setting by its name. A setting without a source has its
// default.
type Sources map[string]Source

// A Fault is what is wrong with one setting or with the settings of a section.
type Fault struct {
	Name   string // "" for an unknown setting
	Source Source
	Err    error
}

func (f *Fault) Error() string {
	switch s := f.Source; {
	case s.Env != "":
		return fmt.Sprintf("environment: %s: %v", s.Env, f.Err)
	case s.Flag != "":
		return fmt.Sprintf("--%s: %v", s.Flag, f.Err)
	case s == Source{} && f.Name == "":
		return f.Err.Error()
	case s == Source{}:
		return fmt.Sprintf("%s: %v", f.Name, f.Err)
	case f.Name == "":
		return fmt.Sprintf("%s: %v", s, f.Err)
	}
	return fmt.Sprintf("%s: %s: %v", f.Source, f.Name, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

// Explain returns err with the source of each Fault in it whose setting comes from
// a file, a variable or a credential. A flag is visible on the command line.
func (from Sources) Explain(err error) error {
	var faults []error
	for _, e := range apart(err) {
		if f, ok := e.(*Fault); ok && f.Source == (Source{}) {
			s, err := from.of(f.Name), f.Err
			if s.Env != "" {
				err = fmt.Errorf("%s: %w", f.Name, err)
			}
			if s.Flag == "" {
				e = &Fault{f.Name, s, err}
			}
		}
		faults = append(faults, e)
	}
	return errors.Join(faults...)
}

// of returns the source of a setting. The source of a section is that of its first
// setting that is given.
func (from Sources) of(name string) Source {
	if s, given := from[name]; given {
		return s
	}
	realm, setting := "", name
	if parts := strings.SplitN(name, ".", 3); parts[0] == realmsKey {
		realm, setting = strings.Join(parts[:min(2, len(parts))], ".")+".", strings.Join(parts[min(2, len(parts)):], "")
	}
	for _, k := range Keys() {
		if s, given := from[realm+k.Name]; given && strings.HasPrefix(k.Name, setting+".") {
			return s
		}
	}
	return from[strings.TrimSuffix(realm, ".")] // the file has the realm, but not the setting
}

// apart returns the errors that err joins.
func apart(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, apart(e)...)
	}
	return list
}

// Faults returns the faults that an error of Load or Check joins. all is false if there are
// other errors, such as a file that cannot be read.
func Faults(err error) (faults []*Fault, all bool) {
	all = true
	for _, e := range apart(err) {
		if f, ok := e.(*Fault); ok {
			faults = append(faults, f)
		} else {
			all = false
		}
	}
	return faults, all
}

// A report adds the fault of a setting to those of the configuration.
type report func(key, format string, args ...any)
