package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/bench"
)

// A shape is a way in which clients send a refresh.
type shape struct {
	name        string
	connections int
	bench.Shape
	streams int // HTTP/2 streams per connection; 0 means HTTP/1.1
}

// shapes are the requests of clients in their versions of 2026, and other numbers of
// connections than elsewhere in the suite. The clients of Java, Python and Node send
// header and body in separate writes.
var shapes = []shape{
	{"the suite's own", 64, bench.Shape{}, 0},
	{"the same", 8, bench.Shape{}, 0},
	{"the same", 256, bench.Shape{}, 0},
	{"curl", 64, bench.Shape{Header: []string{"User-Agent: curl/8.14.1", "Accept: */*"}}, 0},
	{"Go net/http", 64, bench.Shape{Header: []string{"User-Agent: Go-http-client/1.1", "Accept-Encoding: gzip"}}, 0},
	{"Java HttpClient", 64, bench.Shape{Header: []string{"User-Agent: Java-http-client/21.0.8"}, Apart: true}, 0},
	{"Node fetch", 64, bench.Shape{Header: []string{"connection: keep-alive", "accept: */*", "accept-language: *", "sec-fetch-mode: cors", "user-agent: node", "accept-encoding: gzip, deflate"}, Apart: true}, 0},
	{"Python requests", 64, bench.Shape{Header: []string{"User-Agent: python-requests/2.32.4", "Accept-Encoding: gzip, deflate", "Accept: */*", "Connection: keep-alive"}, Apart: true}, 0},
	{"HTTP/2, ten streams each", 8, bench.Shape{}, 10},
}

