package login

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Documents reads and writes the documents of one realm in the store.
type Documents struct {
	Realm     string
	Store     store.Store
	Directory *directory.Directory
	Now       func() time.Time
}

// now returns the instant of a decision.
func (ds Documents) now() grant.Instant { return grant.At(ds.Now()) }

// view returns this node's present view of the directory.
func (ds Documents) view() (*directory.View, error) {
	view, err := ds.Directory.View()
	return view, store.Unavailable(err)
}

// document reads a document, and its content into body. Its version is 0 if there is none.
func (ds Documents) document(ctx context.Context, kind store.DocumentKind, key store.DocumentKey, body any) (store.Document, error) {
	d, err := store.ReadDocument(ctx, ds.Store, kind, key, body)
	if d.Version == 0 {
		err = store.Unavailable(err)
	}
	return d, err
}

// seal returns what, sealed as the body of a document. A body that is too long is
// oauth.ErrTooLarge, because the sender of the request causes it, and not the store
// (CWE-770).
func (ds Documents) seal(box string, what any) ([]byte, error) {
	view, err := ds.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	// Without escapes for HTML, which would make long requests too long.
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(what); err != nil {
		return nil, err
	}
	sealed := view.Ring.SealBox(box, body.Bytes(), ds.now())
	if len(sealed) > store.MaxDocument {
		return nil, oauth.ErrTooLarge
	}
	return sealed, nil
}

// keepSealed stores a new document with an id until an instant.
func (ds Documents) keepSealed(ctx context.Context, kind store.DocumentKind, id string, until grant.Instant, box string, what any) error {
	body, err := ds.seal(box, what)
	if err != nil {
		return err
	}
	d := store.Document{Kind: kind, Key: store.KeyOf(kind, ds.Realm, id), Version: 1, ExpiresAt: until, Body: body}
	return store.Unavailable(ds.Store.Commit(ctx, store.Change{Documents: []store.Document{d}}))
}

// unseal reads the document of an id into what, or returns ErrInteraction. It does not look
// up a text that cannot be an id, and returns ErrInteraction even if the store is down.
func (ds Documents) unseal(ctx context.Context, kind store.DocumentKind, id, box string, what any) (d store.Document, err error) {
	if !isID(id) {
		return d, ErrInteraction
	}
	view, err := ds.Directory.View()
	if err != nil {
		return d, store.Unavailable(err)
	}
	d, found, err := store.FindDocument(ctx, ds.Store, store.KeyOf(kind, ds.Realm, id))
	if err != nil || !found {
		return d, cmp.Or(err, ErrInteraction)
	}
	body, err := view.Ring.OpenBox(box, d.Body)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(body, what)
}

// newID is 256 random bits as text.
func newID() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// isID reports whether newID can have made a text.
func isID(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}
