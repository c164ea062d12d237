package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/show"
)

// benchFlags is the command line of bench.
type benchFlags struct {
	endpoint, clientID, secretFile, caFile, tokensFile string

	operation   string
	connections int
	grants      int
	duration    time.Duration
	requests    int64
	maxExpires  int64
	pid         int
	asJSON      bool
}

// benchCodes is how many codes are redeemed if nothing else is said.
const benchCodes = 20_000

func newBench(s *settings) *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put load on a token endpoint and measure its answers",
		Long: `Put load on a token endpoint and measure its answers. Each connection owns one
or more refresh tokens; it sends one, checks the answer (status, members,
lifetime, a new token of the same grant) and goes on with the token it got.

Without --token-endpoint, the load goes to the server that runs with
"mintage serve --dev" on the same --data: the demo client gets codes through
the admin socket and redeems them first, outside the measured time. The grants
stay in that store until they expire.

With --token-endpoint, any server will do: give the client's credentials and
--refresh-tokens, a file with one refresh token in each line, at least one for
each connection. The tokens are used up, so the file is rewritten with those
that took their place: the next run can go on, and nothing is replayed.

Operations (--operation):
  refresh  refresh on connections that stay open, until --duration is over
  connect  the same, on a new TLS connection with a full handshake for each
  code     redeem a fresh code with each request; all codes are issued ahead,
           outside the measured time, so the run ends with the last of them
           (--requests, 20000 if not given) or with --duration

The server's processor time for each request and its memory are read from
/proc, if it runs on this machine: the process is found through the admin
socket, or named with --server-pid. Client and server share the machine then,
and its processors. The exit status is 1 if any request went wrong.`,
		Example: `  mintage serve --dev & sleep 1; mintage bench

  mintage bench --operation code --requests 5000
  mintage bench --connections 1 --requests 1000 --json

  mintage bench --token-endpoint https://auth.example.com/oauth2/access_token --ca-file ca.pem \
    --client-id billing --client-secret-file secret.txt --refresh-tokens tokens.txt --connections 8`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.check(cmd); err != nil {
				return deployment.Usage(err)
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return b.run(cmd, cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.operation, "operation", string(bench.Refresh), "refresh, code or connect")
	f.IntVar(&b.connections, "connections", 64, "connections at the same time")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "length of the run; without end if only --requests is given")
	f.Int64Var(&b.requests, "requests", 0, "end after this many requests")
	f.IntVar(&b.grants, "grants", 0, "grants to refresh on the --dev server; default: one for each connection")
	f.StringVar(&b.endpoint, "token-endpoint", "", "https URL of another server's token endpoint")
	f.StringVar(&b.clientID, "client-id", "", "client id there")
	f.StringVar(&b.secretFile, "client-secret-file", "", "file with the client's secret; default: a public client")
	f.StringVar(&b.caFile, "ca-file", "", "certificate authorities to trust, PEM; default: the system's")
	f.StringVar(&b.tokensFile, "refresh-tokens", "", "file with refresh tokens, one in each line; it is rewritten")
	f.Int64Var(&b.maxExpires, "max-expires-in", 300, "the largest expires_in that is right, in seconds")
	f.IntVar(&b.pid, "server-pid", 0, "process id of the server, if it runs on this machine")
	f.BoolVar(&b.asJSON, "json", false, "print JSON")
	return cmd
}

func (b *benchFlags) check(cmd *cobra.Command) error {
	if !slices.Contains(bench.Operations, bench.Operation(b.operation)) {
		return fmt.Errorf("--operation: %q is not refresh, code or connect", b.operation)
	}
	isCode := b.operation == string(bench.Code)
	if cmd.Flags().Changed("requests") && !cmd.Flags().Changed("duration") {
		b.duration = 0
	}
	if isCode && b.requests == 0 {
		b.requests = benchCodes
	}
	if b.grants == 0 {
		b.grants = b.connections
	}
	switch {
	case b.connections < 1 || b.duration < 0 || b.requests < 0 || b.maxExpires < 1:
		return errors.New("--connections, --duration, --requests and --max-expires-in must be positive")
	case b.duration == 0 && b.requests == 0:
		return errors.New("the run has no end: give --duration or --requests")
	case b.grants < b.connections:
		return fmt.Errorf("--grants: each of the %d connections needs one of its own", b.connections)
	case b.endpoint == "" && (b.clientID != "" || b.secretFile != "" || b.caFile != "" || b.tokensFile != ""):
		return errors.New("--client-id, --client-secret-file, --ca-file and --refresh-tokens belong to --token-endpoint")
	case b.endpoint != "" && isCode:
		return deployment.Hint(errors.New("--operation code works on the --dev server only"), "another server's codes cannot be issued from here; use --operation refresh")
	case b.endpoint != "" && (b.clientID == "" || b.tokensFile == ""):
		return errors.New("--token-endpoint needs --client-id and --refresh-tokens")
	case b.endpoint != "" && cmd.Flags().Changed("grants"):
		return errors.New("--grants: with --token-endpoint, the lines of --refresh-tokens are the grants")
	}
	return nil
}

