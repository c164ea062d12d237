// Package issuer holds the use cases: authenticate a client, issue a code,
// redeem it, refresh. It loads, lets package grant decide, commits, and only
// then answers or refuses. It knows nothing of HTTP and SQL.
package issuer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// An Issuer serves one realm. Its fields are set before first use and do not
// change; its methods are safe for concurrent use.
type Issuer struct {
	Realm     string
	Store     store.Store
	Directory *Directory
	// Policy is the deployment's; RetryWindow in it is for confidential
	// clients. A client's registration may change both.
	Policy            grant.Policy
	RetryWindowPublic time.Duration
	CodeLifetime      time.Duration
	Now               func() time.Time
	// Monotonic is a clock that nobody moves, to see when Now was. Nil: Now.
	Monotonic func() time.Time
	Log       *slog.Logger

	hashing  *places       // of the slow secret checks
	hashTurn chan struct{} // the turn of one of them to run
}

// New completes an Issuer.
func New(iss Issuer) *Issuer {
	if iss.Monotonic == nil {
		iss.Monotonic = iss.Now
	}
	iss.hashing = &places{of: map[string]int{}}
	iss.hashTurn = make(chan struct{}, hashersAtOnce)
	return &iss
}

// Refused is the error of a request that the rules do not allow. The client is
// told less than it says.
type Refused struct {
	Why     grant.Refusal
	GrantID grant.ID // zero if unknown
}

func (r *Refused) Error() string { return "refused: " + r.Why.String() }

// ErrUnavailable wraps every fault that passes: the same request may succeed
// later, and the client must keep its tokens.
var ErrUnavailable = errors.New("temporarily unavailable")

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

func (iss *Issuer) now() grant.Instant { return grant.At(iss.Now()) }

// policy is what applies to one client.
func (iss *Issuer) policy(c *store.Client) grant.Policy {
	p := iss.Policy
	if c.Public() {
		p.RetryWindow = iss.RetryWindowPublic
	}
	if c.RetryWindow != nil {
		p.RetryWindow = c.RetryWindow.Duration()
	}
	// A repeated answer must hold a token that still lives, also for a client
	// that was registered when tokens lived longer.
	p.RetryWindow = max(0, min(p.RetryWindow, p.AccessLifetime-time.Minute))
	p.NoRotation = c.NoRotation
	return p
}

// maxTries bounds how often a request decides again because the grant changed
// under it. Each lost try is another request's success, and after the first of
// these most requests have nothing left to write.
const maxTries = 16

// update applies decide to a stored grant. It commits before it refuses, so
// that a replay's revocation is never lost, and decides again if the grant has
// changed meanwhile. It returns store.ErrNotFound as it is.
func (iss *Issuer) update(ctx context.Context, id grant.ID, evidence func() string, decide func(g grant.Grant, now grant.Instant) grant.Decision) (grant.Decision, grant.Instant, error) {
	for range maxTries {
		// Read before the load, so that no decision is made with a time
		// later than what it knows.
		now := iss.now()
		g, err := iss.Store.Grant(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return grant.Decision{}, now, err
		}
		if err != nil {
			return grant.Decision{}, now, unavailable(err)
		}
		d := decide(g, now)
		if d.Next != g {
			err := iss.Store.UpdateGrant(ctx, d.Next, revocation(g, d, evidence, now)...)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil && !iss.settled(ctx, d.Next, err) {
				return grant.Decision{}, now, unavailable(err)
			}
		}
		return d, now, nil
	}
	return grant.Decision{}, 0, unavailable(errors.New("the grant changed too often"))
}

// settled finds out whether a write of unknown outcome is in the store. Our
// own attempt in an active row is our own success. Anything else is left for
// the client's next request to be decided on: to call it a replay here would
// end a grant for our own fault.
func (iss *Issuer) settled(ctx context.Context, next grant.Grant, err error) bool {
	if errors.Is(err, store.ErrBusy) || next.State != grant.Active {
		return false
	}
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		g, err := iss.Store.Grant(ctx, next.ID)
		if err == nil {
			return g.State == grant.Active && g.Version == next.Version && g.Attempt == next.Attempt
		}
		if errors.Is(err, store.ErrNotFound) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// revocation is the record of a decision that ends a grant, or nothing.
// Redemptions and rotations record themselves in the row.
func revocation(g grant.Grant, d grant.Decision, evidence func() string, now grant.Instant) []store.Event {
	if g.State == d.Next.State {
		return nil
	}
	name := store.EventGrantRevoked
	switch d.Next.Reason {
	case grant.ReasonCodeReplayed:
		name = store.EventCodeReplayed
	case grant.ReasonRefreshReplayed:
		name = store.EventRefreshReplayed
	}
	return []store.Event{{At: now, Name: name, About: g.ID.String(), Actor: g.ClientID, Detail: evidence()}}
}

// attempt draws the mark of a write. It tells writes apart; it is no secret.
func attempt() uint64 { return rand.Uint64() }
