package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/oauth"
)

// proxied is the origin of the API whose proxy requests verification.
const proxied = "https://api.example.com"

// A prover makes DPoP proofs (RFC 9449) with one ES256 key.
type prover struct {
	key    *ecdsa.PrivateKey
	jkt    oauth.JKT
	header string // encoded
	fixed  string // a proof for no particular request
}

func newProver() (*prover, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	jwk := fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, encode(point[1:33]), encode(point[33:]))
	p := &prover{key: key, jkt: sha256.Sum256([]byte(jwk)), header: encode([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":` + jwk + `}`))}
	p.fixed = p.proof("POST", proxied, "", time.Now())
	return p, nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *prover) proof(method, uri, token string, at time.Time) string {
	claims := fmt.Sprintf(`{"jti":"%s","htm":"%s","htu":"%s","iat":%d`, rand.Text(), method, uri, at.Unix())
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims += `,"ath":"` + encode(sum[:]) + `"`
	}
	text := p.header + "." + encode([]byte(claims+"}"))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		panic(err) // the random source does not fail
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// same returns a constant proof that nobody verifies, so that the yardstick's requests
// have the same length.
func (p *prover) same([]byte) string { return p.fixed }

// ahead makes n proofs before a run, which therefore does not measure their creation, and
// returns a function that hands them out. With chains, the proofs are for their access
// tokens, in the order in which each connection uses these. Further proofs are made
// during the run.
func (p *prover) ahead(method, uri string, chains []*bench.Chains, n int) func([]byte) string {
	now := time.Now()
	if chains == nil {
		made, next := make([]string, n), atomic.Int64{}
		p.each(n, func(i int) { made[i] = p.proof(method, uri, "", now) })
		return func([]byte) string {
			if i := int(next.Add(1)) - 1; i < len(made) {
				return made[i]
			}
			return p.proof(method, uri, "", time.Now())
		}
	}
	var tokens []string
	for _, c := range chains {
		tokens = append(tokens, c.Tokens()...)
	}
	each := n/len(tokens) + 1
	made := make([]string, each*len(tokens))
	p.each(len(made), func(i int) { made[i] = p.proof(method, uri, tokens[i/each], now) })
	of := map[string]*queue{}
	for i, t := range tokens {
		of[t] = &queue{left: made[i*each : (i+1)*each]}
	}
	return func(credential []byte) string {
		// One connection uses a token, so its queue needs no lock.
		if q := of[string(credential)]; len(q.left) > 0 {
			first := q.left[0]
			q.left = q.left[1:]
			return first
		}
		return p.proof(method, uri, strings.Clone(string(credential)), time.Now())
	}
}

// A queue holds proofs for one token.
type queue struct{ left []string }

// each calls f for 0 to n-1, on all processors.
func (p *prover) each(n int, f func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// prove makes a load send proofs, if its measurement is about them.
func (s *suite) prove(l *bench.Load, name string, d time.Duration) {
	switch name {
	case bareVerifying:
		l.Target.Proof = s.prover.same
	case refreshBound:
		address, _, _ := strings.Cut(l.Target.Endpoint, "?")
		l.Target.Proof = s.prover.ahead("POST", address, nil, s.proofs(name, d))
	case verifyBound:
		l.Target.Endpoint += "&dpop=" + proxied
		l.Target.Proof = s.prover.ahead("GET", proxied+"/", l.Chains, s.proofs(name, d))
	}
}

// proofs estimates how many proofs a run needs, from the fastest run so far.
func (s *suite) proofs(name string, d time.Duration) int {
	rate := s.codeRate[name] * 1.5
	if rate == 0 {
		rate = 10_000
	}
	return max(int(rate*d.Seconds()), 1000)
}
