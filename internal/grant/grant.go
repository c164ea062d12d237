// Package grant decides what requests do to a grant. A grant is what one
// authorization gave to one client; it is one row for its whole life, and its
// tokens are computed from that row.
//
//	(code) --redeem--> active, generation 1 --refresh--> active, generation n+1 --> expired
//	                       |                        |
//	                       |                        +-- older generation --> revoked (refresh replayed)
//	                       +-- code again --> revoked (code replayed)
//
// Every function is pure and takes the time as an argument. The package imports
// neither HTTP nor SQL nor JSON, and reads no clock.
package grant

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// An ID names a grant: when it was authorized, in milliseconds modulo 2^32 (49.7
// days), and 96 random bits. Ids of about the same time are adjacent in an index, like
// UUIDv7 (RFC 9562 section 5.7), so that new rows share pages. An id is no secret: the
// MAC of a token protects the grant.
type ID [16]byte

// NewID returns the id of a grant that is authorized at an instant, with all but
// the first four bytes of random.
func NewID(at Instant, random [16]byte) ID {
	id := ID(random)
	binary.BigEndian.PutUint32(id[:4], uint32(at))
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String wrote.
func ParseID(s string) (id ID, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("a grant id is %d hexadecimal digits", 2*len(id))
	}
	return ID(b), nil
}

// A KeyID names a key of the ring. Ids are random and never reused.
type KeyID uint32

func (k KeyID) String() string { return fmt.Sprintf("%08x", uint32(k)) }

// A State is whether a grant's tokens can be valid. Expiry is not a state: it
// follows from the instants.
type State uint8

const (
	Active  State = 1
	Revoked State = 2
)

func (s State) String() string {
	if s == Revoked {
		return "revoked"
	}
	return "active"
}

// A Grant is one row of the store. Compare grants with ==.
type Grant struct {
	ID       ID
	Realm    string
	ClientID string
	Subject  string
	// Scope is the granted list. It never changes: access tokens name
	// positions in it, and a narrowed request narrows only its access token.
	Scope oauth.Scope
	// AuthorizedAt is when the subject agreed: the code's instant, never that
	// of the redemption. Cutoffs are compared with it.
	AuthorizedAt Instant
	// AuthTime is when the subject was authenticated; zero if that is unknown.
	AuthTime Instant
	// Facts never change.
	Facts

	Generation uint32  // of the present pair; the first is 1
	Version    int64   // counts changes of any kind; the first is 1
	RotatedAt  Instant // issue instant of the present refresh token
	KeyID      KeyID   // key of the present pair
	ExpiresAt  Instant // of the present refresh token
	// DeleteAfter is when the row may be deleted: its code and all of its tokens
	// have expired by then.
	DeleteAfter Instant
	// AccessFloor makes every access token issued at or before it inactive.
	AccessFloor Instant
	State       State
	Reason      Reason
	// Attempt is the write nonce of the last redemption or rotation. A request
	// recognises its own write by it after a commit of unknown outcome. See
	// NewAttempt.
	Attempt uint64
}

// A Redemption is an authenticated client's request to redeem a code.
type Redemption struct {
	Realm       string
	ClientID    string
	Allowed     oauth.Scope // what the client is registered for at present
	RedirectURI string
	Verifier    string // PKCE; "" if none was sent
	// JKT is the key of the request's proof, or zero. The grant of a Public client is
	// bound to it.
	JKT     oauth.JKT
	Public  bool
	Maker   Maker // of the code
	Cutoff  Instant
	Restore Restore // the latest; zero if none
	Attempt uint64
	KeyID   KeyID
	Target  *Target // nil for a grant without APIs
}

// A Refresh is an authenticated client's request with an authentic refresh
// token. Generation, IssuedAt and ExpiresAt are the token's.
type Refresh struct {
	Realm      string
	ClientID   string
	Allowed    oauth.Scope // what the client is registered for at present
	Scope      oauth.Scope // asked for; "" asks for all
	Generation uint32
	IssuedAt   Instant
	ExpiresAt  Instant
	Maker      Maker
	// SpentByOther reports that the row's last rotation spent a token made by
	// another key than Maker.
	SpentByOther bool
	Cutoff       Instant // of the grant's subject and client; zero if none
	Restore      Restore // the latest; zero if none
	Attempt      uint64
	KeyID        KeyID
	JKT          oauth.JKT // the key of the request's proof, or zero
	MustBeBound  bool      // the grant must be bound to a key
	Target       *Target   // nil for a grant without APIs
}

