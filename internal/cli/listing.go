package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/deployment"
)

// A listing says which of a sorted list are shown, and how many at once.
type listing struct {
	match, state, after string
	limit               int
	states              []string // that there are
}

func (l *listing) register(cmd *cobra.Command, what, key string, states ...string) {
	l.states = states
	f := cmd.Flags()
	f.StringVar(&l.match, "match", "", "only those whose "+what+" contains this text, in capitals or small letters")
	f.StringVar(&l.state, "state", "", "only those that are "+strings.Join(states, " or "))
	registerPaging(cmd, &l.limit, &l.after, key)
}

// registerPaging registers the flags of every list that may be long.
func registerPaging(cmd *cobra.Command, limit *int, after *string, key string) {
	cmd.Flags().IntVar(limit, "limit", 100, "at most so many")
	cmd.Flags().StringVar(after, "after", "", "go on behind this "+key+", the last of the page before")
}

func checkLimit(limit int) error {
	if limit < 1 || limit > maxLimit {
		return deployment.Usage(fmt.Errorf("--limit: %d is outside 1 to %d", limit, maxLimit))
	}
	return nil
}

func (l *listing) check() error {
	if l.state != "" && !slices.Contains(l.states, l.state) {
		return deployment.Usage(fmt.Errorf("--state: %q is none of %s", l.state, strings.Join(l.states, ", ")))
	}
	return checkLimit(l.limit)
}

// matches reports whether one of the texts contains what is looked for.
func (l *listing) matches(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(l.match))
	})
}

// nextPage picks from a sorted list what is shown, and says on w how to go on. The
// item with the key --after need not be selected, but must be in the list.
func nextPage[T any](l *listing, w io.Writer, all []T, key func(T) string, selected func(T) bool) ([]T, error) {
	if l.after != "" {
		i := slices.IndexFunc(all, func(item T) bool { return key(item) == l.after })
		if i < 0 {
			return nil, deployment.Usage(deployment.Hint(fmt.Errorf("--after: %q is not in the list", l.after), "begin again without --after"))
		}
		all = all[i+1:]
	}
	var shown []T
	for _, item := range all {
		switch {
		case !selected(item):
		case len(shown) == l.limit:
			tellMore(w, l.limit, "--match, --state", key(shown[l.limit-1]))
			return shown, nil
		default:
			shown = append(shown, item)
		}
	}
	return shown, nil
}

// tellMore says that there is more than what is shown.
func tellMore(w io.Writer, limit int, filters, last string) {
	fmt.Fprintf(w, "mintage: only the first %d are shown; use %s or --limit\n", limit, filters)
	fmt.Fprintf(w, "         the next page: --after %s\n", last)
}
