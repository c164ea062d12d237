package logout

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A Told is a Record with its tokens, for operators.
type Told struct {
	Record
	Tokens []Token
}

// Concerns reports whether t is about a session that began at an instant.
func (t Told) Concerns(reference [16]byte, began grant.Instant) bool {
	if t.Session == "" {
		return began <= t.At
	}
	return t.Session == hex.EncodeToString(reference[:])
}

// Of returns the logouts of a subject whose records are kept, the oldest first.
func Of(ctx context.Context, st store.Store, realm, subject string) (list []Told, err error) {
	for _, owner := range []store.Owner{store.OwnerOf(realm, subject), ownerLater(realm), ownerNew(realm)} {
		for d, err := range store.DocumentsOfOwner(ctx, st, store.DocumentLogout, owner) {
			if err != nil {
				return nil, err
			}
			r, err := decode[Record](d)
			if err != nil {
				return nil, err
			}
			if r.Subject == subject {
				list = append(list, Told{Record: r})
			}
		}
	}
	for i := range list {
		for _, ref := range list[i].Record.Tokens {
			d, err := st.Document(ctx, ref.key())
			if err != nil {
				continue // it was removed
			}
			if t, err := decode[Token](d); err == nil {
				list[i].Tokens = append(list[i].Tokens, t)
			}
		}
	}
	slices.SortFunc(list, func(x, y Told) int { return cmp.Compare(x.At, y.At) })
	return list, nil
}
