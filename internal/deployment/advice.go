// Package deployment opens what a configuration names: the store, the keys and
// the audit log. Commands and the server share it.
package deployment

import (
	"errors"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/show"
)

// withAdvice adds advice to the error of a secret that everybody can read.
func withAdvice(err error) error {
	var exposed *config.Exposed
	if errors.As(err, &exposed) {
		return Hint(err, "run: chmod o= "+show.Quote(exposed.Path)+" (in Kubernetes: defaultMode: 0440)")
	}
	return err
}

// A UsageError is an error in the command line or the configuration.
type UsageError struct{ error }

// Usage returns err as an error of the command line.
func Usage(err error) error { return &UsageError{err} }

// Unwrap returns the wrapped error, which may have a hint.
func (u *UsageError) Unwrap() error { return u.error }

// Unreadable returns the usage error of a configuration that cannot be read.
func Unreadable(err error) error {
	if err == nil {
		return nil
	}
	return Usage(withAdvice(err))
}

// A Hinted error has advice for the operator.
type Hinted struct {
	error
	Hint string
}

// Unwrap returns the error without the hint.
func (h *Hinted) Unwrap() error { return h.error }

// Hint returns err with advice for the operator.
func Hint(err error, what string) error { return &Hinted{err, what} }
