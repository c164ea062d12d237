package server

import (
	"context"
	"net/http"
)

// A published list is large, asked for often, and the same for all who ask
// within a second: its bytes and its tag are made once and shared.
type publishedList struct {
	text string
	document
}

// revocations is the signed list of what was revoked lately.
func (s *Server) revocations(ctx context.Context, _ *http.Request) (document, error) {
	text, err := s.issuer.Revocations(ctx)
	if err != nil {
		return document{}, err
	}
	if last := s.revoked.Load(); last != nil && last.text == text {
		return last.document, nil
	}
	body := []byte(text)
	list := &publishedList{text, document{media: mediaJWT, body: body, tag: entityTag(body), maxAge: s.issuer.RevocationsMaxAge}}
	s.revoked.Store(list)
	return list.document, nil
}