func (b *benchFlags) run(cmd *cobra.Command, cfg config.Config) (err error) {
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	l := bench.Load{
		Operation: bench.Operation(b.operation), Connections: b.connections, Duration: b.duration, Requests: b.requests, PID: b.pid,
		Progress: func(p bench.Progress) {
			fmt.Fprintf(errOut, "mintage: %3.0f s  %8.0f/s  %d errors\n", p.Elapsed.Seconds(), p.Rate, p.Errors)
		},
	}
	if b.endpoint != "" {
		err = b.prepareForeign(&l)
		defer func() { err = errors.Join(err, b.saveTokens(l.Chains)) }()
	} else {
		err = b.prepareDev(ctx, errOut, cfg, &l)
	}
	if err != nil {
		return err
	}
	r, err := l.Run(ctx)
	if r == nil {
		return err
	}
	// What was measured until an interruption is worth seeing.
	if printErr := b.print(cmd.OutOrStdout(), l, r); err == nil {
		err = printErr
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted before the end of the run")
	}
	if n := r.Failed(); err == nil && n > 0 {
		return fmt.Errorf("%d of %d requests went wrong", n, n+r.Requests)
	}
	return err
}

// prepareDev aims at the --dev server, and gets codes and tokens from it.
func (b *benchFlags) prepareDev(ctx context.Context, errOut io.Writer, cfg config.Config, l *bench.Load) error {
	text, err := os.ReadFile(deployment.DevFile(cfg))
	if err != nil {
		what := "start `mintage serve --dev` with the same --data first, or name any server with --token-endpoint"
		if !errors.Is(err, fs.ErrNotExist) {
			what = "run this as the user who runs the server"
		}
		return deployment.Hint(fmt.Errorf("no --dev server to be found: %w", err), what)
	}
	var dev deployment.DevInfo
	if err := json.Unmarshal(text, &dev); err != nil {
		return fmt.Errorf("%s: %w", deployment.DevFile(cfg), err)
	}
	l.Target = bench.Target{Endpoint: dev.TokenEndpoint, ClientID: dev.ClientID, ClientSecret: dev.ClientSecret,
		RedirectURI: dev.RedirectURI, MaxExpiresIn: b.maxExpires}
	if l.Target.TLS, err = trust(dev.CAFile); err != nil {
		return err
	}
	if cfg.Admin.Listen == "" {
		cfg.Admin.Listen = "unix:" + dev.AdminSocket
	}
	n := int64(b.grants)
	if l.Operation == bench.Code {
		n = b.requests
	}
	codes, err := issueCodes(ctx, errOut, cfg, admin.CodeRequest{ClientID: dev.ClientID, RedirectURI: dev.RedirectURI, Subject: "mintage-bench"}, n)
	if err != nil {
		return err
	}
	if b.pid == 0 {
		if l.PID, err = bench.SocketOwner(strings.TrimPrefix(cfg.Admin.Listen, "unix:")); err != nil {
			fmt.Fprintf(errOut, "mintage: the server's processor time will be missing: %v\n", err)
		}
	}
	if l.Operation == bench.Code {
		l.Codes = codes
		return nil
	}
	redeem := bench.Load{Target: l.Target, Operation: bench.Code, Connections: b.connections, Codes: codes, Collect: true}
	r, err := redeem.Run(ctx)
	if err != nil {
		return err
	}
	if n := r.Failed(); n > 0 {
		return fmt.Errorf("%d of %d codes were not redeemed: %s", n, len(codes), faults(r))
	}
	l.Chains = bench.Split(r.Tokens, b.connections)
	return nil
}