// A Target holds the APIs of a grant for which a client requests an access token (RFC
// 8707 section 2.2), as they are registered now.
type Target struct {
	Refusal Refusal // why there is no such token; Allowed if there is one
	APIs    uint8   // positions in the grant's APIs
	// Scope is what may be granted, if one API was named; "" for everything.
	Scope oauth.Scope
	// Lifetime is that of the access token.
	Lifetime time.Duration
}

// A Decision is what one request does to a grant. Next must be committed even
// when the request is refused: a replayed token is refused and also revokes.
type Decision struct {
	Next    Grant
	Refusal Refusal // Allowed if the request succeeds
	Access  Access  // of the access token to issue; only if allowed
	// Repeated reports that the client gets the present pair again, because it
	// lost the first response with it.
	Repeated bool
	// Shared reports that an earlier token was treated as the present one: a
	// second process holds a copy of the token. The pair is Repeated, or new.
	Shared bool
}

// Access holds an access token's fields beside its grant and generation.
type Access struct {
	Scope     oauth.Scope
	IssuedAt  Instant
	ExpiresAt Instant
	APIs      uint8         // positions in the grant's APIs; 0: the grant has none
	Lifetime  time.Duration // as configured for the APIs; 0: as the policy says
}

// Redeem decides the first presentation of c. It checks that the code belongs to
// the client and the request before it checks that the code is still valid, so
// that a refusal reveals nothing to another client and does not end the grant.
//
// If Redeem allows the request, Next is a new grant. Its creation makes the code
// single-use: if the grant's id is taken, the code was redeemed before, and the
// caller calls Replay.
func (c Code) Redeem(r Redemption, p Policy, now Instant) Decision {
	refuse := func(why Refusal) Decision { return Decision{Refusal: why} }
	switch {
	case c.ClientID != r.ClientID || c.Realm != r.Realm:
		return refuse(OtherClient)
	case HashRedirectURI(r.RedirectURI) != c.RedirectHash:
		return refuse(RedirectMismatch) // RFC 6749 section 4.1.3
	case !c.Proves(r.Verifier):
		return refuse(ProofMismatch)
	case c.JKT.Bound() && c.JKT != r.JKT:
		return refuse(KeyMismatch) // RFC 9449 section 10
	}
	// A new AuthorizedAt is later than every cutoff and the latest restore, even
	// if those were dated by a clock that was ahead.
	forced := max(r.Restore.At, r.Cutoff.Add(p.MaxSkew)+1)
	if why := r.Maker.rejects(c.AuthorizedAt, forced, p, now); why != Allowed {
		return refuse(why)
	}
	switch {
	case now >= r.Maker.expiry(c.ExpiresAt, p.CodeLifetime, p):
		return refuse(CodeExpired)
	case p.cutOff(c.AuthorizedAt, r.Cutoff):
		return refuse(CutOff)
	case r.Restore.explains(c.AuthorizedAt, now):
		// The code may have been redeemed, and the restore may have lost the row.
		return refuse(CodeBeforeRestore)
	}
	g := Grant{
		ID: c.GrantID, Realm: c.Realm, ClientID: c.ClientID, Subject: c.Subject, Scope: c.Scope,
		AuthorizedAt: c.AuthorizedAt, AuthTime: c.AuthTime, Facts: c.Facts,
		Generation: 1, Version: 1, State: Active,
		DeleteAfter: p.deleteAfter(c.ExpiresAt),
	}
	if g.JKT = (oauth.JKT{}); r.Public {
		g.JKT = r.JKT // grants of confidential clients are bound to the client (RFC 9449 section 5)
	}
	d := g.issue(r.Attempt, r.KeyID, "", r.Allowed, r.Target, p, max(now, r.Restore.At))
	if d.Refusal != Allowed {
		return refuse(d.Refusal)
	}
	return d
}

// Replay decides a request with a code that was redeemed before: it ends the
// grant and with it every token (RFC 6749 section 4.1.2). The caller has checked
// with Code.Redeem that the code was issued for this request.
func (g Grant) Replay(r Redemption) Decision {
	if g.ClientID != r.ClientID || g.Realm != r.Realm {
		return g.refuse(OtherClient)
	}
	return g.revoke(CodeReplayed)
}

