package resource

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// keySet returns the JWKS (RFC 7517 section 5). It contains a key before the key's
// first use, for longer than verifiers may cache the set.
func (e *Endpoints) keySet(context.Context, *server.Request) (server.Publication, error) {
	list, err := e.Issuer.Signer().PublicKeys()
	if err != nil {
		return server.Publication{}, err
	}
	body, err := json.Marshal(map[string]any{"keys": list})
	return server.Publication{Media: "application/json", Body: body, MaxAge: e.Directory.Schedule.MaxAge}, err
}

// keyFile returns one key of the set in PEM, for verifiers that read no JWKS.
func (e *Endpoints) keyFile(_ context.Context, r *server.Request) (server.Publication, error) {
	kid, isPEM := strings.CutSuffix(r.PathValue("file"), ".pem")
	if !isPEM {
		return server.Publication{}, oauth.ErrNotFound
	}
	text, found, err := e.Issuer.Signer().PublicPEM(kid)
	if err == nil && !found {
		err = oauth.ErrNotFound
	}
	return server.Publication{Media: "application/x-pem-file", Body: text, MaxAge: e.Directory.Schedule.MaxAge}, err
}

// A publishedList is a signed list of revocations and its entity tag. Requests share
// them, because the list is large, requested often, and the same within a second.
type publishedList struct {
	text string
	server.Publication
}

// revocations returns the signed list of recent revocations.
func (e *Endpoints) revocations(ctx context.Context, _ *server.Request) (server.Publication, error) {
	text, err := e.Issuer.Revocations(ctx)
	if err != nil {
		return server.Publication{}, err
	}
	if last := e.revoked.Load(); last != nil && last.text == text {
		return last.Publication, nil
	}
	body := []byte(text)
	list := &publishedList{text, server.Publication{Media: mediaJWT, Body: body, Tag: server.EntityTag(body), MaxAge: e.Issuer.RevocationsMaxAge}}
	e.revoked.Store(list)
	return list.Publication, nil
}
