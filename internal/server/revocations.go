package server

import (
	"context"
)

// A published list is large, asked for often, and the same for all who ask
// within a second: its bytes and its tag are made once and shared.
type publishedList struct {
	text string
	Document
}

// revocations is the signed list of what was revoked lately.
func (e *ResourceEndpoints) revocations(ctx context.Context, _ *Request) (Document, error) {
	text, err := e.Issuer.Revocations(ctx)
	if err != nil {
		return Document{}, err
	}
	if last := e.revoked.Load(); last != nil && last.text == text {
		return last.Document, nil
	}
	body := []byte(text)
	list := &publishedList{text, Document{Media: mediaJWT, Body: body, Tag: EntityTag(body), MaxAge: e.Issuer.RevocationsMaxAge}}
	e.revoked.Store(list)
	return list.Document, nil
}
