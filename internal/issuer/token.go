package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A CodeRequest is the authorization_code operation of an authenticated client.
type CodeRequest struct {
	Code        string
	RedirectURI string
	Verifier    string
	Resource    string    // "" for every API of the grant
	JKT         oauth.JKT // the key that signed the request's proof, or zero
	From        grant.Origin
}

// A RefreshRequest is the refresh_token operation of an authenticated client.
type RefreshRequest struct {
	RefreshToken string
	Scope        string
	Resource     string    // "" for every API of the grant
	JKT          oauth.JKT // the key that signed the request's proof, or zero
	From         grant.Origin
}

// Exchange redeems a code (RFC 6749 section 4.1.3). Creating the grant under the id
// in the code makes codes single-use: one caller wins, on any number of nodes, and
// every other caller ends the grant.
func (iss *Issuer) Exchange(ctx context.Context, c *store.Client, r CodeRequest) (Tokens, error) {
	view, err := iss.viewFor(r.JKT)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	code, view, err := reread(ctx, iss, view, r.Code, func(view *directory.View) (grant.Code, error) { return view.Ring.OpenCode(iss.Realm, r.Code) })
	if err != nil {
		return Tokens{}, err
	}
	return iss.redeem(ctx, view, c, code, r, iss.PolicyOf(c))
}

// redeem redeems a code that was opened with a view, under a policy.
func (iss *Issuer) redeem(ctx context.Context, view *directory.View, c *store.Client, code grant.Code, r CodeRequest, policy grant.Policy) (Tokens, error) {
	now := iss.now()
	req := grant.Redemption{
		Realm: iss.Realm, ClientID: c.ID, Allowed: iss.AllowedScope(view, c),
		RedirectURI: r.RedirectURI, Verifier: r.Verifier, JKT: r.JKT, Public: c.Public(), Maker: view.Ring.Maker(code.KeyID),
		Cutoff:  view.Cutoff(iss.Realm, code.Subject, code.ClientID),
		Restore: view.Restore(),
		Attempt: attempt(), KeyID: view.Ring.Current(keys.MAC, now),
		Target: iss.of(view, c).target(code.APIs, r.Resource),
	}
	d := code.Redeem(req, policy, now)
	refused := &grant.Refused{Why: d.Refusal, GrantID: code.GrantID}
	if d.Refusal.Foreign() || d.Refusal.KeyRejected() {
		return Tokens{}, refused
	}
	if d.Refusal == grant.Allowed {
		// Read the claims before the code is spent: a code cannot be presented again.
		answer := response{iss, view, c, &d, r.JKT, now}
		about, err := answer.about(ctx)
		if err != nil {
			return Tokens{}, err
		}
		err = iss.Store.CreateGrant(ctx, d.Next)
		if err == nil || !errors.Is(err, store.ErrConflict) && iss.settled(ctx, d.Next, err) {
			iss.keepRecord(ctx, c, now)
			return answer.tokens(code.Nonce, about)
		}
		if !errors.Is(err, store.ErrConflict) {
			return Tokens{}, store.Unavailable(err)
		}
	}
	// The code was redeemed before, or is refused, for example because it has expired.
	// In both cases, it ends the grant that it may have created.
	d, now, err := iss.update(ctx, code.GrantID, evidence{act: "code presented again", from: r.From}, func(g grant.Grant, now grant.Instant) grant.Decision {
		if r.RedirectURI == deviceRedirect {
			return g.Redeemed(req, policy, now)
		}
		return g.Replay(req)
	})
	switch {
	case err == nil && d.Refusal == grant.Allowed:
		answer := response{iss, view, c, &d, r.JKT, now}
		about, err := answer.about(ctx)
		if err != nil {
			return Tokens{}, err // the same request again gets the same pair
		}
		return answer.tokens("", about)
	case errors.Is(err, store.ErrNotFound) && refused.Why == grant.Allowed:
		// The grant existed a moment ago, and a sweep has deleted it: it has expired.
		return Tokens{}, &grant.Refused{Why: grant.CodeExpired, GrantID: code.GrantID}
	case errors.Is(err, store.ErrNotFound):
		return Tokens{}, refused
	case err != nil:
		return Tokens{}, err
	}
	return Tokens{}, &grant.Refused{Why: d.Refusal, GrantID: code.GrantID}
}

