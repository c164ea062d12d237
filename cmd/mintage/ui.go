package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
)

// This file holds every form in which something is shown to an operator.
// Results go to standard output, as a table for people or as JSON; the rest
// goes to standard error, behind "mintage: ", in lower case, without a period.

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

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printTable aligns rows under a heading.
func printTable(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(heading, "|", "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// printFields aligns names and values; a pair without a value is left out.
func printFields(w io.Writer, fields [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", f[0], f[1])
		}
	}
	return t.Flush()
}

// instant is how people see an instant; "" for none.
func instant(i grant.Instant) string {
	if i == 0 {
		return ""
	}
	return i.Time().Format(time.RFC3339)
}

// orDash fills an empty cell.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// jsonInstant is an instant in JSON; null for none.
func jsonInstant(i grant.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}
