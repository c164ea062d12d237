// Command page writes docs/reference/metrics.md from the descriptions of the
// metrics.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/mintage/mintage/internal/metrics"
)

const file = "docs/reference/metrics.md"

func main() {
	if err := os.WriteFile(file, []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Metrics

` + "`make docs`" + ` generates this page from the program. The management listener (` + "`management.listen`" + `, by default
127.0.0.1:9000) serves ` + "`GET /metrics`" + ` in the text format of Prometheus; the public listener does not. [Monitor](../how-to/monitor.md)
says how to scrape the metrics, and has the dashboard and the alerts.

Labels have few values, and never a path, an address, a user or a token. Two metrics have clients' ids: the expiry of secrets, and token
requests if ` + "`management.metrics_clients`" + ` is set. Names and labels stay the same from release to release; new ones may be added.

Where there are [several realms](../how-to/several-realms.md), the metrics with a label in parentheses have it: ` + "`realm`" + `, with the value that the
log and the audit log have, such as ` + "`/staff`" + `. With one realm, there is no such label.

| metric | type | labels | meaning | when to worry |
|---|---|---|---|---|
`)
	for _, f := range metrics.Families() {
		var labels []string
		for _, label := range f.Labels {
			labels = append(labels, "`"+label+"`")
		}
		if f.OfRealms() {
			labels = append(labels, "(`realm`)")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, strings.Join(labels, ", "), f.Help, f.Worry)
	}
	b.WriteString(`
The server also exports the metrics of Go (` + "`go_...`" + `) and of the process (` + "`process_...`" + `: memory, CPU time, open files). A histogram has the series
` + "`NAME_bucket`, `NAME_sum` and `NAME_count`" + `.

## Values of labels

| label | values |
|---|---|
`)
	for _, l := range metrics.Labels() {
		fmt.Fprintf(&b, "| `%s` of `%s` | %s |\n", l.Label, l.Family, l.Values)
	}
	return b.String()
}
