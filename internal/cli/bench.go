package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
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

// benchCodes is the default of --requests for --operation code.
const benchCodes = 20_000

func newBench(s *settings) *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put load on a token endpoint and measure its answers",
		Long: `Put load on a token endpoint and measure its responses. Each connection owns
refresh tokens: it sends one, checks the response (status, members, lifetime, a new
token of the same grant), and continues with the new token.

Without --token-endpoint, the load goes to the server that runs with "mintage serve
--dev" on the same --data. The demo client redeems codes from the admin socket
first, outside the measured time. The grants stay in the store until they expire.

With --token-endpoint, the load goes to any server: give the client's credentials,
and --refresh-tokens, a file with at least one refresh token for each connection.
The file is rewritten with the tokens that replaced them.

Operations (--operation):
  refresh  refresh on open connections, for --duration
  connect  the same, with a new TLS connection and a full handshake each
  code     redeem a new code with each request; the codes are issued before the
           measurement, and the run ends with the last of them (--requests, 20000
           by default) or after --duration

If the server runs on this machine, its CPU time per request and its memory are
read from /proc: the process is found by the admin socket, or named with
--server-pid. The exit status is 1 if any request failed.`,
		Example: `  mintage serve --dev & sleep 1; mintage bench

  mintage bench --operation code --requests 5000
  mintage bench --connections 1 --requests 1000 --json

  mintage bench --token-endpoint https://auth.example.com/oauth2/api/access_token --ca-file ca.pem \
    --client-id billing --client-secret-file secret.txt --refresh-tokens tokens.txt --connections 8`,
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
	f.IntVar(&b.connections, "connections", 64, "number of connections")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "length of the run; unlimited if only --requests is given")
	f.Int64Var(&b.requests, "requests", 0, "end after this many requests")
	f.IntVar(&b.grants, "grants", 0, "grants to refresh on the --dev server; default: one for each connection")
	f.StringVar(&b.endpoint, "token-endpoint", "", "https URL of another server's token endpoint")
	f.StringVar(&b.clientID, "client-id", "", "client id there")
	f.StringVar(&b.secretFile, "client-secret-file", "", "file with the client's secret; default: a public client")
	f.StringVar(&b.caFile, "ca-file", "", "certificate authorities to trust, PEM; default: the system's")
	f.StringVar(&b.tokensFile, "refresh-tokens", "", "file with refresh tokens, one per line; it is rewritten")
	f.Int64Var(&b.maxExpires, "max-expires-in", 300, "maximum expires_in, in seconds")
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
	b.grants = cmp.Or(b.grants, b.connections)
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
		defer func() { err = errors.Join(err, l.SaveTokens(b.tokensFile)) }()
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
	// Print what was measured, even if the run was interrupted.
	if printErr := output(cmd, b.asJSON, r.View(l), fields(r.Fields(l))); err == nil {
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

// prepareDev makes the --dev server the target, and gets codes and tokens from it.
func (b *benchFlags) prepareDev(ctx context.Context, errOut io.Writer, cfg config.Config, l *bench.Load) error {
	dev, err := deployment.ReadDevFile(cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return deployment.Hint(fmt.Errorf("no --dev server to be found: %w", err), "start `mintage serve --dev` with the same --data first, or name any server with --token-endpoint")
	}
	if err != nil {
		return deployment.Hint(fmt.Errorf("no --dev server to be found: %w", err), "run this as the user who runs the server")
	}
	l.Target = bench.Target{Endpoint: dev.TokenEndpoint, ClientID: dev.ClientID, ClientSecret: dev.ClientSecret,
		RedirectURI: dev.RedirectURI, MaxExpiresIn: b.maxExpires}
	if l.Target.TLS, err = bench.Trust(dev.CAFile); err != nil {
		return err
	}
	cfg.Admin.Listen = cmp.Or(cfg.Admin.Listen, "unix:"+dev.AdminSocket)
	n := int64(b.grants)
	if l.Operation == bench.Code {
		n = b.requests
	}
	req := adminapi.CodeRequest{ClientID: dev.ClientID, RedirectURI: dev.RedirectURI, Subject: "mintage-bench", Scope: "read write"}
	api, err := adminclient.Open(cfg, "")
	if err != nil {
		return err
	}
	codes, err := bench.IssueCodes(ctx, n, func(ctx context.Context) (string, time.Time, error) {
		var answer adminapi.CodeAnswer
		err := api.Post(ctx, req, &answer, "codes")
		return answer.Code, answer.ExpiresAt, err
	})
	if err != nil {
		return err
	}
	if int64(len(codes)) < n {
		fmt.Fprintf(errOut, "mintage: %d of %d codes issued: more would expire before they are redeemed (see --code-lifetime of serve)\n", len(codes), n)
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
	return l.Redeem(ctx, codes)
}

// prepareForeign makes the server of --token-endpoint the target, and reads the tokens.
func (b *benchFlags) prepareForeign(l *bench.Load) (err error) {
	l.Target = bench.Target{Endpoint: b.endpoint, ClientID: b.clientID, MaxExpiresIn: b.maxExpires}
	if b.caFile != "" {
		if l.Target.TLS, err = bench.Trust(b.caFile); err != nil {
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
	return l.ReadTokens(b.tokensFile)
}
