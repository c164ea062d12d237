// Package bench puts load on a token endpoint and measures the responses. Its client is
// lean, so that the server is the bottleneck even on a small machine: it speaks HTTP/1.1
// directly over crypto/tls, and does not allocate for a successful request. It checks
// every response.
package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An Operation is what each request of a load does.
type Operation string

const (
	Refresh Operation = "refresh" // refreshes on connections that stay open
	Code    Operation = "code"    // redeems a fresh code
	Connect Operation = "connect" // refreshes, each on a new TLS connection

	// For these, Chains are access tokens that are sent repeatedly, and the Target's
	// endpoint is the one that verifies them.
	Introspect Operation = "introspect"
	Verify     Operation = "verify" // as a proxy does, with the token in a header

	// Service gets a token for the client itself; Chains are scopes.
	Service Operation = "service"

	// Poll polls as a device whose user has not decided (RFC 8628 section 3.4). Chains
	// are device codes; a connection polls each one for pollMoment.
	Poll Operation = "poll"

	// Exchange gets a token in exchange for another (RFC 8693). Chains are the subject
	// tokens.
	Exchange Operation = "exchange"

	// Authorize requests a code as a browser whose user is signed in and has consented
	// before. Chains are session cookies, and the Target's endpoint is the complete URL
	// of the request.
	Authorize Operation = "authorize"
)

// pollMoment leaves time for slow responses in the second in which all polls of a device
// count as one.
const pollMoment = 400 * time.Millisecond

// PollCodes returns how many device codes a connection needs for a run.
func PollCodes(d time.Duration) int { return int(d/pollMoment) + 1 }

// Operations lists the operations of a token endpoint.
var Operations = []Operation{Refresh, Code, Connect}

// A Target is a token endpoint and the client that uses it.
type Target struct {
	Endpoint     string // https URL
	ClientID     string
	ClientSecret string
	// Assertion, if set, returns a client assertion (private_key_jwt) for each request,
	// in place of a secret.
	Assertion func() string
	// Proof, if set, returns a new DPoP proof (RFC 9449) for each request with its code
	// or token.
	Proof       func(credential []byte) string
	RedirectURI string // for codes
	// From, if valid, is the client address in the headers of a proxy.
	From netip.Addr
	TLS  *tls.Config // RootCAs; the other fields are filled in
	// Shape is the shape of requests; the zero Shape is this package's own.
	Shape Shape
	// MaxExpiresIn is the largest valid expires_in; zero means 300.
	MaxExpiresIn int64
	// FixedBody is the size of the constant body that a yardstick returns, so that its
	// tokens cannot be checked. It is zero for a token endpoint.
	FixedBody int
}

// A Shape is the form in which an HTTP client sends requests.
type Shape struct {
	// Header contains the header lines in addition to Host, Content-Type and
	// Content-Length.
	Header []string
	// Apart sends header and body in separate writes, and so in two TLS records.
	Apart bool
}

// A Load is one run. It uses either Chains or Codes, depending on Operation.
type Load struct {
	Target      Target
	Operation   Operation
	Connections int
	// The run ends after Duration or Requests, whichever comes first, or when the codes
	// are used up. Zero means no limit.
	Duration time.Duration
	Requests int64
	// Rate is the number of requests due each second, at equal distances. If a request is
	// late because every connection waits for a response, its latency counts from when it
	// was due. With zero, each connection sends its next request at once.
	Rate float64
	// Pause is how long a connection pauses when the server is down or overloaded. Zero
	// means 20 ms.
	Pause time.Duration

	Chains []*Chains // one for each connection
	Codes  []string
	// Collect keeps the refresh tokens that codes were redeemed for.
	Collect bool
	// PID is the server's process, to read its resource usage.
	PID      int
	Progress func(Progress) // called each second, if set
}

// Chains are the refresh tokens that one connection uses in turn. They outlive a run: the
// next run continues with the last tokens.
type Chains struct {
	tokens [][]byte
	next   int
}

// Copy returns chains with the same tokens, for another connection.
func (c *Chains) Copy() *Chains { return &Chains{tokens: slices.Clone(c.tokens)} }

