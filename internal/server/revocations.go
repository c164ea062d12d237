package server

import (
	"context"
	"net/http"
)

// revocations is the signed list of what was revoked lately.
func (s *Server) revocations(ctx context.Context, _ *http.Request) (document, error) {
	text, err := s.issuer.Revocations(ctx)
	return document{mediaJWT, []byte(text), s.issuer.RevocationsMaxAge}, err
}
