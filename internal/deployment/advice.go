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

// A UsageError is a command line that cannot be understood.
type UsageError struct{ error }

func Usage(err error) error { return &UsageError{err} }

// Unwrap keeps the hint of a usage error.
func (u *UsageError) Unwrap() error { return u.error }

// Unreadable is the error of a command whose configuration cannot be read.
func Unreadable(err error) error {
	if err == nil {
		return nil
	}
	return Usage(withAdvice(err))
}

// A Hinted error also says what to do.
type Hinted struct {
	error
	Hint string
}

func (h *Hinted) Unwrap() error { return h.error }

func Hint(err error, what string) error { return &Hinted{err, what} }
