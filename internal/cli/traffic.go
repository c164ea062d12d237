package cli

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
)

func newTraffic(s *settings) *cobra.Command {
	period := "day"
	cmd := s.shows(&cobra.Command{
		Use:   "traffic",
		Short: "Show what all nodes have answered in the last hour, day or week",
		Long: `Show what all nodes have answered in the last hour, day or week: requests, refreshes,
codes, logins, and errors by their cause. The counts outlive restarts; those of the
last five minutes of other nodes may be missing. --json prints them in steps of five
minutes, of an hour for a week. For alerts, use the metrics.`,
		Example: "  mintage traffic --period hour",
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		var v adminapi.Traffic
		_, err := a.Get(cmd.Context(), &v, url.Values{"period": {period}}, "traffic")
		var rows [][]string
		for _, x := range v.Series {
			kind := ""
			if x.Error {
				if x.Total == 0 {
					continue
				}
				kind = "error"
			}
			rows = append(rows, []string{x.Name, kind, strconv.FormatUint(x.Total, 10)})
		}
		return v, table("WHAT||COUNT", rows), err
	})
	cmd.Flags().StringVar(&period, "period", period, "hour, day or week")
	return cmd
}
