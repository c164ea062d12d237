package resource

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// keySet is the JWKS (RFC 7517 section 5). A key is in it before its first use
// for longer than anybody may keep the set.
func (e *Endpoints) keySet(context.Context, *server.Request) (server.Publication, error) {
	list, err := e.Issuer.Signer().PublicKeys()
	if err != nil {
		return server.Publication{}, err
	}
	body, err := json.Marshal(map[string]any{"keys": list})
	return server.Publication{Media: "application/json", Body: body, MaxAge: e.Directory.Schedule.MaxAge}, err
}

// keyFile is one key of the set in PEM, for verifiers that read no JWKS.
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

// A published list is large, asked for often, and the same for all who ask
// within a second: its bytes and its tag are made once and shared.
type publishedList struct {
	text string
	server.Publication
}

// revocations is the signed list of what was revoked lately.
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
