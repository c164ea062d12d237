package account

import (
	"context"
	"sync/atomic"

	"github.com/mintage/mintage/internal/store"
)

// A UserCache caches the decoded users of a realm, for the lists and searches of operators:
// decoding the users takes longer than searching them. It is safe for concurrent use; a
// nil UserCache caches nothing.
type UserCache struct{ last atomic.Pointer[reading] }

// A reading holds users, and the tally of users and versions before they were read.
type reading struct {
	tally store.Tally
	users []User
}

// List returns what the function List does, but reads the users only if the tally has
// changed: users are never deleted, and each change adds a version. The caller must not
// change the list.
func (r *UserCache) List(ctx context.Context, st store.Store, realm string) ([]User, error) {
	if r == nil {
		return List(ctx, st, realm)
	}
	tally, err := st.TallyUsers(ctx)
	if err != nil {
		return nil, err
	}
	if last := r.last.Load(); last != nil && last.tally == tally {
		return last.users, nil
	}
	users, err := List(ctx, st, realm)
	if err == nil {
		r.last.Store(&reading{tally, users})
	}
	return users, err
}
