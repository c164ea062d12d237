package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
)

// keySet is the JWKS (RFC 7517 section 5). A key is in it before its first use
// for longer than anybody may keep the set.
func (s *Server) keySet(context.Context, *http.Request) (document, error) {
	list, err := s.issuer.PublicKeys()
	if err != nil {
		return document{}, err
	}
	body, err := json.Marshal(map[string]any{"keys": list})
	return document{media: "application/json", body: body, maxAge: s.issuer.Directory.Schedule.MaxAge}, err
}

// keyFile is one key of the set in PEM, for verifiers that read no JWKS.
func (s *Server) keyFile(_ context.Context, r *http.Request) (document, error) {
	kid, isPEM := strings.CutSuffix(r.PathValue("file"), ".pem")
	if !isPEM {
		return document{}, oauth.ErrNotFound
	}
	text, found, err := s.issuer.PublicPEM(kid)
	if err == nil && !found {
		err = oauth.ErrNotFound
	}
	return document{media: "application/x-pem-file", body: text, maxAge: s.issuer.Directory.Schedule.MaxAge}, err
}
