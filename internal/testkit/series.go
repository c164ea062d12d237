package testkit

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/metrics"
)

// Series returns the value of each series of a scrape, by name and labels, such as
// name{label=value}. The value of a histogram is its count.
func Series(t testing.TB, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName()
			if labels != nil {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case metric.Counter != nil:
				all[name] = metric.GetCounter().GetValue()
			case metric.Gauge != nil:
				all[name] = metric.GetGauge().GetValue()
			default:
				all[name] = float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}
