package issuer

import (
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// scriptOrigins returns the web origins whose scripts redeem and refresh the
// client's tokens: those of its redirect URIs, if it is a public client that may
// authenticate.
func scriptOrigins(c store.Client) (list []originName) {
	if !c.Public() || c.State != store.ClientEnabled {
		return nil
	}
	for _, uri := range c.RedirectURIs {
		if origin := oauth.RedirectOrigin(uri, c.Native); origin != "" {
			list = append(list, originName{c.Realm, origin})
		}
	}
	return list
}

// countOrigins adds n for each of r's redirect URIs. r may be nil.
func (v *View) countOrigins(r *registration, n int) {
	if r == nil {
		return
	}
	for _, o := range r.origins {
		if v.origins[o] += n; v.origins[o] == 0 {
			delete(v.origins, o)
		}
	}
}

// IsScriptOrigin reports whether origin is that of a redirect URI of an enabled
// public client, at the cost of one or two lookups. It reads the directory as
// last polled, however long ago: a script must be able to read a 503.
func (d *Directory) IsScriptOrigin(realm, origin string) bool {
	v := d.view.Load()
	if v.origins[originName{realm, origin}] > 0 {
		return true
	}
	chosen := oauth.OriginOfAnyPort(origin)
	return chosen != "" && v.origins[originName{realm, chosen}] > 0
}
