package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/show"
)

// watchInterval is the time between two requests of client watch to the admin API.
const watchInterval = time.Second

func newClientWatch(s *settings) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Show what a client sends, and why it is refused, until its first refresh",
		Long: `Show what a client sends, and why it is refused, until it has got tokens and
refreshed them once: for the first try of a new client. Requests count from the
first look on. Each server sees its own requests.`,
		Example: "  mintage client watch shop",
		Args:    exactly(1, "one client id"),
	}
	cmd.Flags().BoolVar(&once, "once", false, "show what there is since the first look, and end")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) error {
		for shown := 0; ; {
			var v adminapi.Watch
			if _, err := a.Get(cmd.Context(), &v, nil, "clients", args[0], "watch"); err != nil {
				return err
			}
			if *asJSON && (once || v.Finished) {
				return show.JSON(cmd.OutOrStdout(), v)
			}
			for ; !*asJSON && shown < len(v.Requests); shown++ {
				printWatched(cmd, v.Requests[shown])
			}
			if once || v.Finished {
				return nil
			}
			if !directory.Pause(cmd.Context(), watchInterval) {
				return cmd.Context().Err()
			}
		}
	})
	return cmd
}

// printWatched prints a request for people.
func printWatched(cmd *cobra.Command, q adminapi.WatchedRequest) {
	word := "answered"
	if !q.Answered {
		word = "refused"
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s  %-8s  %s  %s\n", q.At.Format(time.TimeOnly), word, cmp.Or(q.GrantType, q.Endpoint), q.RequestID)
	if q.Why != "" {
		fmt.Fprintf(out, "%20s%s\n%20sdo: %s\n", "", show.Printable(q.Why), "", show.Printable(q.Next))
	}
}

func newClientUsage(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "usage ID",
		Short: "Show what users have allowed a client, and when it used that last",
		Long: `Show how many users have allowed a client something that is still active, all that
they have allowed, and when it used that last. At most 10,000 grants are counted.`,
		Example: "  mintage client usage https://agent.example/client.json",
		Args:    exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.Usage
		_, err := a.Get(cmd.Context(), &v, nil, "clients", args[0], "usage")
		more := ""
		if v.More {
			more = " or more"
		}
		return v, fields([][2]string{{"users", fmt.Sprint(v.Users) + more}, {"active grants", fmt.Sprint(v.Grants) + more}, {"scope", v.Scope}, {"last used", when(v.LastUsedAt)}}), err
	})
}
