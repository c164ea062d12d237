package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/show"
)

// sweepLate is the age of the last complete sweep that is reported. A sweep scans a
// million rows in four minutes.
const sweepLate = 6 * time.Hour

// checkServer reads the running server's readiness and metrics from its management
// listener.
func checkServer(ctx context.Context, p *Deployment) (f findings) {
	host, port, err := net.SplitHostPort(p.Config.Management.Listen)
	if err != nil {
		f.unknown("see configuration", "management.listen: %v", err)
		return f
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "localhost" // it listens on every address of this machine
	}
	base := "http://" + net.JoinHostPort(host, port)
	client := &http.Client{Timeout: publicTime}
	resp, body, err := get(ctx, client, base+"/readyz")
	if err != nil {
		f.unknown("start the server, or run doctor where it runs", "no server answers on %s: %s", base, cause(err))
		return f
	}
	if resp.StatusCode != http.StatusOK {
		f.fault("see the reason; load balancers send no request to this server", "the server is not ready: %s", strings.TrimSpace(show.Bounded(string(body))))
	}
	values, err := p.metrics(ctx, client, base)
	if err != nil {
		f.note("its metrics cannot be read: %v", err)
	}
	for name, value := range values {
		switch {
		case strings.HasPrefix(name, "mintage_sweep_lag_seconds{") && value > sweepLate.Seconds() && !p.restoring():
			f.warn("see the server's log for what keeps it from removing expired rows", "%s: the last complete sweep was %s ago", name, show.Roughly(time.Duration(value)*time.Second))
		case name == "mintage_clock_fault" && value > 0:
			f.fault("set the clock by NTP", "this node's clock is off by what most other nodes say")
		case name == "mintage_keys_due" && value > 0:
			f.warn("see the server's log for what keeps it from creating them", "%d keys are due, and were not created yet", int64(value))
		case strings.HasPrefix(name, "mintage_audit_lost_total") && value > 0:
			f.warn("see the server's log for the reason (a full disk, permissions)", "%d audit records could not be written since the start", int64(value))
		}
	}
	f.unless("ready, on %s", base)
	return f
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
	return samples(strings.NewReader(string(body)))
}

// samples parses the Prometheus text format, without comments.
func samples(r io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); i > 0 && !strings.HasPrefix(line, "#") {
			if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
				values[line[:i]] = v
			}
		}
	}
	return values, lines.Err()
}