// issueCodes gets n codes through the admin socket. It stops early when half
// of the first one's life is over, because all of them are still to be used.
func issueCodes(ctx context.Context, errOut io.Writer, cfg config.Config, req admin.CodeRequest, n int64) ([]string, error) {
	first, err := adminclient.RequestCode(ctx, cfg, req)
	if err != nil {
		return nil, err
	}
	codes := []string{first.Code}
	half := time.Now().Add(time.Until(first.ExpiresAt) / 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var taken atomic.Int64
	taken.Store(1)
	for range 8 {
		wg.Go(func() {
			for taken.Add(1) <= n && time.Now().Before(half) {
				answer, e := adminclient.RequestCode(ctx, cfg, req)
				mu.Lock()
				if e != nil {
					err = e
					mu.Unlock()
					return
				}
				codes = append(codes, answer.Code)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err == nil && int64(len(codes)) < n {
		fmt.Fprintf(errOut, "mintage: %d of %d codes issued: more would expire before they are redeemed (see --code-lifetime of serve)\n", len(codes), n)
	}
	return codes, err
}

// prepareForeign aims at any server.
func (b *benchFlags) prepareForeign(l *bench.Load) (err error) {
	l.Target = bench.Target{Endpoint: b.endpoint, ClientID: b.clientID, MaxExpiresIn: b.maxExpires}
	if b.caFile != "" {
		if l.Target.TLS, err = trust(b.caFile); err != nil {
			return err
		}
	}
	if b.secretFile != "" {
		text, err := os.ReadFile(b.secretFile)
		if err != nil {
			return err
		}
		if l.Target.ClientSecret = strings.TrimRight(string(text), "\r\n"); l.Target.ClientSecret == "" {
			return fmt.Errorf("%s holds no secret", b.secretFile)
		}
	}
	text, err := os.ReadFile(b.tokensFile)
	if err != nil {
		return err
	}
	tokens := strings.Fields(string(text))
	if len(tokens) < b.connections {
		return deployment.Hint(fmt.Errorf("%s holds %d refresh tokens, fewer than the %d connections", b.tokensFile, len(tokens), b.connections),
			"each connection needs one of its own: use fewer --connections")
	}
	slices.Sort(tokens)
	if len(slices.Compact(tokens)) != len(strings.Fields(string(text))) {
		return fmt.Errorf("%s holds a refresh token twice: a used one revokes its grant", b.tokensFile)
	}
	l.Chains = bench.Split(tokens, b.connections)
	return nil
}

// saveTokens rewrites the file in one step, so that it is never half there.
func (b *benchFlags) saveTokens(chains []*bench.Chains) error {
	if chains == nil {
		return nil
	}
	var text strings.Builder
	for _, c := range chains {
		for _, t := range c.Tokens() {
			text.WriteString(t + "\n")
		}
	}
	tmp := b.tokensFile + ".new"
	if err := os.WriteFile(tmp, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, b.tokensFile)
}

func trust(caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
	}
	return &tls.Config{RootCAs: pool}, nil
}

func (b *benchFlags) print(w io.Writer, l bench.Load, r *bench.Result) error {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	latency := [4]float64{ms(r.Latency.Quantile(.5)), ms(r.Latency.Quantile(.99)), ms(r.Latency.Quantile(.999)), ms(r.Latency.Max())}
	cpu := float64(r.CPUPerRequest().Nanoseconds()) / 1000
	if b.asJSON {
		type usage struct {
			PID      int     `json:"pid"`
			CPU      float64 `json:"cpu_us_per_request"`
			Resident int64   `json:"resident_bytes"`
			Peak     int64   `json:"peak_resident_bytes"`
		}
		var s *usage
		if r.Server != nil {
			s = &usage{l.PID, cpu, r.Server.Resident, r.Server.Peak}
		}
		return show.JSON(w, struct {
			Operation   string             `json:"operation"`
			Connections int                `json:"connections"`
			Seconds     float64            `json:"seconds"`
			Requests    int64              `json:"requests"`
			Throughput  float64            `json:"requests_per_second"`
			Latency     map[string]float64 `json:"latency_ms"`
			Errors      map[string]int64   `json:"errors"`
			Server      *usage             `json:"server"`
		}{b.operation, b.connections, r.Elapsed.Seconds(), r.Requests, r.Throughput(),
			map[string]float64{"p50": latency[0], "p99": latency[1], "p99.9": latency[2], "max": latency[3]}, r.Errors, s})
	}
	fields := [][2]string{
		{"requests", fmt.Sprintf("%d right in %.1f s on %d connections", r.Requests, r.Elapsed.Seconds(), b.connections)},
		{"throughput", fmt.Sprintf("%.0f/s", r.Throughput())},
		{"latency", fmt.Sprintf("p50 %.2f ms   p99 %.2f ms   p99.9 %.2f ms   max %.2f ms", latency[0], latency[1], latency[2], latency[3])},
	}
	if s := r.Server; s != nil {
		fields = append(fields,
			[2]string{"server CPU", fmt.Sprintf("%.1f µs per request, %.2f processors busy", cpu, s.CPU.Seconds()/r.Elapsed.Seconds())},
			[2]string{"server memory", fmt.Sprintf("%.0f MB resident, %.0f MB at most so far", float64(s.Resident)/1e6, float64(s.Peak)/1e6)})
	}
	return show.Fields(w, append(fields, [2]string{"errors", faults(r)}))
}

// faults lists errors by kind, the most frequent first.
func faults(r *bench.Result) string {
	if r.Failed() == 0 {
		return "none"
	}
	var list []string
	for _, kind := range r.Kinds() {
		list = append(list, fmt.Sprintf("%d × %s", r.Errors[kind], kind))
	}
	return strings.Join(list, "; ")
}
