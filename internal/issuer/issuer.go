// Package issuer contains the use cases of tokens: issue a code, redeem it, refresh,
// inspect, revoke. Each use case reads the grant, lets package grant decide, commits, and
// only then returns tokens or a refusal. The package contains no HTTP and no SQL.
package issuer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Issuer serves one realm. Its fields are set before first use and do not
// change; its methods are safe for concurrent use.
type Issuer struct {
	Realm string
	// ID is the issuer identifier (RFC 8414 section 2): the iss of every JWT.
	ID        string
	Store     store.Store
	Directory *directory.Directory
	// Policy is the policy of the deployment, with the RetryWindow of confidential
	// clients. A client's registration may change the retry window and other settings.
	Policy            grant.Policy
	RetryWindowPublic time.Duration
	// OwnReuseGrace is the ReuseGrace of clients that registered themselves.
	OwnReuseGrace time.Duration
	CodeLifetime  time.Duration
	// IDTokenLifetime is the lifetime of id_tokens, unless the client's registration sets
	// another. Zero: no id_tokens are issued, and openid is a scope like others.
	IDTokenLifetime time.Duration
	// HintAge is how long after the end of its key's use an id_token is a valid hint.
	HintAge time.Duration
	// Claims returns the standard claims of a subject, for id_tokens whose request named
	// claims. Nil: there are none.
	Claims func(ctx context.Context, subject string) (claims.Claims, error)
	// SessionLives reports whether a subject has a live session for whose reference the
	// function is returns true. Nil: there are no sessions.
	SessionLives func(ctx context.Context, subject string, is func(reference [16]byte) bool) (bool, error)
	// Users reports whether a subject is that of a built-in user, and whether the user is
	// enabled. Nil: there are no built-in users.
	Users func(ctx context.Context, subject string) (known, enabled bool, err error)
	// RevocationsMaxAge is how long subscribers may cache the list of revocations.
	RevocationsMaxAge time.Duration
	Now               func() time.Time
	// Monotonic is a clock that is never set, for intervals. Nil: Now.
	Monotonic func() time.Time
	Log       *slog.Logger
	// Feed caches the list of revocations. Nil: New makes one.
	Feed *Feed
	// Devices counts device codes and polls. It outlives a reload. Nil: New makes one.
	Devices *Devices
}

// New completes an Issuer.
func New(iss Issuer) *Issuer {
	if iss.Monotonic == nil {
		iss.Monotonic = iss.Now
	}
	iss.Feed, iss.Devices = cmp.Or(iss.Feed, NewFeed()), cmp.Or(iss.Devices, &Devices{})
	return &iss
}

// Exchanges are the use cases of token exchange (RFC 8693). An exchanged token belongs to
// the grant of its subject token, and ends with that grant.
type Exchanges struct{ *Issuer }

// Exchanged holds the fields of Tokens that only a token exchange sets.
type Exchanged struct {
	From         string // client that the subject token was issued to
	AsJWT        bool   // a JWT was asked for
	For          string // of an identity assertion: issuer of the server that is to accept it
	Impersonates bool   // the token has no actor
}

func (iss *Issuer) now() grant.Instant { return grant.At(iss.Now()) }

// PolicyOf returns the policy for one client.
func (iss *Issuer) PolicyOf(c *store.Client) grant.Policy {
	p := iss.Policy
	if c.Public() {
		p.RetryWindow = iss.RetryWindowPublic
	}
	p.RetryWindow = c.RetryWindow.Or(p.RetryWindow)
	// A repeated response must contain an access token that has not expired, also
	// for a client that was registered when tokens lived longer.
	p.RetryWindow = max(0, min(p.RetryWindow, iss.Directory.Latest().ShortestAccess(iss.Realm, p.AccessLifetime)-time.Minute))
	if c.SelfRegistered() {
		p.ReuseGrace = iss.OwnReuseGrace
	}
	p.ReuseGrace = c.ReuseGrace.Or(p.ReuseGrace)
	p.NoRotation = c.NoRotation
	p.CodeLifetime = iss.CodeLifetimeOf(c)
	return p
}

// CodeLifetimeOf returns how long authorization codes of a client live: a minute at most
// by the FAPI 2.0 Security Profile, section 5.3.2.1-11.
func (iss *Issuer) CodeLifetimeOf(c *store.Client) time.Duration {
	if c.FAPI() {
		return min(iss.CodeLifetime, time.Minute)
	}
	return iss.CodeLifetime
}

// attempt returns a random write nonce, which distinguishes writes. It is no secret.
func attempt() uint64 { return rand.Uint64() }

// speaksOpenID reports whether answers with a scope have an id_token.
func (iss *Issuer) speaksOpenID(scope oauth.Scope) bool {
	return iss.IDTokenLifetime != 0 && scope.Has(oauth.OpenID)
}

// viewFor returns the present view, for a token or grant that may be bound to key. It
// fails while a node of an earlier version runs: that node would reject a bound token and
// ignore the key of a bound row.
func (iss *Issuer) viewFor(key oauth.JKT) (*directory.View, error) {
	if key.Bound() && iss.Directory.OlderNodes(store.FormsBound) {
		return nil, errOlderNodes
	}
	return iss.Directory.View()
}

var errOlderNodes = &store.ExternalFault{Cause: errors.New("a node of an earlier version, which does not support this kind of token, is still running: upgrade or stop it")}

// A Feed caches the last list of revocations. Issuers of one realm that replace one
// another share it.
type Feed struct {
	limit int
	turn  chan struct{} // a mutex for the fields that follow
	made  time.Time     // on the monotonic clock
	text  string
	err   error
}

// feedLimit limits the grants and service tokens, and the cutoffs, of a list.
const feedLimit = 20_000

// NewFeed makes an empty Feed.
func NewFeed() *Feed { return &Feed{limit: feedLimit, turn: make(chan struct{}, 1)} }
