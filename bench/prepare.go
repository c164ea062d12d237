package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/deployment"
)

// This file prepares a load with codes and tokens, and prints its result.

// IssueCodes calls issue until it has n codes. It stops early when half of the first
// code's lifetime is over, because all codes must still be usable.
func IssueCodes(ctx context.Context, n int64, issue func(context.Context) (code string, expires time.Time, err error)) ([]string, error) {
	first, expires, err := issue(ctx)
	if err != nil {
		return nil, err
	}
	codes := []string{first}
	half := time.Now().Add(time.Until(expires) / 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var taken atomic.Int64
	taken.Store(1)
	for range 8 {
		wg.Go(func() {
			for taken.Add(1) <= n && time.Now().Before(half) {
				code, _, e := issue(ctx)
				mu.Lock()
				if e != nil {
					err = e
					mu.Unlock()
					return
				}
				codes = append(codes, code)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return codes, err
}

// Redeem redeems codes and uses the refresh tokens for the load.
func (l *Load) Redeem(ctx context.Context, codes []string) error {
	redeem := Load{Target: l.Target, Operation: Code, Connections: l.Connections, Codes: codes, Collect: true}
	r, err := redeem.Run(ctx)
	if err != nil {
		return err
	}
	if n := r.Failed(); n > 0 {
		return fmt.Errorf("%d of %d codes were not redeemed: %s", n, len(codes), r.faults())
	}
	l.Chains = Split(r.Tokens, l.Connections)
	return nil
}

// ReadTokens reads the load's refresh tokens from a file, one per line.
func (l *Load) ReadTokens(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tokens := strings.Fields(string(text))
	if len(tokens) < l.Connections {
		return deployment.Hint(fmt.Errorf("%s holds %d refresh tokens, fewer than the %d connections", file, len(tokens), l.Connections),
			"each connection needs one of its own: use fewer --connections")
	}
	slices.Sort(tokens)
	if len(slices.Compact(tokens)) != len(strings.Fields(string(text))) {
		return fmt.Errorf("%s holds a refresh token twice: a used one revokes its grant", file)
	}
	l.Chains = Split(tokens, l.Connections)
	return nil
}

// SaveTokens atomically replaces the file by the load's current refresh tokens.
func (l *Load) SaveTokens(file string) error {
	if l.Chains == nil {
		return nil
	}
	var text strings.Builder
	for _, c := range l.Chains {
		for _, t := range c.Tokens() {
			text.WriteString(t + "\n")
		}
	}
	return deployment.ReplaceFile(file, []byte(text.String()), 0o600)
}

// Trust returns a TLS configuration that trusts the certificate authorities in a file.
func Trust(caFile string) (*tls.Config, error) {
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

// Fields returns the result for people.
func (r *Result) Fields(l Load) [][2]string {
	fields := [][2]string{
		{"requests", fmt.Sprintf("%d right in %.1f s on %d connections", r.Requests, r.Elapsed.Seconds(), l.Connections)},
		{"throughput", fmt.Sprintf("%.0f/s", r.Throughput())},
		{"latency", fmt.Sprintf("p50 %.2f ms   p99 %.2f ms   p99.9 %.2f ms   max %.2f ms",
			ms(r.Latency.Quantile(.5)), ms(r.Latency.Quantile(.99)), ms(r.Latency.Quantile(.999)), ms(r.Latency.Max()))},
	}
	if s := r.Server; s != nil {
		fields = append(fields,
			[2]string{"server CPU", fmt.Sprintf("%.1f µs per request, %.2f processors busy", r.cpu(), s.CPU.Seconds()/r.Elapsed.Seconds())},
			[2]string{"server memory", fmt.Sprintf("%.0f MB resident, %.0f MB at most so far", float64(s.Resident)/1e6, float64(s.Peak)/1e6)})
	}
	return append(fields, [2]string{"errors", r.faults()})
}

// View returns the result for programs.
func (r *Result) View(l Load) any {
	type usage struct {
		PID      int     `json:"pid"`
		CPU      float64 `json:"cpu_us_per_request"`
		Resident int64   `json:"resident_bytes"`
		Peak     int64   `json:"peak_resident_bytes"`
	}
	var s *usage
	if r.Server != nil {
		s = &usage{l.PID, r.cpu(), r.Server.Resident, r.Server.Peak}
	}
	return struct {
		Operation   Operation          `json:"operation"`
		Connections int                `json:"connections"`
		Seconds     float64            `json:"seconds"`
		Requests    int64              `json:"requests"`
		Throughput  float64            `json:"requests_per_second"`
		Latency     map[string]float64 `json:"latency_ms"`
		Errors      map[string]int64   `json:"errors"`
		Server      *usage             `json:"server"`
	}{l.Operation, l.Connections, r.Elapsed.Seconds(), r.Requests, r.Throughput(),
		map[string]float64{"p50": ms(r.Latency.Quantile(.5)), "p99": ms(r.Latency.Quantile(.99)), "p99.9": ms(r.Latency.Quantile(.999)), "max": ms(r.Latency.Max())}, r.Errors, s}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cpu returns the server's processor time per request, in microseconds.
func (r *Result) cpu() float64 { return float64(r.CPUPerRequest().Nanoseconds()) / 1000 }

// faults returns errors by kind, the most frequent first.
func (r *Result) faults() string {
	if r.Failed() == 0 {
		return "none"
	}
	var list []string
	for _, kind := range r.Kinds() {
		list = append(list, fmt.Sprintf("%d × %s", r.Errors[kind], kind))
	}
	return strings.Join(list, "; ")
}
