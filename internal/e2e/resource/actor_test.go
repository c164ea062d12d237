//go:build e2e

package resource

import (
	"net/http"
	"net/url"
	"testing"
)

// TestProxiesPassTheActorOn: behind each proxy, the API receives the actor of an
// exchanged token, which a client cannot forge.
func TestProxiesPassTheActorOn(t *testing.T) {
	w := open(t)
	// Delete the other clients, so that only the API defines the scopes.
	for _, id := range []string{w.ClientID, w.opaque.ID, w.jwt.ID, w.others[0].ID, w.others[1].ID} {
		w.Run(t, "client", "delete", id, "--yes")
	}
	w.Run(t, "api", "create", "--id", audience, "--name", "Reports", "--scope", "read=Read", "--scope", "write=Write", "--token-format", "jwt")
	shop := create(t, w.Server, "--name", "Shop", "--redirect-uri", redirect, "--no-pkce", "--api", audience)
	gateway := create(t, w.Server, "--name", "Gateway", "--exchange-from", shop.ID, "--serves-api", audience, "--exchange-api", audience)
	direct := w.pair(t, shop, "read").AccessToken
	a, err := w.Post(t.Context(), w.post, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {gateway.ID}, "client_secret": {gateway.Secret},
		"subject_token": {direct}, "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	})
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("the exchange is answered %d %s, %v", a.Status, a.Error, err)
	}
	behind := startAPI(t)
	for _, f := range []*front{
		startNginx(t, w, w.host(), behind), startCaddy(t, w, w.host(), behind), startHAProxy(t, w, allSlots, behind), w.playTraefik(t, behind), w.playEnvoy(t, behind),
	} {
		t.Run(f.name, func(t *testing.T) {
			for _, own := range [][]string{nil, {"X-Auth-Actor", "admin"}} {
				o := f.ask(t, "GET", "/reports", "", append(own, bearer(a.AccessToken)...)...)
				if o.seen == nil || len(o.seen.Header["X-Auth-Actor"]) != 1 || o.seen.Header.Get("X-Auth-Actor") != gateway.ID || o.seen.Header.Get("X-Auth-Client") != gateway.ID {
					t.Errorf("with %q: status %d, the API receives %v", own, o.status, o.seen)
				}
				if o = f.ask(t, "GET", "/reports", "", append(own, bearer(direct)...)...); o.seen == nil || o.seen.Header.Get("X-Auth-Actor") != "" {
					t.Errorf("with %q and a token without an actor: status %d, the API receives %v", own, o.status, o.seen)
				}
			}
		})
	}
}
