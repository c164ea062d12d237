package resource

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/dpop"
)

// A Proof holds the DPoP proof for an access token, and the request that the proof must be
// for (RFC 9449 section 7).
type Proof struct {
	Header []string // its DPoP headers, of which there must be one
	Method string
	URL    string // as the client sent it; query and fragment do not count
}

// VerifyBound is [Verifier.Verify] for a token that came by the scheme DPoP. The proof
// must be made by the token's key, for this token and request, within a minute, and not
// have been seen by this Verifier. The error wraps ErrInvalidProof or ErrUseNonce if the
// proof is the reason.
func (v *Verifier) VerifyBound(ctx context.Context, token string, proof Proof, scopes ...string) (Principal, error) {
	read, err := v.seen.Read(proof.Header)
	now := time.Now()
	switch {
	case err != nil:
		return Principal{}, badProof(err)
	case v.nonces != nil && !v.nonces.Valid(read.Nonce, now):
		return Principal{}, ErrUseNonce
	}
	p, err := v.verify(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	if p.KeyThumbprint == "" {
		return Principal{}, invalid("bound to no key, and presented by the scheme DPoP")
	}
	// Compare the keys before the signature is verified, which costs the most.
	if p.KeyThumbprint != base64.RawURLEncoding.EncodeToString(read.Key[:]) {
		return Principal{}, invalid("bound to another key than that of the proof")
	}
	if err := read.Verify(dpop.Request{Method: proof.Method, URI: proof.URL, Token: token}, now); err != nil {
		return Principal{}, badProof(err)
	}
	if !v.seen.First(read, now) {
		return Principal{}, badProof(errors.New("its jti was used before"))
	}
	return v.admit(p, nil, scopes)
}

func badProof(err error) error { return fmt.Errorf("%w: %w", ErrInvalidProof, err) }

// proofOf returns the proof of a request to this API. It uses the path as the client sent
// it: decoding turns an encoded "?", "#", "%" or "/" into another path (RFC 3986 section
// 2.2), and http.StripPrefix shortens the path of r.URL.
func (v *Verifier) proofOf(r *http.Request) Proof {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath() // in absolute form, or from no connection
	}
	return Proof{r.Header["Dpop"], r.Method, v.cfg.Origin + path}
}

// noncesOf returns nonces by HMAC-SHA256 under a key, or nil for no key.
func noncesOf(key []byte) dpop.Nonces {
	if len(key) == 0 {
		return nil
	}
	return func(minute int64) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(binary.BigEndian.AppendUint64([]byte("nonce of a proof\x00"), uint64(minute)))
		return mac.Sum(nil)
	}
}

// scheme returns the challenge's scheme for a request: DPoP if its token came by it or is
// bound (RFC 9449 section 7.1).
func (v *Verifier) scheme(r *http.Request, err error) string {
	name, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if errors.Is(err, errBound) || strings.EqualFold(name, "DPoP") {
		return `DPoP realm="` + v.cfg.Audience + `", algs="` + strings.Join(dpop.Algorithms, " ") + `"`
	}
	return `Bearer realm="` + v.cfg.Audience + `"`
}
