package issuer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mintage/mintage/internal/store"
)

// An issuer identifier never changes: it is in every JWT, and clients and
// resource servers compare with it. The store remembers it, so that a change is
// noticed that nobody meant.

type identity struct {
	Issuer string `json:"issuer"`
}

func identityKey(realm string) store.DocumentKey {
	return store.KeyOf(store.DocumentDeployment, realm, "issuer")
}

// RememberedIssuer is the issuer identifier that the store remembers for a
// realm, or "".
func RememberedIssuer(ctx context.Context, st store.Store, realm string) (string, error) {
	_, id, err := readIdentity(ctx, st, realm)
	return id.Issuer, err
}

func readIdentity(ctx context.Context, st store.Store, realm string) (store.Document, identity, error) {
	var id identity
	d, err := st.Document(ctx, identityKey(realm))
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{Kind: store.DocumentDeployment, Key: identityKey(realm)}, id, nil
	}
	if err == nil {
		err = json.Unmarshal(d.Body, &id)
	}
	return d, id, err
}

// RememberIssuer has the store remember an issuer identifier, if it remembers
// none, and returns the one that it remembers then.
func RememberIssuer(ctx context.Context, st store.Store, realm, id string) (string, error) {
	return keepIssuer(ctx, st, realm, id, false)
}

// AdoptIssuer has the store remember an issuer identifier instead of another.
func AdoptIssuer(ctx context.Context, st store.Store, realm, id string) error {
	_, err := keepIssuer(ctx, st, realm, id, true)
	return err
}

func keepIssuer(ctx context.Context, st store.Store, realm, id string, instead bool) (string, error) {
	for {
		d, known, err := readIdentity(ctx, st, realm)
		if err != nil || known.Issuer == id || known.Issuer != "" && !instead {
			return known.Issuer, err
		}
		d.Version++
		if d.Body, err = json.Marshal(identity{id}); err != nil {
			return "", err
		}
		err = st.Commit(ctx, store.Change{Documents: []store.Document{d}})
		if !errors.Is(err, store.ErrConflict) { // else another node was faster
			return id, err
		}
	}
}
