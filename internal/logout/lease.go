package logout

import (
	"context"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store"
)

// leads reports whether this node delivers. A node does not take the lease while there is
// nothing to deliver. Errors are those of the store.
func (o *Outbox) leads(ctx context.Context) (bool, error) {
	if o.ClockFault() != nil {
		o.lease.Release(ctx)
		return false, nil
	}
	if !o.lease.Held() {
		if needed, err := o.needed(ctx); err != nil || !needed {
			return false, err
		}
	}
	return o.lease.Leads(ctx)
}

// needed reports whether there may be anything to deliver.
func (o *Outbox) needed(ctx context.Context) (bool, error) {
	view, err := o.Directory.View()
	if err != nil {
		return false, err
	}
	if view.AnyMarked(directory.Notified, o.Realm) {
		return true, nil
	}
	for _, round := range rounds {
		list, err := o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Owner: round.owner(o.Realm), Limit: 1})
		if err != nil || len(list) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
