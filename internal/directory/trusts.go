package directory

import (
	"cmp"
	"iter"
	"strings"

	"github.com/mintage/mintage/internal/grant"
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

// TrustRow returns the trust of an id, disabled or deleted ones included, or nil.
func (v *View) TrustRow(realm, id string) *store.Trust {
	return v.trusts.byID.get(trustName{realm, id})
}

// TrustOfToken returns the trust that the id of a workload's access token names, or nil.
func (v *View) TrustOfToken(realm string, id grant.ID) *store.Trust {
	return v.TrustRow(realm, store.TrustOf(id))
}

// Trust returns the trust of an issuer, a kind and a client, unless it was deleted.
func (v *View) Trust(realm, issuer string, kind store.TrustKind, clientID string) (*store.Trust, bool) {
	t := v.TrustRow(realm, store.TrustID(issuer, kind, clientID))
	return t, t != nil && !t.Deleted
}

// TrustsAfter lists the trusts of a realm that follow an id, sorted by id.
func (v *View) TrustsAfter(realm, id string) iter.Seq[*store.Trust] {
	past := func(t *store.Trust) int {
		return cmp.Or(strings.Compare(t.Realm, realm), strings.Compare(t.ID, id), -1)
	}
	return v.trusts.sorted.having("", past, func(t *store.Trust) bool { return t.Realm == realm })
}

// TrustsOf lists the trusts of a realm in an issuer.
func (v *View) TrustsOf(realm, issuer string) iter.Seq[*store.Trust] {
	from := func(t *store.Trust) int {
		return cmp.Or(strings.Compare(t.Realm, realm), strings.Compare(t.Issuer, issuer))
	}
	return v.trusts.byIssuer.having("", from, func(t *store.Trust) bool { return t.Realm == realm && t.Issuer == issuer })
}

// EndedTrusts lists the trusts of a realm that were disabled or deleted.
func (v *View) EndedTrusts(realm string) iter.Seq[*store.Trust] {
	return func(yield func(*store.Trust) bool) {
		for name, t := range v.trusts.byID.all {
			if name.realm == realm && (t.Disabled || t.Deleted) && !yield(t) {
				return
			}
		}
	}
}
