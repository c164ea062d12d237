package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

const (
	realm    = "/api"
	callback = "https://client.example/callback"
	scope    = "a b"
	day      = 24 * time.Hour
)

// policy is the policy of all grants.
var policy = grant.Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * day}

// A dataset is a data directory with its own client and grants, created without a server.
type dataset struct {
	dir      string
	clientID string
	scope    oauth.Scope // of the grants
	apis     grant.APIs  // of the grants
	secret   string
	ring     *keys.Ring
	kek      *keys.KEK
	tokens   []string // the refresh token of each grant
	sessions []string // session cookies of users who have consented
}

// An opener opens the store of a data directory.
type opener func(ctx context.Context, dir string) (store.Store, error)

func embedded(ctx context.Context, dir string) (store.Store, error) { return sqlite.Create(ctx, dir) }

// makeDataset creates a data directory with n grants, as if they had been redeemed at
// some time in the last twenty days. choose changes the client's registration.
func makeDataset(ctx context.Context, dir string, open opener, n int, choose ...func(*client.Registration)) (_ *dataset, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text := keys.NewKEKText()
	if err := os.WriteFile(filepath.Join(dir, "kek"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	kek, err := keys.ParseKEK(text)
	if err != nil {
		return nil, err
	}
	st, err := open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	directory, err := directory.Open(ctx, st, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return nil, err
	}
	view, err := directory.View()
	if err != nil {
		return nil, err
	}
	registration := client.Registration{Settings: store.Settings{Name: "Benchmark", RedirectURIs: []string{callback}, Scope: scope, Auth: store.AuthEither}}
	for _, f := range choose {
		f(&registration)
	}
	var apis grant.APIs
	granted := oauth.Scope(registration.Scope)
	if len(registration.APIs) > 0 {
		api := store.API{ID: registration.APIs[0], Realm: realm, Number: 1, Version: 1, Scopes: []store.APIScope{{Name: "orders", Number: 1}}}
		if err := st.Commit(ctx, store.Change{Entries: []store.Entry{api.Entry()}}); err != nil {
			return nil, err
		}
		apis, granted = grant.APIs{api.Number}, api.Scope()
	}
	client, secret, err := registration.Client(realm, view.Ring, policy, grant.At(time.Now()))
	if err != nil {
		return nil, err
	}
	if err := st.Commit(ctx, store.Change{Entries: []store.Entry{client.Entry()}}); err != nil {
		return nil, err
	}
	d := &dataset{dir: dir, clientID: client.ID, scope: granted, apis: apis, secret: string(secret), ring: view.Ring, kek: kek, tokens: make([]string, n)}
	return d, d.makeGrants(ctx, st, policy)
}

// makeGrants fills the store concurrently, so that grants share commits.
func (d *dataset) makeGrants(ctx context.Context, st store.Store, p grant.Policy) error {
	var wg sync.WaitGroup
	var taken, made atomic.Int64
	failed := make(chan error, 512)
	for range cap(failed) {
		wg.Go(func() {
			for {
				i := taken.Add(1) - 1
				if i >= int64(len(d.tokens)) || ctx.Err() != nil {
					return
				}
				var err error
				if d.tokens[i], err = d.makeGrant(ctx, st, p); err != nil {
					failed <- err
					return
				}
				made.Add(1)
			}
		})
	}
	stop := every(5*time.Second, func() {
		note("  %s of %s grants made", thousands(float64(made.Load())), thousands(float64(len(d.tokens))))
	})
	wg.Wait()
	stop()
	select {
	case err := <-failed:
		return fmt.Errorf("make grants: %w", err)
	default:
		return ctx.Err()
	}
}

// makeGrant creates the grant's row by the rules of package grant.
func (d *dataset) makeGrant(ctx context.Context, st store.Store, p grant.Policy) (refreshToken string, err error) {
	at := grant.At(time.Now().Add(-mrand.N(20 * day)))
	code := d.newCode(at)
	key := d.ring.Current(keys.MAC, grant.At(time.Now()))
	decision := code.Redeem(grant.Redemption{
		Realm: realm, ClientID: d.clientID, Allowed: d.scope, RedirectURI: callback, Attempt: mrand.Uint64(), KeyID: key,
	}, p, at)
	if decision.Refusal != grant.Allowed {
		return "", fmt.Errorf("a code for the benchmark is refused: %s", decision.Refusal)
	}
	g := decision.Next
	if err := st.CreateGrant(ctx, g); err != nil {
		return "", err
	}
	return d.ring.SealRefresh(g.KeyID, realm, keys.Token{GrantID: g.ID, Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt})
}

// accessTokens returns an access token of each grant, as in its first response. They are
// bound to key, unless it is zero.
func (d *dataset) accessTokens(key oauth.JKT) ([]string, error) {
	now := grant.At(time.Now())
	mac := d.ring.Current(keys.MAC, now)
	list := make([]string, len(d.tokens))
	var apis uint8 // positions in the grants' APIs
	if d.apis[0] != 0 {
		apis = 1
	}
	for i, text := range d.tokens {
		t, err := d.ring.OpenRefresh(realm, text)
		if err == nil {
			list[i], err = d.ring.SealAccess(mac, realm, keys.Token{
				GrantID: t.GrantID, Generation: 1, IssuedAt: now, ExpiresAt: now.Add(5 * time.Minute), Bits: d.scope.All(), APIs: apis, JKT: key,
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newCode authorizes a new subject of 36 bytes.
func (d *dataset) newCode(at grant.Instant) grant.Code {
	c := grant.Code{
		Realm: realm, ClientID: d.clientID, Scope: d.scope, RedirectHash: grant.HashRedirectURI(callback),
		AuthorizedAt: at, ExpiresAt: at.Add(10 * time.Minute),
	}
	var id, s [16]byte
	rand.Read(id[:])
	rand.Read(s[:])
	c.GrantID, c.APIs = grant.NewID(at, id), d.apis
	if d.scope.Has(oauth.OpenID) {
		c.Nonce, c.AuthTime = rand.Text(), at
	}
	c.Subject = fmt.Sprintf("%x-%x-%x-%x-%x", s[:4], s[4:6], s[6:8], s[8:10], s[10:])
	return c
}

// codes seals n codes, of which no server needs a record. Their authorizations are spread
// evenly over the time before now, as those of users whose clients redeem at once.
func (d *dataset) codes(n int, over time.Duration) ([]string, error) {
	now := time.Now()
	key := d.ring.Current(keys.Seal, grant.At(now))
	list := make([]string, n)
	for i := range list {
		var nonce [keys.NonceSize]byte
		rand.Read(nonce[:])
		ago := over * time.Duration(n-i) / time.Duration(n)
		var err error
		if list[i], err = d.ring.SealCode(key, d.newCode(grant.At(now.Add(-ago))), nonce); err != nil {
			return nil, err
		}
	}
	return list, nil
}
