package directory

import (
	"cmp"
	"strings"

	"github.com/mintage/mintage/internal/store"
)

// trusts holds the trusts of a View. It is immutable.
type trusts struct {
	byID     table[trustName, *store.Trust] // also deleted ones
	sorted   order[*store.Trust]            // by realm and id
	byIssuer order[*store.Trust]            // by realm, issuer and id
}

type trustName struct{ realm, id string }

func noTrusts() *trusts {
	return &trusts{
		sorted: order[*store.Trust]{compare: func(a, b *store.Trust) int {
			return cmp.Or(strings.Compare(a.Realm, b.Realm), strings.Compare(a.ID, b.ID))
		}},
		byIssuer: order[*store.Trust]{compare: func(a, b *store.Trust) int {
			return cmp.Or(strings.Compare(a.Realm, b.Realm), strings.Compare(a.Issuer, b.Issuer), strings.Compare(a.ID, b.ID))
		}},
	}
}

// with returns a copy of t with the changed trusts in place of their predecessors.
func (t *trusts) with(changed []store.Trust) *trusts {
	byID, sorted, byIssuer := t.byID.change(), t.sorted.change(), t.byIssuer.change()
	for i := range changed {
		next := &changed[i]
		name := trustName{next.Realm, next.ID}
		if was := byID.get(name); was != nil && !was.Deleted {
			sorted.remove(was)
			byIssuer.remove(was)
		}
		byID.set(name, next)
		if !next.Deleted {
			sorted.insert(next)
			byIssuer.insert(next)
		}
	}
	return &trusts{byID.table, sorted.order, byIssuer.order}
}
