package resource

import (
	"context"

	"github.com/mintage/mintage/internal/server"
)

// A published list is large, asked for often, and the same for all who ask
// within a second: its bytes and its tag are made once and shared.
type publishedList struct {
	text string
	server.Document
}

// revocations is the signed list of what was revoked lately.
func (e *Endpoints) revocations(ctx context.Context, _ *server.Request) (server.Document, error) {
	text, err := e.Issuer.Revocations(ctx)
	if err != nil {
		return server.Document{}, err
	}
	if last := e.revoked.Load(); last != nil && last.text == text {
		return last.Document, nil
	}
	body := []byte(text)
	list := &publishedList{text, server.Document{Media: mediaJWT, Body: body, Tag: server.EntityTag(body), MaxAge: e.Issuer.RevocationsMaxAge}}
	e.revoked.Store(list)
	return list.Document, nil
}
