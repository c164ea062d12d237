package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// register is the registration endpoint (RFC 7591 section 3). It stores nothing, and
// JSONBody limits how much each address may register.
func (e *Endpoints) register(_ context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	if err = r.Early(); err != nil {
		return a, rec, err
	}
	if _, err = r.Query(r.URL.RawQuery); err != nil {
		return a, rec, err
	}
	body, err := r.JSONBody()
	if err != nil {
		return a, rec, err
	}
	if err = r.Enter(r.Route.Class); err != nil {
		return a, rec, err
	}
	if want := e.Registrations.Token; want != "" {
		token, err := r.Bearer()
		if err != nil {
			return a, rec, err
		}
		have, need := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
		if subtle.ConstantTimeCompare(have[:], need[:]) != 1 {
			return a, rec, oauth.ErrInvalidToken
		}
	}
	registered, err := e.Registrations.Register(body)
	if err != nil {
		return a, rec, err
	}
	rec.ClientID = registered.ID
	a.Status = http.StatusCreated
	a.Body, err = json.Marshal(registered)
	return a, rec, err
}
