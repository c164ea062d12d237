package storetest

import (
	"crypto/rand"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// Everyday returns a grant whose fields have the usual lengths. It is as the redemption of
// a code creates it with this attempt.
func Everyday(attempt uint64) grant.Grant {
	g := grant.Grant{
		Realm: "/api", ClientID: "Zk3vQ8xYb1Tz0KfW7mNcR2Lp", Subject: "7d0c1a52-93be-4d8f-a6f1-2b7e5c904e13",
		Scope: "openid profile email offline_access", AuthorizedAt: base,
		Generation: 1, Version: 1, RotatedAt: base, KeyID: 0xfeedbeef, ExpiresAt: base.Add(31 * 24 * time.Hour),
		DeleteAfter: base.Add(31*24*time.Hour + time.Hour), State: grant.Active, Attempt: attempt,
	}
	rand.Read(g.ID[:])
	return g
}

// Refreshed returns g after one rotation, nearly five minutes later.
func Refreshed(g grant.Grant, attempt uint64) grant.Grant {
	g.Generation++
	g.Version++
	g.RotatedAt += 290_000
	g.ExpiresAt += 290_000
	g.DeleteAfter += 290_000
	g.Attempt = attempt
	return g
}
