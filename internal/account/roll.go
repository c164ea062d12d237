package account

import (
	"context"
	"sync/atomic"

	"github.com/mintage/mintage/internal/store"
)

// A Roll is the users of a realm as they were read last, for the pages and searches of
// operators: to decode all of them takes longer than to look through them. It is safe for
// concurrent use; a nil one holds nothing and reads them each time.
type Roll struct{ last atomic.Pointer[reading] }

// A reading is what was read, and how many versions there were of users before.
type reading struct {
	tally store.Tally
	users []User
}

// List is the function List, but reads the users only if one has changed since: users are
// never deleted, and each change is another version. The caller must not change the list.
func (r *Roll) List(ctx context.Context, st store.Store, realm string) ([]User, error) {
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