// Refresh rotates a refresh token (RFC 6749 section 6), or returns the same pair for
// a repeated request.
func (iss *Issuer) Refresh(ctx context.Context, c *store.Client, r RefreshRequest) (Tokens, error) {
	view, err := iss.viewFor(r.JKT)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	tok, view, err := iss.open(ctx, view, r.RefreshToken, RefreshToken)
	if err != nil {
		return Tokens{}, err
	}
	rot := rotations.Get().(*rotation)
	rot.change = change{iss: iss, decide: rot.decide, evidence: evidence{generation: tok.Generation, from: r.From}}
	rot.view, rot.c, rot.resource, rot.key, rot.policy = view, c, r.Resource, tok.Key, iss.PolicyOf(c)
	rot.req = iss.presents(view, c, tok)
	req := &rot.req
	req.JKT = r.JKT
	req.Attempt = grant.NewAttempt(attempt(), tok.Key, r.JKT)
	if r.Scope != "" {
		if req.Scope, err = oauth.ParseScope(r.Scope); err != nil || req.Scope == "" {
			// No grant covers unparsable: Refresh refuses it after all other checks.
			req.Scope = unparsable
		}
		req.Scope = req.Scope.Without(oauth.OfflineAccess)
	}
	rot.asked = req.Scope
	err = rot.commit(ctx, tok.GrantID, rot.on)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Tokens{}, &grant.Refused{Why: req.Unrecorded(rot.policy, iss.now()), GrantID: tok.GrantID}
	case err != nil:
		return Tokens{}, err // the store may still be writing to rot
	}
	defer rot.reuse()
	if why := rot.made.Refusal; why != grant.Allowed {
		return Tokens{}, &grant.Refused{Why: why, GrantID: tok.GrantID}
	}
	iss.keepRecord(ctx, c, rot.now)
	answer := response{iss, view, c, &rot.made, r.JKT, rot.now}
	about, err := answer.about(ctx)
	if err != nil {
		return Tokens{}, err // the same request again gets the same pair
	}
	return answer.tokens("", about)
}

// A rotation is a refresh in progress. Rotations are pooled, each with its method values:
// allocating them would cost as much as the rest of the issuer's work on a refresh.
type rotation struct {
	change
	decide func(grant.Grant, grant.Instant) grant.Decision
	on     store.Decide

	view     *directory.View
	c        *store.Client
	req      grant.Refresh
	policy   grant.Policy
	key      grant.KeyID // of the token
	asked    oauth.Scope
	resource string
}

var rotations = sync.Pool{New: func() any {
	r := &rotation{}
	r.decide, r.on = r.refresh, r.change.on
	return r
}}

// reuse returns r to the pool. The caller must not read r afterwards.
func (r *rotation) reuse() {
	*r = rotation{decide: r.decide, on: r.on}
	rotations.Put(r)
}

// refresh decides the rotation of the stored grant g. The store may call it again.
func (r *rotation) refresh(g grant.Grant, now grant.Instant) grant.Decision {
	r.req.Cutoff = r.view.Cutoff(g.Realm, g.Subject, g.ClientID)
	r.req.KeyID = r.view.Ring.Current(keys.MAC, now)
	r.req.SpentByOther = r.view.Ring.SpentByOther(g, r.key)
	r.req.Target = r.iss.of(r.view, r.c).target(g.APIs, r.resource)
	if r.asked != "" && r.asked != unparsable && r.c.SelfRegistered() {
		r.req.Scope = covered(r.asked, g.Scope.Common(r.req.Allowed), r.req.Target)
	}
	return g.Refresh(r.req, r.policy, now)
}

// unparsable is a scope that no grant has: its character is not allowed in scopes.
const unparsable oauth.Scope = `"`

// covered returns the part of the requested scope that the grant and the target cover (RFC
// 6749 section 3.3), for a client that registered itself: such clients request every scope
// that they have read of. It returns "", which requests all, if nothing is left.
func covered(asked, granted oauth.Scope, t *grant.Target) oauth.Scope {
	if t != nil && t.Scope != "" {
		granted = granted.Common(t.Scope)
	}
	return granted.Common(asked)
}

// A change is a decision about a stored grant: the function that decides and, once the
// store has read the row, the result and its instant.
type change struct {
	iss      *Issuer
	decide   func(g grant.Grant, now grant.Instant) grant.Decision
	evidence evidence

	made grant.Decision
	now  grant.Instant
}

// on implements store.Decide.
func (c *change) on(g grant.Grant) (grant.Grant, []store.Event) {
	c.now = c.iss.now()
	c.made = c.decide(g, c.now)
	return c.made.Next, revocation(g, c.made, c.evidence, c.now)
}

