package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Proofs says how DPoP proofs of clients' keys (RFC 9449) are verified. Seen belongs to
// the node: a reload of the configuration does not replace it.
type Proofs struct {
	Seen *dpop.Seen
	// Nonces makes the nonces that proofs of public clients, or of all clients if OfAll is
	// set, must contain. Nil: no proof needs one.
	Nonces dpop.Nonces
	OfAll  bool
	// Shared is the store of several nodes, which records the proofs that must contain a
	// nonce: each of them is accepted once by all nodes together. Nil: Nonces are those of
	// this process.
	Shared store.Store
	Now    func() time.Time
}

// HasProof reports whether the request has a DPoP header.
func (r *Request) HasProof() bool { return len(r.Header["Dpop"]) > 0 }

// AskNonce returns an error if the proof lacks a required nonce (RFC 9449 section 8). Call
// it before consuming anything that can be used once. It verifies nothing else of the proof.
func (r *Request) AskNonce(p oauth.Params) error {
	cred, err := r.credentials(p)
	alone := r.onlyAsserts(p) // with or without a client_id
	if !r.HasProof() || r.server.Proofs.Nonces == nil || err != nil && !alone {
		return nil // Client reports defects of the credentials later
	}
	if c, known := r.server.directory.Latest().Registered(r.server.Realm, cred.ClientID); known && c.DPoP == store.DPoPOff {
		return nil // its proofs are ignored
	}
	return r.askNonce(alone || cred.Method == oauth.AuthNone)
}

func (r *Request) askNonce(public bool) error {
	if !r.OfferNonce(public) {
		return nil
	}
	of := r.server.Proofs
	proof, err := of.Seen.Read(r.Header["Dpop"])
	if err != nil || of.Nonces.Valid(proof.Nonce, of.Now()) {
		return nil
	}
	r.server.Metrics.Proof(metrics.ProofWithoutNonce)
	return oauth.ErrProofNonce
}

// OfferNonce adds a nonce to the answer and returns true if proofs of clients that are
// public, or are not, must contain one. It does so even if the request has no proof, which
// saves the client a request (RFC 9449 section 8).
func (r *Request) OfferNonce(public bool) bool {
	of := r.server.Proofs
	if of.Nonces == nil || !public && !of.OfAll {
		return false
	}
	r.nonce = of.Nonces.At(of.Now())
	return true
}

// Proof verifies the request's proof for a method, an address and, unless token is "", an
// access token. It returns the key that signed the proof; zero if there is no proof.
func (r *Request) Proof(ctx context.Context, method, uri, token string) (oauth.JKT, error) {
	if !r.HasProof() {
		return oauth.JKT{}, nil
	}
	of := r.server.Proofs
	proof, err := of.Seen.Read(r.Header["Dpop"])
	now := of.Now()
	if err == nil {
		err = proof.Verify(dpop.Request{Method: method, URI: uri, Token: token}, now)
	}
	result := metrics.ProofInvalid
	if err == nil {
		first, fault := r.isFirst(ctx, proof, now)
		if fault != nil {
			return oauth.JKT{}, fault
		}
		if !first {
			result, err = metrics.ProofReplayed, dpop.Fault("its jti was used before")
		}
	}
	if err != nil {
		r.server.Metrics.Proof(result)
		return oauth.JKT{}, fmt.Errorf("%w: %w", oauth.ErrProof, err)
	}
	r.server.Metrics.Proof(metrics.ProofAccepted)
	r.key = proof.Key
	return proof.Key, nil
}

// isFirst notes a proof that was verified, and reports whether it was not seen before.
func (r *Request) isFirst(ctx context.Context, proof *dpop.Proof, now time.Time) (bool, error) {
	of := r.server.Proofs
	if !of.Seen.First(proof, now) {
		return false, nil
	}
	if demanded := r.nonce != ""; of.Shared == nil || !demanded {
		return true, nil
	}
	// Its iat may be ahead by a Window, and it is valid for another one.
	return store.RecordUse(ctx, of.Shared, store.DocumentProof, r.server.Realm, string(proof.Key[:])+proof.ID, grant.At(now).Add(2*dpop.Window))
}

// OwnProof is Proof for the method and the address of r itself. Public is set for a client
// that has not authenticated itself: AskNonce may have taken it for another, by credentials
// that nobody has verified.
func (r *Request) OwnProof(ctx context.Context, public bool) (oauth.JKT, error) {
	if !r.HasProof() {
		return oauth.JKT{}, nil // most requests: do not build their address
	}
	if asked := r.nonce != ""; public && !asked {
		if err := r.askNonce(true); err != nil {
			return oauth.JKT{}, err
		}
	}
	return r.Proof(ctx, r.Method, r.OwnURI(), "")
}

// OwnURI returns the address to which the client has sent the request, without the query.
// It reads RequestURI, because the routing by realm may have rewritten r.URL.
func (r *Request) OwnURI() string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.Path // the request is from this process, or in absolute form
	}
	return r.server.PublicURL + path
}

// Presented verifies that an access token came with a proof of the key to which it is
// bound, for a method and an address (RFC 9449 section 7), or without if bound is zero.
func (r *Request) Presented(ctx context.Context, token string, bound oauth.JKT, method, uri string) error {
	if bound.Bound() && !r.HasProof() {
		r.OfferNonce(true)
	}
	switch {
	case bound.Bound() != r.dpop:
		r.dpop = r.dpop || bound.Bound() // for the challenge
		return oauth.ErrInvalidToken
	case !r.dpop:
		return nil
	case !r.HasProof():
		return oauth.ErrTokenProof
	}
	if err := r.askNonce(true); err != nil {
		return oauth.ErrTokenNonce
	}
	key, err := r.Proof(ctx, method, uri, token)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", oauth.ErrTokenProof, err)
	case key != bound:
		return fmt.Errorf("%w: the proof was made by another key than that of the token", oauth.ErrInvalidToken)
	}
	return nil
}

// maxBearer is the longest access token that is read, in characters.
const maxBearer = 8192

// Token is Bearer, but also accepts the DPoP scheme (RFC 9449 section 7.1). Call Presented
// to verify the proof.
func (r *Request) Token() (text string, err error) {
	if h := r.Header["Authorization"]; len(h) == 1 {
		scheme, rest, _ := strings.Cut(h[0], " ")
		if r.dpop = strings.EqualFold(scheme, "DPoP"); r.dpop {
			return bearer([]string{"Bearer " + rest})
		}
	}
	return r.Bearer()
}

// Bearer returns the access token of the Authorization header (RFC 6750 section
// 2.1).
func (r *Request) Bearer() (text string, err error) { return bearer(r.Header["Authorization"]) }

func bearer(h []string) (text string, err error) {
	if len(h) == 0 || len(h) == 1 && !isBearer(h[0]) {
		return "", oauth.ErrNoBearer
	}
	_, text, _ = strings.Cut(h[0], " ")
	text = strings.TrimLeft(text, " ") // RFC 6750 section 2.1: one or more
	if len(h) > 1 || text == "" || len(text) > maxBearer || strings.ContainsAny(text, " ,") {
		return "", oauth.ErrBearer
	}
	return text, nil
}
