package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// sweepLate is the age from which the last complete sweep is reported. A sweep scans a
// million rows in four minutes.
const sweepLate = 6 * time.Hour

// checkServer reads the running server's readiness and metrics from its management
// listener.
func checkServer(ctx context.Context, p *Deployment) (f findings) {
	host, port, err := net.SplitHostPort(p.Config.Management.Listen)
	if err != nil {
		return f.unknown("see configuration", "management.listen: %v", err)
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "localhost" // it listens on every address of this machine
	}
	base := "http://" + net.JoinHostPort(host, port)
	client := &http.Client{Timeout: publicTime}
	resp, body, err := get(ctx, client, base+"/readyz")
	if err != nil {
		return f.unknown("start the server, or run doctor where it runs", "no server answers on %s: %s", base, cause(err))
	}
	if resp.StatusCode != http.StatusOK {
		f.fault("see the reason; load balancers send no request to this server", "the server is not ready: %s", show.Bounded(strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; ")))
	}
	values, err := p.metrics(ctx, client, base)
	if err != nil {
		f.note("its metrics cannot be read: %v", err)
	}
	for name, value := range values {
		switch {
		case strings.HasPrefix(name, "mintage_sweep_lag_seconds{") && value > sweepLate.Seconds() && !p.restoring():
			f.warn("see the server's log for what keeps it from removing expired rows; if its clock was moved, set it right and restart the server", "%s: the last complete sweep was %s ago", name, show.Roughly(time.Duration(value)*time.Second))
		case strings.HasPrefix(name, "mintage_store_behind_total") && value > 0 && !p.restoring():
			f.fault("find the cause; if a backup was restored, or a standby was promoted that lacked commits: mintage restore --declare", "the store has lost commits: %d requests since the start had an authentic token of which it has no record", int64(value))
		case name == "mintage_clock_fault" && value > 0:
			f.fault("set the clock by NTP", "this node's clock differs from those of most other nodes")
		case name == "mintage_keys_due" && value > 0:
			f.warn("see the server's log for what keeps it from creating them", "%d keys are due, and were not created yet", int64(value))
		case name == `mintage_audit_left_out_total{reason="space"}` && value > 0:
			f.warn("make room on the disk of the audit log, or lower audit.max_size", "%d audit records of everyday events were left out since the start: the disk had little space", int64(value))
		case name == `mintage_audit_left_out_total{reason="rate"}` && value > 0:
			f.note("%d audit records were left out since the start: one grant or user caused more than 2 a second, or callers who failed to authenticate more than 20 (mintage audit show --event audit_gap)", int64(value))
		case name == "mintage_certificate_refused" && value > 0:
			f.fault("see the server's log for the reason", "the server does not use the present files of tls.cert and tls.key: an earlier certificate is in service")
		case name == "mintage_audit_fault" && value > 0:
			f.fault("see the server's log for the reason (a full disk, permissions, a directory that its unit may not write)", "the server cannot write its audit log: records wait in memory, and a stop loses them")
		case name == "mintage_audit_lost_total" && value > 0:
			f.warn("see the server's log for the reason (a full disk, permissions)", "%d audit records could not be written since the start", int64(value))
		}
	}
	return f.unless("ready, on %s", base)
}

// metrics returns the samples of the server's metrics, by name and labels.
func (p *Deployment) metrics(ctx context.Context, client *http.Client, base string) (map[string]float64, error) {
	resp, body, err := get(ctx, client, base+"/metrics")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return samples(string(body)), nil
}

// samples parses the Prometheus text format, without comments.
func samples(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.LastIndexByte(line, ' '); i > 0 && !strings.HasPrefix(line, "#") {
			if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
				values[line[:i]] = v
			}
		}
	}
	return values
}

// clockPause separates two reads of the nodes' clocks; a node sends a heartbeat every
// second.
const clockPause = 2500 * time.Millisecond

// checkClock compares this machine's clock with those of the nodes and of the
// public address, and reads the kernel's state of synchronisation.
func checkClock(ctx context.Context, p *Deployment) (f findings) {
	ask := p.kernelClock
	if ask == nil {
		ask = kernelClock
	}
	switch synchronised, known := ask(); {
	case !known:
		f.note("this system does not report whether its clock is synchronised")
	case !synchronised:
		f.warn("run an NTP client, such as chrony or systemd-timesyncd", "the kernel reports that this machine's clock is not synchronised")
	}
	if p.Database != nil {
		n, err := f.compareNodes(ctx, p.Database.Nodes, max(p.Config.Skew(), time.Second))
		if err != nil {
			f.unknown("see database", "the nodes' clocks cannot be read: %v", err)
		}
		f.note("compared with %s", show.Count(n, "node that runs", "nodes that run"))
	}
	if p.seen != nil && !p.seen.date.IsZero() {
		// The header's resolution is a second.
		if off := p.seen.date.Sub(p.seen.at); off.Abs() > 2*time.Second+p.seen.took+p.Config.Skew() {
			f.warn("set both clocks by NTP", "the clock behind the public address differs from this one by %s", off.Round(time.Second))
		}
	}
	return f.unless("synchronised, as far as this machine knows (NTP servers are not queried)")
}

// compareNodes compares this machine's clock with those of the running nodes.
func (f *findings) compareNodes(ctx context.Context, nodes func(context.Context) ([]store.Node, error), most time.Duration) (compared int, err error) {
	before, err := nodes(ctx)
	if err != nil || len(before) == 0 {
		return 0, err
	}
	if !directory.Pause(ctx, clockPause) {
		return 0, ctx.Err()
	}
	after, err := nodes(ctx)
	return f.compareClocks(before, after, grant.At(time.Now()), most), err
}

// compareClocks compares a clock with those of the nodes that run.
func (f *findings) compareClocks(before, after []store.Node, now grant.Instant, most time.Duration) int {
	list := store.Running(before, after)
	for _, n := range list {
		// The node's clock was read up to clockPause ago.
		if off := max(n.Clock.Since(now), now.Since(n.Clock)-clockPause); off > most {
			f.fault("set both clocks by NTP", "the clock of node %s differs from this machine's by %s", n.Name, show.Roughly(off))
		}
	}
	return len(list)
}
