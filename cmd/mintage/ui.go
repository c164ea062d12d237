package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mintage/mintage/internal/issuer"
)

// Results go to standard output, as a table for people or as JSON (internal/show);
// the rest goes to standard error, behind "mintage: ", in lower case, without a
// period.

// A hinted error also says what to do.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

func hint(err error, what string) error { return &hinted{err, what} }

func printError(w io.Writer, err error) {
	var invalid *issuer.Invalid
	if errors.As(err, &invalid) {
		err = fmt.Errorf("--%s: %s", strings.ReplaceAll(invalid.Field, "_", "-"), invalid.Message)
	}
	fmt.Fprintf(w, "mintage: %v\n", err)
	var h *hinted
	if errors.As(err, &h) {
		fmt.Fprintf(w, "         %s\n", h.hint)
	}
}
