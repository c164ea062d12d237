// Package show formats output for operators: tables and lists for people, JSON for
// programs, and instants, durations, sizes and counts in words. Every command uses
// it.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// JSON writes a value, indented, and with URLs as they are.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Table aligns rows under a heading, whose names are separated by "|".
func Table(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(heading, "|", "\t"))
	for _, r := range rows {
		for i, cell := range r {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, Printable(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// Fields aligns names and values; a pair without a value is left out.
func Fields(w io.Writer, fields [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", f[0], Printable(f[1]))
		}
	}
	return t.Flush()
}