// Split distributes tokens to n connections.
func Split(tokens []string, n int) []*Chains {
	all := make([]*Chains, n)
	for i := range all {
		all[i] = &Chains{}
	}
	for i, t := range tokens {
		c := all[i%n]
		c.tokens = append(c.tokens, []byte(t))
	}
	return all
}

// Tokens returns the current tokens.
func (c *Chains) Tokens() []string {
	list := make([]string, 0, len(c.tokens))
	for _, t := range c.tokens {
		list = append(list, string(t))
	}
	return list
}

// Progress is the state of a run.
type Progress struct {
	Elapsed time.Duration
	Done    int64   // correct responses
	Rate    float64 // correct responses per second since the last report
	Errors  int64
}

// Usage is the resource usage of a process: its processor time since its start, and its
// current and maximal memory.
type Usage struct {
	CPU            time.Duration
	Resident, Peak int64 // bytes
}

// A Result is the result of a run.
type Result struct {
	Requests int64 // correct responses
	Errors   map[string]int64
	Elapsed  time.Duration
	Latency  Histogram // of correct responses
	Tokens   []string  // see Load.Collect
	Sample   []byte    // body of a correct response
	// Server is what the server used during the run, with CPU as a difference; nil if
	// that could not be read.
	Server *Usage
}

// Throughput returns correct responses per second.
func (r *Result) Throughput() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// CPUPerRequest returns the server's processor time per correct response, which includes
// that of failed requests; zero if unknown.
func (r *Result) CPUPerRequest() time.Duration {
	if r.Server == nil || r.Requests == 0 {
		return 0
	}
	return r.Server.CPU / time.Duration(r.Requests)
}

// Failed returns the number of failed requests.
func (r *Result) Failed() (n int64) {
	for _, k := range r.Errors {
		n += k
	}
	return n
}

// Kinds returns the kinds of errors, the most frequent first.
func (r *Result) Kinds() []string {
	return slices.SortedFunc(maps.Keys(r.Errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Errors[b], r.Errors[a]), cmp.Compare(a, b))
	})
}

func (l *Load) check() error {
	switch {
	case l.Connections < 1:
		return errors.New("a load needs at least one connection")
	case l.Operation != Code && len(l.Chains) != l.Connections:
		return fmt.Errorf("%d connections need as many chains of refresh tokens, not %d", l.Connections, len(l.Chains))
	case l.Operation == Code && len(l.Codes) == 0:
		return errors.New("no codes to redeem")
	case l.Operation != Code && l.Duration == 0 && l.Requests == 0:
		return errors.New("a load needs an end: a duration or a number of requests")
	case l.Rate < 0:
		return errors.New("a rate cannot be negative")
	}
	if l.Operation != Code {
		for _, c := range l.Chains {
			if len(c.tokens) == 0 {
				return fmt.Errorf("fewer refresh tokens than the %d connections: each needs one of its own", l.Connections)
			}
		}
	}
	return nil
}

// Run runs the load. It waits for pending requests at the end and counts them.
// Connections are opened before the clock starts, except for Connect. An error means that
// the load cannot run at all; errors of single requests are in the Result.
func (l Load) Run(ctx context.Context) (*Result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	r, err := newRun(&l)
	if err != nil {
		return nil, err
	}
	workers := make([]*worker, l.Connections)
	var wg sync.WaitGroup
	failed := make([]error, l.Connections)
	for i := range workers {
		workers[i] = r.newWorker(i)
		if l.Operation != Connect {
			wg.Go(func() { failed[i] = workers[i].connect(ctx) })
		}
	}
	wg.Wait()
	defer func() {
		for _, w := range workers {
			w.disconnect()
		}
	}()
	for _, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", r.addr, err)
		}
	}

	before, usageErr := Usage{}, error(nil)
	if l.PID != 0 {
		before, usageErr = ReadUsage(l.PID)
	}
	r.begin = time.Now()
	for _, w := range workers {
		wg.Go(func() { w.work(ctx) })
	}
	stopProgress := r.report(workers)
	wg.Wait()
	res := &Result{Elapsed: time.Since(r.begin), Errors: map[string]int64{}}
	stopProgress()
	if l.PID != 0 && usageErr == nil {
		if after, err := ReadUsage(l.PID); err == nil {
			after.CPU -= before.CPU
			res.Server = &after
		}
	}
	for _, w := range workers {
		res.Requests += w.done.Load()
		res.Latency.Merge(&w.latency)
		res.Tokens = append(res.Tokens, w.tokens...)
		if res.Sample == nil && w.resp.status == 200 {
			res.Sample = w.resp.body
		}
		for kind, n := range w.errors {
			res.Errors[kind] += n
		}
	}
	return res, ctx.Err()
}

