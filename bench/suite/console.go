package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/store"
)

// The limits of the console: the p99 of a page's first byte, and the factor by which the
// p99 of refreshes may grow while operators click.
const (
	maxFirstByte = 100 * time.Millisecond
	maxSlowdown  = 2
)

// operators is the number of operators, who each click once a second.
const operators = 2

// fewGrants is how many grants the client has that an operator looks up among all grants.
const fewGrants = 100

// A console is a server whose operators click while clients refresh tokens.
type console struct {
	crowd
	host   *host
	url    string
	pages  []*page
	few    *dataset // the client with few grants
	failed error
}

// A page is a page on which operators click, and the times to its first byte.
type page struct {
	name, path string
	form       url.Values // of a POST; nil: it is a GET
	want       string     // of a POST; nil for a GET
	took       bench.Histogram
}

// latencies are the p50 and p99 of the refreshes in milliseconds, in a quiet or a busy
// run.
type latencies struct{ p50, p99 []float64 }

func (r *latencies) add(m measured) {
	r.p50 = append(r.p50, float64(m.Latency.Quantile(.5).Microseconds())/1000)
	r.p99 = append(r.p99, float64(m.Latency.Quantile(.99).Microseconds())/1000)
}

// measureConsole reports for both engines how long the console's pages take while the
// server is at half of its capacity, and how much slower the refreshes become.
func measureConsole(ctx context.Context, opt options) error {
	rows, failed := "", error(nil)
	err := onEachEngine(ctx, opt, func(engine string, filled crowd) error {
		c := &console{crowd: filled}
		lines, err := c.measure(ctx)
		if c.host != nil {
			c.host.kill()
		}
		if err != nil { // keep the other engine's figures
			failed = errors.Join(failed, fmt.Errorf("%s: %w", engine, err))
		}
		for _, l := range lines {
			rows += "| " + engine + " | " + l + " |\n"
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s. %s clients, %s users, %s grants; %d connections refresh at half of what the server can; %d operators click once a second; %d rounds of two runs of %s in turn, without and with them.\n\n| engine | what | times | p50 ms | p99 ms | bar | |\n| --- | --- | ---: | ---: | ---: | ---: | --- |\n%s",
		machine(), thousands(float64(opt.entries)), thousands(float64(min(opt.entries, maxUsers))), thousands(float64(opt.grants)), opt.connections, operators, opt.rounds, opt.duration, rows)
	return failed
}

// measure returns the rows of an engine, without its name.
func (c *console) measure(ctx context.Context) (rows []string, err error) {
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	load := bench.Load{Operation: bench.Refresh, Connections: c.connections, Target: c.host.target, Chains: c.host.chains, PID: c.host.pid(), Duration: min(c.duration, 10*time.Second)}
	full, err := c.host.load(ctx, load)
	if err != nil {
		return nil, err
	}
	load.Rate, load.Duration = full.Throughput()/2, c.duration
	note("the server can %s/s", thousands(full.Throughput()))
	var browsers []*http.Client
	for range operators {
		b, err := c.enter(ctx)
		if err != nil {
			return nil, err
		}
		browsers = append(browsers, b)
	}
	// Open each page once, so that no figure includes work of its first use.
	for _, p := range c.pages {
		if _, err := c.click(ctx, browsers[0], p); err != nil {
			return nil, err
		}
	}
	var quiet, busy latencies
	for round := range c.rounds {
		turns := []*latencies{&quiet, &busy}
		if round%2 == 1 { // the order alternates between rounds
			slices.Reverse(turns)
		}
		for _, runs := range turns {
			stop := func() error { return nil }
			if runs == &busy {
				stop = c.clicking(ctx, browsers)
			}
			m, err := c.host.load(ctx, load)
			if err := errors.Join(err, stop()); err != nil {
				return nil, err
			}
			runs.add(m)
			note("round %d/%d  clicks: %-5t  p50 %s  p99 %s", round+1, c.rounds, runs == &busy, milliseconds(m.Latency.Quantile(.5)), milliseconds(m.Latency.Quantile(.99)))
		}
	}
	var all bench.Histogram
	for _, p := range c.pages {
		all.Merge(&p.took)
		rows = append(rows, row(p.name, &p.took, ""))
	}
	rows = append(rows, row("**all pages**", &all, maxFirstByte.String()))
	slowdown, verdict := middle(busy.p99)/middle(quiet.p99), "met"
	if slowdown > maxSlowdown {
		verdict = "missed"
	}
	return append(rows,
		fmt.Sprintf("refreshes without clicks, %s/s | %d | %.2f | %.2f | | ", thousands(load.Rate), len(quiet.p99), middle(quiet.p50), middle(quiet.p99)),
		fmt.Sprintf("refreshes with clicks, %.2f times at p99 | %d | %.2f | %.2f | ≤ %d times | %s", slowdown, len(busy.p99), middle(busy.p50), middle(busy.p99), maxSlowdown, verdict)), nil
}

// middle returns the median of a list.
func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// row returns a line about first bytes; bar is the limit of their p99, or "".
func row(name string, h *bench.Histogram, bar string) string {
	verdict := ""
	if bar != "" {
		verdict, bar = "met", "≤ "+bar
		if h.Quantile(.99) > maxFirstByte {
			verdict = "missed"
		}
	}
	return fmt.Sprintf("%s | %d | %s | %s | %s | %s", name, h.Count(), milliseconds(h.Quantile(.5)), milliseconds(h.Quantile(.99)), bar, verdict)
}

// prepare fills the store, and starts the server with its console.
func (c *console) prepare(ctx context.Context) (err error) {
	note("making a store with %s grants", thousands(float64(c.grants)))
	if c.data, err = makeDataset(ctx, c.dir, c.open, c.grants); err != nil {
		return err
	}
	note("filling the store")
	if err := c.fill(ctx); err != nil {
		return err
	}
	few := *c.data
	few.clientID, few.tokens = fmt.Sprintf("client-%06d", c.entries/2), make([]string, fewGrants)
	c.few = &few
	st, err := c.open(ctx, c.dir)
	if err != nil {
		return err
	}
	err = few.makeGrants(ctx, st, policy)
	grants, listed := st.Grants(ctx, store.GrantFilter{Realm: realm, ClientID: few.clientID, Limit: 1})
	if err := errors.Join(err, listed, st.Close()); err != nil {
		return err
	}
	server, err := serve(ctx, c.program, c.data, c.args...)
	if err != nil {
		return err
	}
	c.host = &host{child: server, data: c.data, chains: bench.Split(c.data.tokens, c.connections)}
	user := fmt.Sprintf("user-%06d", min(c.entries, maxUsers)/2)
	c.pages = []*page{
		{name: "overview", path: "/", want: "Needs attention"},
		{name: "findings", path: "/checkup", want: "Findings"},
		{name: "clients", path: "/clients", want: "client-000"},
		{name: "search for a client", path: "/clients?" + url.Values{"match": {few.clientID}}.Encode(), want: few.clientID},
		{name: "clients that registered themselves", path: "/clients?own=1", want: "agent-"},
		{name: "client", path: "/clients/" + few.clientID, want: "Stop it"},
		{name: "settings of a client", path: "/clients/" + few.clientID + "/edit", want: "retry-window"},
		{name: "users", path: "/users", want: "user-000"},
		{name: "search for a user", path: "/users?" + url.Values{"match": {user}}.Encode(), want: user},
		{name: "user", path: "/users/" + user, want: "Make a new password"},
		{name: "grants of a subject", path: "/grants?" + url.Values{"subject": {grants[0].Subject}}.Encode(), want: grants[0].ID.String()},
		{name: "grants of a client that has few", path: "/grants?" + url.Values{"client": {few.clientID}}.Encode(), want: grants[0].ID.String()},
		{name: "grants of a client that has most", path: "/grants?" + url.Values{"client": {c.data.clientID}}.Encode(), want: "End all of them"},
		{name: "grant", path: "/grants/" + grants[0].ID.String(), want: "Life of the grant"},
		{name: "question before a client is deleted", path: "/clients/" + few.clientID + "/delete", want: fmt.Sprintf("Active grants that end: %d.", fewGrants)},
		{name: "APIs", path: "/apis", want: "api-000"},
		{name: "audit log", path: "/audit", want: "tokens_refreshed"},
		{name: "search in the audit log", path: "/audit?" + url.Values{"client": {c.data.clientID}, "event": {"tokens_refreshed"}, "since": {"1h"}}.Encode(), want: "tokens_refreshed"},
		{name: "search in the audit log for what is not there", path: "/audit?" + url.Values{"client": {few.clientID}}.Encode(), want: "Audit log"},
		{name: "explanation of a token", path: "/explain", form: url.Values{"text": {few.tokens[0]}}, want: "What to do"},
		{name: "keys", path: "/keys", want: "makes tokens"},
		{name: "settings", path: "/settings", want: "data"},
		{name: "operators", path: "/operators", want: "this browser"},
		{name: "realms", path: "/realms", want: "api"},
		{name: "restores", path: "/restores", want: "There was none."},
	}
	return nil
}

// enter creates an invitation, and returns a browser that has accepted it.
func (c *console) enter(ctx context.Context) (*http.Client, error) {
	out, err := exec.CommandContext(ctx, c.program, append([]string{"console", "invite", "dev", "--json", "--data", c.dir}, c.args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("console invite: %w", err)
	}
	var invitation struct{ URL string }
	if err := json.Unmarshal(out, &invitation); err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	b := &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: c.host.target.TLS.Clone()}}
	address, secret, _ := strings.Cut(invitation.URL, "/invitation/")
	c.url = address
	_, err = c.click(ctx, b, &page{name: "invitation", path: "/invitation/" + secret, form: url.Values{}, want: "Needs attention"})
	return b, err
}

// click opens a page, and returns the time to its first byte.
func (c *console) click(ctx context.Context, b *http.Client, p *page) (took time.Duration, err error) {
	method := http.MethodGet
	if p.form != nil {
		method = http.MethodPost
	}
	began := time.Now()
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(began) }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, c.url+p.path, strings.NewReader(p.form.Encode()))
	if err != nil {
		return 0, err
	}
	if p.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", c.url)
	}
	answer, err := b.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(text), p.want)) {
		err = fmt.Errorf("the page %s lacks %q: %s\n%s", p.name, p.want, answer.Status, text)
	}
	return took, err
}

// clicking makes each browser click once a second, on another page each time, until stop
// is called, which returns the first error.
func (c *console) clicking(ctx context.Context, browsers []*http.Client) (stop func() error) {
	n := 0
	end := every(time.Second/time.Duration(len(browsers)), func() {
		p := c.pages[n%len(c.pages)]
		took, err := c.click(ctx, browsers[n%len(browsers)], p)
		n++
		c.failed = errors.Join(c.failed, err)
		p.took.Add(took)
	})
	return func() error { end(); return c.failed }
}
