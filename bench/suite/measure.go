package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// The measurements, in the order of a round.
const (
	bareRefresh = "bare"
	bareTuned   = "bare-tuned"
	refresh     = "refresh"
	code        = "code"
	large       = "large"
	introspect  = "introspect"
	verify      = "verify"
	service     = "service"
	authorized  = "authorize"
	devicePoll  = "device-poll"
	exchanged   = "exchange"
	bareSigning = "bare-signing"
	jwt         = "jwt"

	bareVerifying   = "bare-verifying"
	refreshBound    = "refresh-bound"
	introspectBound = "introspect-bound"
	verifyBound     = "verify-bound"

	idToken     = "id-token"
	bareConnect = "bare-connect"
	connect     = "connect"
)

var names = []string{bareRefresh, bareTuned, refresh, introspect, verify, service, authorized, devicePoll, exchanged, bareSigning, jwt, bareVerifying, refreshBound, introspectBound, verifyBound, code, idToken, large, bareConnect, connect}

// yardstick maps each measurement to the one it is compared with.
var yardstick = map[string]string{
	refresh: bareRefresh, code: bareRefresh, large: bareRefresh, introspect: bareRefresh, verify: bareRefresh, service: bareRefresh, authorized: bareRefresh, devicePoll: bareRefresh, exchanged: bareRefresh,
	jwt: bareSigning, idToken: bareSigning, connect: bareConnect,
	refreshBound: bareVerifying, introspectBound: bareVerifying, verifyBound: bareVerifying,
}

// A suite is the state of one execution.
type suite struct {
	options
	dir     string
	program string
	report  report

	small, codes, idTokens, large, jwts, exchanges *host
	bare, tuned, signing, verifying                *host
	prover                                         *prover
	codeRate                                       map[string]float64 // redeemed per second so far, by measurement
	args                                           []string           // of the servers
	began                                          func()             // called when a run begins, if set
}

// A host is a server process with the tokens that are used at it.
type host struct {
	*child
	data   *dataset
	chains []*bench.Chains
}

