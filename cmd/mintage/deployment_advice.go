package main

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
		return hint(err, "run: chmod o= "+show.Quote(exposed.Path)+" (in Kubernetes: defaultMode: 0440)")
	}
	return err
}

// A usageError is a command line that cannot be understood.
type usageError struct{ error }

func usage(err error) error { return &usageError{err} }

// Unwrap keeps the hint of a usage error.
func (u *usageError) Unwrap() error { return u.error }

// unreadable is the error of a command whose configuration cannot be read.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return usage(withAdvice(err))
}

// A hinted error also says what to do.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

func hint(err error, what string) error { return &hinted{err, what} }
