package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/mintage/mintage/internal/show"
)

// Of what is recorded, the last so many events are shown.
const (
	shownEvents = 100
	readEvents  = 10000
)

// printEvents prints a table below another one, if there is anything in it.
func printEvents(w io.Writer, list []show.Event) error {
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