// update applies decide to a stored grant. It commits before it refuses, so that the
// revocation after a replay is never lost. It returns store.ErrNotFound unchanged.
func (iss *Issuer) update(ctx context.Context, id grant.ID, e evidence, decide func(g grant.Grant, now grant.Instant) grant.Decision) (grant.Decision, grant.Instant, error) {
	c := &change{iss: iss, decide: decide, evidence: e}
	if err := c.commit(ctx, id, c.on); err != nil {
		return grant.Decision{}, iss.now(), err
	}
	return c.made, c.now, nil
}

// commit updates a stored grant by on, which must be c.on. After an error, the store may
// still be writing to c.
func (c *change) commit(ctx context.Context, id grant.ID, on store.Decide) error {
	err := c.iss.Store.UpdateGrant(ctx, id, on)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return err
	case ctx.Err() == nil && c.iss.settled(ctx, c.made.Next, err):
		return nil
	}
	return store.Unavailable(err)
}

// evidence is the request that may end a grant, as the event records it.
type evidence struct {
	act        string // "": a refresh token of the generation was presented
	generation uint32
	from       grant.Origin
}

func (e evidence) String() string {
	if e.act == "" {
		return fmt.Sprintf("generation %d presented from %s", e.generation, e.from)
	}
	return e.act + " from " + e.from.String()
}

// settled reports whether a write of unknown outcome is in the store. A row that
// equals next, including the write nonce, is this write. Anything else is left to
// the client's next request: to treat it as a replay would end a grant because of
// a fault of the server.
func (iss *Issuer) settled(ctx context.Context, next grant.Grant, err error) bool {
	if errors.Is(err, store.ErrBusy) || next.State != grant.Active {
		return false
	}
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		g, err := iss.Store.Grant(ctx, next.ID)
		if err == nil {
			return g == next
		}
		if errors.Is(err, store.ErrNotFound) {
			return false
		}
		if !directory.Pause(ctx, pause) {
			return false
		}
	}
}

// revocation returns the event of a decision that ends a grant or its access tokens.
// Redemptions and rotations have no event: the row shows them.
func revocation(g grant.Grant, d grant.Decision, e evidence, now grant.Instant) []store.Event {
	var name store.EventName
	switch {
	case g.State == d.Next.State && g.AccessFloor == d.Next.AccessFloor:
		return nil
	case g.State == d.Next.State:
		name = store.EventAccessRevoked
	case d.Next.Reason == grant.ReasonCodeReplayed:
		name = store.EventCodeReplayed
	case d.Next.Reason == grant.ReasonRefreshReplayed:
		name = store.EventRefreshReplayed
	default:
		name = store.EventGrantRevoked
	}
	return []store.Event{{At: now, Name: name, About: g.ID.String(), Actor: g.ClientID, Detail: e.String()}}
}

// open reads a token of a kind with view or, if view lacks the text's key, with a newer
// view, and returns the view that it used. A text that is not authentic, or of another
// kind, is Refused.
func (iss *Issuer) open(ctx context.Context, view *directory.View, text string, kind Kind) (Token, *directory.View, error) {
	return reread(ctx, iss, view, text, func(view *directory.View) (Token, error) {
		if kindOf(text) != kind {
			return Token{}, keys.ErrNotAuthentic
		}
		return iss.Read(view, text)
	})
}

// reread reads a text with view or, if view lacks the text's key, again with a newer
// view.
func reread[T any](ctx context.Context, iss *Issuer, view *directory.View, text string, read func(*directory.View) (T, error)) (T, *directory.View, error) {
	t, err := read(view)
	if err == nil {
		return t, view, nil
	}
	fresh, unread := iss.Directory.PollForKey(ctx, view, text)
	if unread != nil {
		return t, view, store.Unavailable(unread)
	}
	if fresh != nil {
		view = fresh
		t, err = read(view)
	}
	if err != nil {
		return t, view, &grant.Refused{Why: grant.TokenUnknown}
	}
	return t, view, nil
}

// presented converts a token to the input of package grant.
func (iss *Issuer) presented(view *directory.View, t Token, clientID string) grant.Presented {
	return grant.Presented{
		Realm: iss.Realm, ClientID: clientID, Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt,
		Maker: view.Ring.Maker(t.Key), Restore: view.Restore(),
	}
}

// presents returns the client's refresh request with a token.
func (iss *Issuer) presents(view *directory.View, c *store.Client, t Token) grant.Refresh {
	return grant.Refresh{
		Realm: iss.Realm, ClientID: c.ID, Allowed: iss.AllowedScope(view, c),
		Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt,
		Maker: view.Ring.Maker(t.Key), Restore: view.Restore(),
		MustBeBound: c.Public() && c.DPoP == store.DPoPRequired,
	}
}