// measure runs the whole suite. When it returns, it has ended what it started and removed
// what it wrote.
func measure(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	s := &suite{options: opt, dir: dir, report: newReport(opt), codeRate: map[string]float64{}}
	defer func() {
		s.kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if s.report.disk, err = probeDisk(dir); err != nil {
		return err
	}
	if s.program, err = s.build(ctx, dir); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	note("warming up")
	for _, name := range s.wanted() {
		if _, err := s.run(ctx, name, min(time.Second, s.duration)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	rotated := 0
	if s.large != nil {
		if rotated, err = s.rotate(ctx, s.grants*7/10); err != nil {
			return err
		}
	}
	for round := range s.rounds {
		for _, name := range s.wanted() {
			r, err := s.run(ctx, name, s.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if name == large {
				rotated += int(r.Requests)
			}
			note("round %d/%d  %-12s %8s/s  %5.1f µs  p50 %s  p99 %s", round+1, s.rounds, name,
				thousands(r.Throughput()), r.cpu(), milliseconds(r.Latency.Quantile(.5)), milliseconds(r.Latency.Quantile(.99)))
			s.report.add(name, r)
		}
	}
	if err := s.finish(ctx, rotated); err != nil {
		return err
	}
	s.report.print(os.Stdout)
	return nil
}

// kill ends every server.
func (s *suite) kill() {
	for _, h := range []*host{s.bare, s.tuned, s.signing, s.verifying, s.small, s.codes, s.idTokens, s.large, s.jwts, s.exchanges} {
		if h != nil {
			h.kill()
		}
	}
}

// wanted lists the measurements of this execution, each after its yardstick.
func (s *suite) wanted() (list []string) {
	if len(s.only) == 0 {
		return names
	}
	for _, name := range names {
		if slices.ContainsFunc(s.only, func(o string) bool {
			return o == name || yardstick[o] == name || o == large && name == refresh
		}) {
			list = append(list, name)
		}
	}
	return list
}

// prepare creates the stores and starts the servers. Each measurement that changes the
// number of grants has a store of its own.
func (s *suite) prepare(ctx context.Context) (err error) {
	wants := func(name string) bool { return slices.Contains(s.wanted(), name) }
	if s.small, err = s.host(ctx, "small", smallGrants, func(r *client.Registration) { r.GrantTypes = store.GrantTypes }); err != nil {
		return err
	}
	if wants(authorized) {
		note("signing in %s users", thousands(smallGrants))
		if err := s.small.data.signIn(ctx, smallGrants); err != nil {
			return err
		}
	}
	body, err := s.sample(ctx)
	if err != nil {
		return err
	}
	bare, err := serveBare(bareFlag, s.small.child, s.small.data, body)
	if err != nil {
		return err
	}
	s.bare = &host{child: bare, chains: bench.Split(s.small.data.tokens, s.connections)}
	tuned, err := serveBare(bareFlag, s.small.child, s.small.data, body, fmt.Sprintf("GOGC=%d", tunedGC), fmt.Sprintf("GOMAXPROCS=%d", tunedThreads()))
	if err != nil {
		return err
	}
	s.tuned = &host{child: tuned, chains: bench.Split(s.small.data.tokens, s.connections)}
	if wants(bareSigning) {
		signing, err := serveBare(signingFlag, s.small.child, s.small.data, body)
		if err != nil {
			return err
		}
		s.signing = &host{child: signing, chains: bench.Split(s.small.data.tokens, s.connections)}
	}
	if wants(bareVerifying) {
		verifying, err := serveBare(verifyingFlag, s.small.child, s.small.data, body)
		if err != nil {
			return err
		}
		s.verifying = &host{child: verifying, chains: bench.Split(s.small.data.tokens, s.connections)}
		if s.prover, err = newProver(); err != nil {
			return err
		}
	}
	if wants(jwt) {
		if s.jwts, err = s.host(ctx, "jwts", smallGrants, func(r *client.Registration) { r.TokenFormat = store.TokenJWT }); err != nil {
			return err
		}
	}
	if wants(exchanged) {
		if s.exchanges, err = s.host(ctx, "exchanges", smallGrants, func(r *client.Registration) {
			r.APIs, r.ExchangeAPIs, r.ExchangeFrom = []string{sharedAPI}, []string{sharedAPI}, []string{grant.EveryClient}
			r.GrantTypes = store.DefaultGrantTypes
		}); err != nil {
			return err
		}
	}
	if wants(code) {
		if s.codes, err = s.host(ctx, "codes", 0); err != nil {
			return err
		}
	}
	if wants(idToken) {
		if s.idTokens, err = s.host(ctx, "id-tokens", 0, func(r *client.Registration) { r.Scope, r.IDTokenAlg = "openid "+scope, keys.ES256 }); err != nil {
			return err
		}
	}
	if wants(large) {
		s.large, err = s.host(ctx, "large", s.grants)
	}
	return err
}

func (s *suite) host(ctx context.Context, name string, grants int, choose ...func(*client.Registration)) (*host, error) {
	note("making a store with %s grants", thousands(float64(grants)))
	data, err := makeDataset(ctx, filepath.Join(s.dir, name), embedded, grants, choose...)
	if err != nil {
		return nil, err
	}
	c, err := serve(ctx, s.program, data, s.args...)
	if err != nil {
		return nil, err
	}
	h := &host{child: c, data: data, chains: bench.Split(data.tokens, s.connections)}
	if name != "small" && name != "exchanges" {
		data.tokens = nil // the chains contain them
	}
	return h, nil
}

// A measured is a result with figures that only the suite can read.
type measured struct {
	*bench.Result
	commits uint32 // write transactions of the server
	// database is the processor time of PostgreSQL.
	database time.Duration
}

// cpu returns microseconds of the server's processors per request.
func (m measured) cpu() float64 { return float64(m.CPUPerRequest().Nanoseconds()) / 1000 }

// hostOf returns the server of a measurement.
func (s *suite) hostOf(name string) *host {
	switch name {
	case bareRefresh, bareConnect:
		return s.bare
	case bareTuned:
		return s.tuned
	case code:
		return s.codes
	case idToken:
		return s.idTokens
	case large:
		return s.large
	case bareSigning:
		return s.signing
	case bareVerifying:
		return s.verifying
	case jwt:
		return s.jwts
	case exchanged:
		return s.exchanges
	}
	return s.small
}

// run makes one run, and fails if a response is wrong.
func (s *suite) run(ctx context.Context, name string, d time.Duration) (measured, error) {
	// Writes that are left from the previous run must not slow this one.
	syscall.Sync()
	l := bench.Load{Operation: bench.Refresh, Connections: s.connections, Duration: d}
	h := s.hostOf(name)
	if name == code || name == idToken {
		l.Operation = bench.Code
		// A faster run ends when its codes are used up, and is as good.
		rate := s.codeRate[name] * 1.5
		if rate == 0 {
			rate = 40_000
		}
		var err error
		if l.Codes, err = h.data.codes(max(int(rate*d.Seconds()), 1000), d); err != nil {
			return measured{}, err
		}
	}
	if name == connect || name == bareConnect {
		l.Operation = bench.Connect
	}
	l.Target, l.Chains, l.PID = h.target, h.chains, h.pid()
	if plain, bound := strings.CutSuffix(name, "-bound"); plain == introspect || plain == verify {
		// Access tokens live five minutes, so each run makes its own.
		var key oauth.JKT
		if bound {
			key = s.prover.jkt
		}
		tokens, err := h.data.accessTokens(key)
		if err != nil {
			return measured{}, err
		}
		l.Operation, l.Chains = bench.Operation(plain), bench.Split(tokens, s.connections)
		l.Target.Endpoint = strings.Replace(l.Target.Endpoint, "/access_token?", "/"+plain+"?", 1)
	}
	s.prove(&l, name, d)
	if name == exchanged {
		tokens, err := h.data.accessTokens(oauth.JKT{})
		if err != nil {
			return measured{}, err
		}
		l.Operation, l.Chains = bench.Exchange, bench.Split(tokens, s.connections)
	}
	if name == devicePoll {
		codes, err := h.deviceCodes(ctx, pollers*bench.PollCodes(d))
		if err != nil {
			return measured{}, err
		}
		sets := bench.Split(codes, pollers)
		l.Operation, l.Chains = bench.Poll, nil
		for i := range s.connections {
			l.Chains = append(l.Chains, sets[i%pollers].Copy())
		}
	}
	if name == service {
		l.Operation, l.Chains = bench.Service, bench.Split(slices.Repeat([]string{"a"}, s.connections), s.connections)
	}
	if name == authorized {
		l.Operation, l.Chains = bench.Authorize, bench.Split(h.data.sessions, s.connections)
		l.Target.Endpoint = strings.Replace(l.Target.Endpoint, "/access_token?", "/authorize?", 1) + "&" + h.data.request()
	}
	if s.began != nil {
		s.began()
	}
	r, err := h.load(ctx, l)
	if most := uint32(2*d.Seconds()) + 10; err == nil && (name == devicePoll || name == exchanged) && r.commits > most {
		err = fmt.Errorf("%d write transactions, and the heartbeats of %s are %d at most", r.commits, d, most)
	}
	if err == nil && (l.Operation == bench.Code || l.Target.Proof != nil) {
		s.codeRate[name] = r.Throughput()
	}
	if err == nil && name == refreshBound && !bytes.Contains(r.Sample, []byte(`"token_type":"DPoP"`)) {
		err = errors.New("the answers are not bound to a key")
	}
	if err == nil && name == idToken && !bytes.Contains(r.Sample, []byte(`"id_token":"`)) {
		err = errors.New("the answers have no id_token")
	}
	return r, err
}

func (h *host) load(ctx context.Context, l bench.Load) (m measured, err error) {
	var before, after uint32
	if h.data != nil {
		if before, err = commits(h.data.dir); err != nil {
			return m, err
		}
	}
	r, err := l.Run(ctx)
	if err != nil {
		return m, err
	}
	if err := failures(r); err != nil {
		return m, err
	}
	if l.PID != 0 && r.Server == nil {
		return m, errors.New("the server's processor time cannot be read: this suite needs Linux")
	}
	if h.data != nil {
		if after, err = commits(h.data.dir); err != nil {
			return m, err
		}
	}
	return measured{Result: r, commits: after - before}, nil
}

// failures returns an error if requests have failed.
func failures(r *bench.Result) error {
	n := r.Failed()
	if n == 0 {
		return nil
	}
	var kinds []string
	for _, kind := range r.Kinds() {
		kinds = append(kinds, fmt.Sprintf("%d × %s", r.Errors[kind], kind))
	}
	return fmt.Errorf("%d of %d requests went wrong: %s", n, n+r.Requests, strings.Join(kinds, "; "))
}

// rotate refreshes grants of the large store n times, without measuring.
func (s *suite) rotate(ctx context.Context, n int) (int, error) {
	if n <= 0 {
		return 0, nil
	}
	note("rotating %s times on the large store", thousands(float64(n)))
	l := bench.Load{
		Operation: bench.Refresh, Connections: s.connections, Requests: int64(n),
		Target: s.large.target, Chains: s.large.chains, PID: s.large.pid(),
	}
	seconds := 0
	l.Progress = func(p bench.Progress) {
		if seconds++; seconds%5 == 0 {
			note("  %s after %.0f s, %s/s", percent(float64(p.Done)/float64(n)), p.Elapsed.Seconds(), thousands(p.Rate))
		}
	}
	before, _ := bench.DiskWritten(s.dir)
	r, err := l.Run(ctx)
	if err != nil {
		return 0, fmt.Errorf("rotate: %w", err)
	}
	// These requests are not measured: those that the server sheds while the disk is slow
	// are ignored, and their grants are rotated later.
	delete(r.Errors, "status 503 temporarily_unavailable")
	if err := failures(r); err != nil {
		return 0, fmt.Errorf("rotate: %w", err)
	}
	if after, known := bench.DiskWritten(s.dir); known {
		s.report.alone += int(r.Requests)
		s.report.written += after - before
	}
	return int(r.Requests), nil
}

// sample returns the body of a real response, which the yardstick will repeat.
func (s *suite) sample(ctx context.Context) ([]byte, error) {
	l := bench.Load{
		Operation: bench.Refresh, Connections: 1, Requests: 1, Target: s.small.target,
		Chains: s.small.chains[:1],
	}
	r, err := s.small.load(ctx, l)
	if err != nil {
		return nil, err
	}
	return r.Sample, nil
}
