package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/mintage/mintage/internal/show"
)

// Print writes a finding for people.
func (f Finding) Print(w io.Writer) {
	fmt.Fprintf(w, "%-8s %s: %s\n", f.Level, f.Check, show.Printable(f.Text))
	if f.Advice != "" {
		fmt.Fprintf(w, "%-8s do: %s\n", "", f.Advice)
	}
}

// Exit statuses, besides 0 and that of a usage error.
const (
	exitFault   = 1
	exitWarning = 3
)

// A Report is all that was found, for programs.
type Report struct {
	Verdict  string    `json:"verdict"` // the level of the worst finding
	Exit     int       `json:"exit"`    // the command's exit status
	OK       int       `json:"ok"`
	Notes    int       `json:"notes"`
	Unknown  int       `json:"unknown"`
	Warnings int       `json:"warnings"`
	Faults   int       `json:"faults"`
	Findings []Finding `json:"findings"`
}

// Conclude sums findings up.
func Conclude(list []Finding) Report {
	count := map[string]int{}
	for _, f := range list {
		count[f.Level]++
	}
	r := Report{
		Verdict: levelOK, OK: count[levelOK], Notes: count[levelNote], Unknown: count[levelUnknown],
		Warnings: count[levelWarning], Faults: count[levelFault], Findings: list,
	}
	switch {
	case r.Faults > 0:
		r.Exit, r.Verdict = exitFault, levelFault
	case r.Warnings > 0:
		r.Exit, r.Verdict = exitWarning, levelWarning
	case r.Unknown > 0:
		r.Exit, r.Verdict = exitWarning, levelUnknown
	}
	return r
}

// Complaint summarises what is wrong: "1 fault, 2 warnings"; empty if nothing is.
func (r Report) Complaint() string {
	var parts []string
	add := func(n int, one, more string) {
		if n > 0 {
			parts = append(parts, show.Count(n, one, more))
		}
	}
	add(r.Faults, "fault", "faults")
	add(r.Warnings, "warning", "warnings")
	add(r.Unknown, "check could not be made", "checks could not be made")
	return strings.Join(parts, ", ")
}