// A run is the shared state of a load's workers.
type run struct {
	*Load
	addr  string
	tls   *tls.Config
	head  []byte // of every request, until the value of Content-Length
	form  []byte // of every body, until the value of the code or refresh token
	begin time.Time
	taken atomic.Int64 // requests begun
}

func newRun(l *Load) (*run, error) {
	u, err := url.Parse(l.Target.Endpoint)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("token endpoint %q is not an https URL", l.Target.Endpoint)
	}
	r := &run{Load: l, addr: u.Host}
	if u.Port() == "" {
		r.addr = net.JoinHostPort(u.Hostname(), "443")
	}
	r.tls = &tls.Config{}
	if l.Target.TLS != nil {
		r.tls = l.Target.TLS.Clone()
	}
	r.tls.ServerName = u.Hostname()
	r.tls.NextProtos = []string{"http/1.1"}
	r.tls.ClientSessionCache = nil // each connection makes a complete handshake
	verifyOnce(r.tls)
	if l.Pause == 0 {
		l.Pause = defaultPause
	}
	if l.Target.MaxExpiresIn == 0 {
		l.Target.MaxExpiresIn = 300
	}
	credentials := "client_id=" + url.QueryEscape(l.Target.ClientID)
	if l.Target.ClientSecret != "" {
		credentials += "&client_secret=" + url.QueryEscape(l.Target.ClientSecret)
	}
	lines := l.Target.Shape.Header
	if lines == nil {
		lines = []string{"User-Agent: mintage-bench", "Accept: application/json"}
	}
	common := fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", u.RequestURI(), u.Host, strings.Join(lines, "\r\n"))
	if l.Target.From.IsValid() {
		common += "X-Forwarded-For: " + l.Target.From.String() + "\r\n"
	}
	r.head = []byte("POST " + common + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ")
	switch l.Operation {
	case Code:
		r.form = []byte("grant_type=authorization_code&" + credentials + "&redirect_uri=" + url.QueryEscape(l.Target.RedirectURI) + "&code=")
	case Service:
		r.form = []byte("grant_type=client_credentials&" + credentials + "&scope=")
	case Poll:
		r.form = []byte("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&" + credentials + "&device_code=")
	case Exchange:
		r.form = []byte("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&" + credentials +
			"&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&subject_token=")
	case Introspect:
		r.form = []byte(credentials + "&token=")
	case Verify:
		scheme := "Bearer "
		if l.Target.Proof != nil { // for the request that the proxy verifies
			scheme, common = "DPoP ", common+"X-Original-Method: GET\r\nX-Original-Uri: /\r\n"
		}
		r.head = []byte("GET " + common + "Authorization: " + scheme)
	case Authorize:
		r.head = []byte("GET " + common + "Cookie: __Host-mintage_session=")
	default:
		r.form = []byte("grant_type=refresh_token&" + credentials + "&refresh_token=")
	}
	return r, nil
}

// report calls Progress each second until the returned function is called.
func (r *run) report(workers []*worker) (stop func()) {
	if r.Progress == nil {
		return func() {}
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var last int64
		then := r.begin
		for {
			select {
			case <-end:
				return
			case now := <-tick.C:
				var done, wrong int64
				for _, w := range workers {
					done += w.done.Load()
					wrong += w.wrong.Load()
				}
				r.Progress(Progress{Elapsed: now.Sub(r.begin), Done: done, Rate: float64(done-last) / now.Sub(then).Seconds(), Errors: wrong})
				last, then = done, now
			}
		}
	})
	return func() { close(end); wg.Wait() }
}
