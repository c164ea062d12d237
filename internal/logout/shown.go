package logout

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A Notified is an End with its tokens, for operators.
type Notified struct {
	End
	Tokens []Token
}

// Concerns reports whether t is about a session that began at an instant.
func (t Notified) Concerns(reference [16]byte, began grant.Instant) bool {
	if t.Session == "" {
		return began <= t.At
	}
	return t.Session == hex.EncodeToString(reference[:])
}

// Of returns the logouts of a subject that are kept, the oldest first. The next attempt
// of a pending token is the next call of its client, which may send another token.
func Of(ctx context.Context, st store.Store, realm, subject string) (list []Notified, err error) {
	for _, owner := range []store.Owner{store.OwnerOf(realm, subject), ownerDevices(realm), ownerLater(realm), ownerNew(realm)} {
		for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: store.DocumentLogout, Owner: owner}) {
			if err != nil {
				return nil, err
			}
			if r, err := decode[End](d); err == nil && r.Subject == subject {
				list = append(list, Notified{End: r})
			}
		}
	}
	next := map[string]grant.Instant{} // by client
	for i := range list {
		for _, ref := range list[i].End.Tokens {
			d, err := st.Document(ctx, ref.key())
			if err != nil {
				continue // it was removed
			}
			t, err := decode[Token](d)
			if err != nil {
				continue
			}
			if t.State == Pending {
				at, ok := next[t.ClientID]
				if !ok {
					if at, err = nextAttempt(ctx, st, realm, t.ClientID); err != nil {
						return nil, err
					}
					next[t.ClientID] = at
				}
				t.Next = at
			}
			list[i].Tokens = append(list[i].Tokens, t)
		}
	}
	slices.SortFunc(list, func(x, y Notified) int { return cmp.Compare(x.At, y.At) })
	return list, nil
}

// nextAttempt returns the time of a client's next attempt, by its last one; zero: at once.
// A logout added meanwhile is attempted before that.
func nextAttempt(ctx context.Context, st store.Store, realm, clientID string) (grant.Instant, error) {
	var last Token
	for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: store.DocumentLogoutToken, Owner: ownerQueue(realm, clientID)}) {
		if err != nil {
			return 0, err
		}
		if t, err := decode[Token](d); err == nil && t.Tried >= last.Tried {
			last = t
		}
	}
	return last.Next, nil
}
