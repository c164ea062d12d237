package issuer

import (
	"maps"
	"slices"

	"github.com/mintage/mintage/internal/store"
)

// maxScopes bounds the list of scopes in the metadata.
const maxScopes = 200

// scopesOf returns the scopes that enabled clients may ask for, sorted.
func scopesOf(clients map[string]*registration) []string {
	set := map[string]bool{}
	for _, r := range clients {
		if r.State == store.ClientEnabled && r.MayUse(store.GrantAuthorizationCode) {
			for _, name := range r.Scope.Tokens() {
				set[name] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(set))
	return list[:min(len(list), maxScopes)]
}

// Scopes returns the scopes that enabled clients may ask for, sorted; of very
// many, the first. It reads the directory as last polled, however long ago.
func (d *Directory) Scopes() []string { return d.view.Load().scopes() }