// Redeemed decides a request with a device code that was redeemed before. A device that
// lost the response polls again, and gets the same pair as long as the retry window is
// open and the pair unused. Later, the request is a replay.
func (g Grant) Redeemed(r Redemption, p Policy, now Instant) Decision {
	switch {
	case g.ClientID != r.ClientID || g.Realm != r.Realm:
		return g.refuse(OtherClient)
	case g.JKT.Bound() && g.JKT != r.JKT:
		return g.refuse(KeyMismatch)
	case g.State == Revoked:
		return g.refuse(GrantRevoked)
	case p.cutOff(g.AuthorizedAt, r.Cutoff):
		return g.refuse(CutOff)
	case g.Generation == 1 && p.RetryWindow > 0 && g.inWindow(p, now):
		return g.answer(max(g.RotatedAt, g.AccessFloor+1), "", r.Allowed, r.Target, p, now, true)
	}
	return g.revoke(CodeReplayed)
}

// Refresh decides what r does to g.
//
// The order of checks matters. Ownership, of the key too, comes before replay, so that
// nobody can end another client's grant with a token that they found. Replay comes
// before expiry, so that a clock that is ahead hides no theft. Scope comes last,
// so that a wrong scope ends nothing and hides nothing.
//
// After a restore, the first token from before it brings the row up to date. A
// second, different token from before it means that two clients hold the grant:
// the grant ends.
func (g Grant) Refresh(r Refresh, p Policy, now Instant) Decision {
	if r.Target != nil && r.Target.Lifetime != 0 {
		p.AccessLifetime = r.Target.Lifetime
	}
	older, ahead := r.Generation < g.Generation, g.RefreshAhead(r.Generation, r.IssuedAt)
	present := !older && !ahead
	// After a restore, a token from before it can have a higher generation than the row,
	// although it was issued before the row's last rotation: another token rotated the grant.
	repeats, shared := older && g.repeats(r, p, now), (older || r.IssuedAt < g.RotatedAt) && g.shared(r, p, now)
	disowned := r.Maker.rejects(r.IssuedAt, max(g.RotatedAt, r.Restore.At), p, now)
	switch {
	case g.ClientID != r.ClientID || g.Realm != r.Realm:
		return g.refuse(OtherClient)
	case !g.JKT.Bound() && r.MustBeBound, g.JKT.Bound() && g.JKT != r.JKT:
		return g.refuse(KeyMismatch)
	case g.State == Revoked:
		return g.refuse(GrantRevoked)
	case p.cutOff(g.AuthorizedAt, r.Cutoff):
		return g.refuse(CutOff)
	case r.Generation == 0:
		return g.refuse(TokenUnknown)
	case present && !r.Maker.Withdrawn && r.Maker.Key == g.KeyID:
		// The row names the key of its own token: no clock matters.
	case present && !r.Maker.Withdrawn:
		return g.refuse(KeyRetired) // the row names another key
	case disowned != Allowed:
		return g.refuse(disowned)
	case ahead && !r.Restore.explains(r.IssuedAt, now):
		// The token is authentic, so the store has lost the rotation.
		return g.refuse(Restore{}.Unrecorded(r.IssuedAt, r.ExpiresAt, now))
	case r.Generation > g.Generation && r.IssuedAt < g.RotatedAt && g.RotatedAt < r.Restore.At:
		// Instants of a grant never go back: this token was forged with a retired key.
		return g.refuse(TokenUnknown)
	case ahead && (r.Generation == g.Generation || g.RotatedAt >= r.Restore.At) && !shared,
		older && !repeats && !shared:
		// RFC 9700 section 4.14.2: thief and client cannot be told apart.
		return g.revoke(RefreshReplayed)
	}
	stored := g
	if ahead && !shared {
		g = g.caughtUp(r, p)
	}
	again := max(g.RotatedAt, g.AccessFloor+1) // issue instant of the access token of a repeated pair
	var d Decision
	switch {
	case now >= p.Expiry(g):
		return stored.refuse(GrantExpired)
	case repeats && !g.boundAs(r.JKT):
		return stored.refuse(KeyMismatch)
	case repeats, shared && (g.inWindow(p, now) || p.accessExpiry(again).Since(now) >= nearlySpent):
		// If repeats: the successor is unused, because its use would have
		// increased Generation. So the client repeats a request whose response
		// it lost.
		d = g.answer(again, r.Scope, r.Allowed, r.Target, p, now, true)
	case p.NoRotation:
		d = g.answer(max(now, again), r.Scope, r.Allowed, r.Target, p, now, false)
	case g.Generation == math.MaxUint32:
		return stored.refuse(GrantExpired)
	default:
		g.Generation++
		g.Version = stored.Version + 1
		d = g.issue(r.Attempt, r.KeyID, r.Scope, r.Allowed, r.Target, p, max(now, r.Restore.At))
	}
	if d.Refusal != Allowed {
		return stored.refuse(d.Refusal)
	}
	d.Shared = shared && !repeats
	return d
}

