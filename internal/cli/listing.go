package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/show"
)

// A listing holds the flags of a sorted list.
type listing struct{ admin.Page }

func (l *listing) register(cmd *cobra.Command, what, key string, states []string) {
	cmd.PreRunE = func(*cobra.Command, []string) error { return l.Check(states...) }
	f := cmd.Flags()
	f.StringVar(&l.Match, "match", "", "only those whose "+what+" contains this text, ignoring case")
	f.StringVar(&l.State, "state", "", "only those that are "+strings.Join(states, " or "))
	registerPaging(cmd, &l.Limit, &l.After, key)
}

// registerPaging registers the flags of every list that may be long.
func registerPaging(cmd *cobra.Command, limit *int, after *string, key string) {
	cmd.Flags().IntVar(limit, "limit", 100, "maximum number")
	cmd.Flags().StringVar(after, "after", "", "continue after this "+key+", the last of the previous page")
}

func (l *listing) noteMore(w io.Writer, last string) { noteMore(w, l.Limit, "--match, --state", last) }

// noteMore reports that a list was cut at its limit.
func noteMore(w io.Writer, limit int, filters, last string) {
	fmt.Fprintf(w, "mintage: only the first %d are shown; use %s or --limit\n", limit, filters)
	fmt.Fprintf(w, "         the next page: --after %s\n", last)
}

// events is a table below another one, if there is anything in it.
func events(list []show.Event) text {
	return func(w io.Writer) error {
		if len(list) == 0 {
			return nil
		}
		var rows [][]string
		for _, e := range list {
			rows = append(rows, []string{e.At.Format(time.RFC3339), e.Name, e.Actor, e.Detail})
		}
		fmt.Fprintln(w)
		return show.Table(w, "AT|EVENT|ACTOR|DETAIL", rows)
	}
}