// measureShapes compares the clients' shapes. The server's cost of each is relative to
// that of the suite's own shape in the same round.
func measureShapes(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	s := &suite{options: opt, dir: dir, report: newReport(opt)}
	defer func() {
		if s.small != nil {
			s.small.kill()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if s.program, err = opt.build(ctx, dir); err != nil {
		return err
	}
	if s.small, err = s.host(ctx, "small", smallGrants); err != nil {
		return err
	}
	tokens := s.small.data.tokens
	costs := make([][]float64, len(shapes))
	rates := make([][]float64, len(shapes))
	p99 := make([][]float64, len(shapes))
	for round := range opt.rounds + 1 { // the first round is a warm-up
		for i, shape := range shapes {
			var r *bench.Result
			if r, tokens, err = s.send(ctx, shape, tokens); err != nil {
				return fmt.Errorf("%s: %w", shape.name, err)
			}
			if r.Failed() > 0 {
				return fmt.Errorf("%s: %v", shape.name, r.Errors)
			}
			if round > 0 {
				costs[i] = append(costs[i], float64(r.CPUPerRequest().Nanoseconds())/1000)
				rates[i] = append(rates[i], r.Throughput())
				p99[i] = append(p99[i], r.Latency.Quantile(.99).Seconds()*1000)
			}
		}
		note("round %d/%d", round, opt.rounds)
	}
	fmt.Printf("%s. Refreshes on 1,000 grants, %d rounds of runs of %s in turn; median (smallest to largest). A ratio is the median of the ratios within each round.\n\n", machine(), opt.rounds, opt.duration)
	fmt.Println("| requests of | connections | requests/s | server CPU µs/request | of the suite's own | p99 ms |\n| --- | ---: | ---: | ---: | ---: | ---: |")
	worst, most := "", 0.0
	for i, shape := range shapes {
		var ratios []float64
		for n, cost := range costs[i] {
			ratios = append(ratios, cost/costs[0][n])
		}
		if r := median(slices.Clone(ratios)); r > most {
			worst, most = fmt.Sprintf("%s, %d connections", shape.name, shape.connections), r
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %s |\n", shape.name, shape.connections, between(rates[i], thousands), between(costs[i], oneDigit), between(ratios, twoDigits), between(p99[i], oneDigit))
	}
	fmt.Printf("\nThe worst: %s, %.2f times the processor time.\n", worst, most)
	return nil
}

func oneDigit(v float64) string  { return fmt.Sprintf("%.1f", v) }
func twoDigits(v float64) string { return fmt.Sprintf("%.2f", v) }

// between formats the median, the smallest and the largest of a list.
func between(list []float64, format func(float64) string) string {
	list = slices.Clone(list)
	middle := median(list) // sorts
	return fmt.Sprintf("%s (%s to %s)", format(middle), format(list[0]), format(list[len(list)-1]))
}

// send makes one run and returns the next tokens.
func (s *suite) send(ctx context.Context, shape shape, tokens []string) (*bench.Result, []string, error) {
	target := s.small.target
	target.Shape = shape.Shape
	if shape.streams > 0 {
		return s.multiplex(ctx, target, shape, tokens)
	}
	chains := bench.Split(tokens, shape.connections)
	r, err := bench.Load{Target: target, Operation: bench.Refresh, Connections: shape.connections, Duration: s.duration, Chains: chains, PID: s.small.pid()}.Run(ctx)
	tokens = nil
	for _, c := range chains {
		tokens = append(tokens, c.Tokens()...)
	}
	return r, tokens, err
}

// multiplex is send over HTTP/2 with several streams per connection. It uses net/http's
// client, which needs more processor time than the other shapes' client: only the
// server's own processor time is comparable, not the rate.
func (s *suite) multiplex(ctx context.Context, target bench.Target, shape shape, tokens []string) (*bench.Result, []string, error) {
	clients := make([]http.Client, shape.connections)
	for i := range clients {
		clients[i].Transport = &http.Transport{TLSClientConfig: target.TLS.Clone(), ForceAttemptHTTP2: true}
		defer clients[i].CloseIdleConnections()
		var err error
		if tokens[i], err = refreshOnce(ctx, &clients[i], target, tokens[i]); err != nil { // the handshake does not count
			return nil, tokens, err
		}
	}
	before, err := bench.ReadUsage(s.small.pid())
	if err != nil {
		return nil, tokens, err
	}
	result := &bench.Result{Errors: map[string]int64{}}
	var mu sync.Mutex
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for c := range clients {
		for range shape.streams {
			all.Go(func() {
				var latency bench.Histogram
				var done int64
				for time.Since(began) < s.duration {
					i := int(next.Add(1)) % len(tokens) // far fewer streams than tokens, so no token is used twice simultaneously
					at := time.Now()
					token, err := refreshOnce(ctx, &clients[c], target, tokens[i])
					if err != nil {
						mu.Lock()
						result.Errors[err.Error()]++
						mu.Unlock()
						return
					}
					tokens[i] = token
					latency.Add(time.Since(at))
					done++
				}
				mu.Lock()
				result.Latency.Merge(&latency)
				result.Requests += done
				mu.Unlock()
			})
		}
	}
	all.Wait()
	result.Elapsed = time.Since(began)
	after, err := bench.ReadUsage(s.small.pid())
	after.CPU -= before.CPU
	result.Server = &after
	return result, tokens, err
}

// refreshOnce refreshes a token over HTTP/2 and returns the next one.
func refreshOnce(ctx context.Context, client *http.Client, target bench.Target, token string) (string, error) {
	next, protocol, err := redeem(ctx, client, target, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
	if err == nil && protocol != 2 {
		err = fmt.Errorf("HTTP/%d, not HTTP/2", protocol)
	}
	return next.Refresh, err
}

// A pair is the tokens of a response.
type pair struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

// redeem sends the parameters of a grant, and the client's secret, to a token endpoint.
// It returns the tokens and the version of HTTP.
func redeem(ctx context.Context, client *http.Client, target bench.Target, form url.Values) (p pair, protocol int, err error) {
	form.Set("client_id", target.ClientID)
	form.Set("client_secret", target.ClientSecret)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return p, 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(r)
	if err != nil {
		return p, 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err = cmp.Or(err, json.Unmarshal(text, &p)); err != nil || answer.StatusCode != http.StatusOK || p.Access == "" || p.Refresh == "" {
		return p, 0, fmt.Errorf("%s %s: %s, %v", answer.Proto, answer.Status, text, err)
	}
	return p, answer.ProtoMajor, nil
}