// Revoke ends g because an operator, the subject or the client asked for it. It
// does not change a revoked grant.
func (g Grant) Revoke(why Reason) Decision {
	d := g.revoke(0)
	if d.Next != g {
		d.Next.Reason = why
	}
	return d
}

// repeats reports whether r, of an older generation, is a safe retry: its
// successor is unused, because the row is only one generation ahead, and the
// retry window is open.
func (g Grant) repeats(r Refresh, p Policy, now Instant) bool {
	if p.RetryWindow <= 0 || r.Generation != g.Generation-1 {
		return false
	}
	return !r.SpentByOther && g.inWindow(p, now)
}

// inWindow reports whether the retry window after the last rotation is open.
func (g Grant) inWindow(p Policy, now Instant) bool {
	return max(0, now.Since(g.RotatedAt)) <= p.RetryWindow+p.MaxSkew
}

// shared reports whether r, with an earlier token, is treated as a request with the
// present token: the earlier token was issued less than ReuseGrace ago.
func (g Grant) shared(r Refresh, p Policy, now Instant) bool {
	return p.ReuseGrace > 0 && r.IssuedAt <= g.RotatedAt && now.Since(r.IssuedAt) < p.ReuseGrace+p.MaxSkew
}

// issue sets the fields of g's new pair. The caller has set the generation.
func (g Grant) issue(attempt uint64, key KeyID, asked, allowed oauth.Scope, t *Target, p Policy, now Instant) Decision {
	at := max(now, g.RotatedAt, g.AccessFloor+1)
	g.RotatedAt = at
	g.KeyID = key
	g.Attempt = attempt
	g.ExpiresAt = at.Add(p.RefreshLifetime)
	g.ExpiresAt = p.Expiry(g)
	// No access token outlives ExpiresAt.
	g.DeleteAfter = max(g.DeleteAfter, p.deleteAfter(g.ExpiresAt))
	return g.answer(at, asked, allowed, t, p, now, false)
}

// answer allows a response with g's present pair and an access token issued at
// the instant at.
func (g Grant) answer(at Instant, asked, allowed oauth.Scope, t *Target, p Policy, now Instant, repeated bool) Decision {
	scope := g.Scope.Common(allowed)
	access := Access{IssuedAt: at}
	if t != nil {
		if t.Refusal != Allowed {
			return g.refuse(t.Refusal)
		}
		if t.Scope != "" {
			if scope = scope.Common(t.Scope); scope == "" {
				return g.refuse(TargetUnknown)
			}
		}
		access.APIs, access.Lifetime, p.AccessLifetime = t.APIs, t.Lifetime, t.Lifetime
	}
	if asked != "" {
		if !scope.Covers(asked) {
			return g.refuse(ScopeTooWide) // RFC 6749 section 6
		}
		bits, _ := g.Scope.Bits(asked)
		scope = g.Scope.Pick(bits)
	}
	if scope == "" {
		return g.refuse(ScopeTooWide)
	}
	access.Scope, access.ExpiresAt = scope, min(p.accessExpiry(at), g.ExpiresAt)
	if p.ExpiresIn(access, now) < 1 {
		return g.refuse(GrantExpired)
	}
	return Decision{Next: g, Access: access, Repeated: repeated}
}

func (g Grant) refuse(why Refusal) Decision { return Decision{Next: g, Refusal: why} }

// revoke refuses the request and revokes g, unless g is revoked already.
func (g Grant) revoke(why Refusal) Decision {
	d := g.refuse(why)
	if g.State != Revoked {
		d.Next.Version++
		d.Next.State = Revoked
		d.Next.Reason = reasonOf[why]
	}
	return d
}
