package token

import (
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// keyOf returns the key that has signed the proof of a client's request (RFC 9449
// section 5), or zero if there is none or the client uses no proofs. The proof is
// verified once its client is known, and before anything is consumed.
func keyOf(r *server.Request, c *store.Client) (oauth.JKT, error) {
	switch {
	case c.DPoP == store.DPoPOff:
		return oauth.JKT{}, nil
	case c.DPoP == store.DPoPRequired && !r.HasProof():
		return oauth.JKT{}, oauth.ErrNoProof
	}
	return r.OwnProof("")
}
