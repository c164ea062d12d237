// Package deployment opens what a configuration names: the store, the keys and
// the audit log. Commands and the server share it.
package deployment

import (
	"errors"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/show"
)

// withAdvice adds what to do about a secret that everybody can read, if that is
// what err is about.
func withAdvice(err error) error {
	var exposed *config.Exposed
	if errors.As(err, &exposed) {
		return Hint(err, "run: chmod o= "+show.Quote(exposed.Path)+" (in Kubernetes: defaultMode: 0440)")
	}
	return err
}

// A UsageError is an error of the command line or of the configuration.
type UsageError struct{ error }

// Usage returns err as an error of the command line.
func Usage(err error) error { return &UsageError{err} }

// Unwrap returns the error itself, which may have a hint.
func (u *UsageError) Unwrap() error { return u.error }

// Unreadable returns the usage error of a configuration that cannot be read.
func Unreadable(err error) error {
	if err == nil {
		return nil
	}
	return Usage(withAdvice(err))
}

// A Hinted error also says what the operator can do.
type Hinted struct {
	error
	Hint string
}

// Unwrap returns the error without the hint.
func (h *Hinted) Unwrap() error { return h.error }

// Hint returns err with what the operator can do.
func Hint(err error, what string) error { return &Hinted{err, what} }
