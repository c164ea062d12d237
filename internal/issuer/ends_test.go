package issuer_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/lease"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// An endsBench is the fixture with two clients: "ends", whose grants end with their
// session, and "keeps", whose grants outlive it.
type endsBench struct {
	*testkit.Kit
}

var endedSession = [16]byte{1}

func newEndsBench(t *testing.T) endsBench {
	b := endsBench{testkit.New(t)}
	for _, id := range []string{"ends", "keeps"} {
		b.Register(client.Registration{
			ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid read", Auth: store.AuthEither, LogoutEndsGrants: id == "ends"},
		})
	}
	return b
}

// node makes the worker of one node. Each node may have its own view of the store.
func (b endsBench) node(st store.Store) *issuer.Ends {
	iss := *b.Issuer
	iss.Store = st
	e := &issuer.Ends{Store: st, Log: b.Issuer.Log, ClockFault: b.Issuer.Directory.ClockFault, Lease: lease.New(lease.Lease{
		Store: st, Key: store.DocumentKey{9}, Monotonic: b.Clock.Now, Log: b.Issuer.Log,
	})}
	e.Use(&iss)
	return e
}

// grant stores a grant that was authorized now.
func (b endsBench) grant(clientID string, session [16]byte, n byte) grant.ID {
	b.T.Helper()
	now := b.At()
	g := grant.Grant{
		ID: grant.ID{n}, Realm: testkit.Realm, ClientID: clientID, Subject: "alice", Scope: "openid", AuthorizedAt: now, Facts: grant.Facts{Session: session},
		Generation: 1, Version: 1, RotatedAt: now, ExpiresAt: now.Add(30 * 24 * time.Hour), DeleteAfter: now.Add(31 * 24 * time.Hour), State: grant.Active,
	}
	if err := b.Engine.CreateGrant(b.T.Context(), g); err != nil {
		b.T.Fatal(err)
	}
	return g.ID
}

// end stores a session end, like the commit that ends the session.
func (b endsBench) end(ctx context.Context, change ...func(*issuer.SessionEnd)) {
	b.T.Helper()
	e := issuer.SessionEnd{Subject: "alice", Reference: endedSession, Actor: "subject:alice", Detail: "the user has signed out"}
	for _, f := range change {
		f(&e)
	}
	d, err := e.Document(ctx, testkit.Realm, b.At())
	if err == nil {
		err = b.Engine.Commit(ctx, store.Change{Documents: []store.Document{d}})
	}
	if err != nil {
		b.T.Fatal(err)
	}
}

func byOperator(e *issuer.SessionEnd) {
	e.Grants, e.Actor, e.Detail = true, "operator:root", "with the session"
}

// look runs a node's worker until nothing is due.
func (b endsBench) look(e *issuer.Ends) {
	b.T.Helper()
	for more := true; more; {
		var err error
		if more, err = e.Look(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
}

// want checks the states of grants, and that the revocation of each was recorded once.
func (b endsBench) want(state grant.State, ids ...grant.ID) {
	b.T.Helper()
	for _, id := range ids {
		g, err := b.Engine.Grant(b.T.Context(), id)
		if err != nil || g.State != state {
			b.T.Errorf("grant %x of %s is %s, not %s: %v", id[0], g.ClientID, g.State, state, err)
		}
		events, err := b.Engine.Events(b.T.Context(), id.String(), 10)
		if err != nil || (len(events) == 1) != (state == grant.Revoked) {
			b.T.Errorf("grant %x: recorded %+v, %v", id[0], events, err)
		}
	}
}

// left counts the session ends that are not finished.
func (b endsBench) left() int {
	b.T.Helper()
	list, err := b.Engine.Documents(b.T.Context(), store.DocumentFilter{Kind: store.DocumentSessionEnd, Limit: 1000})
	if err != nil {
		b.T.Fatal(err)
	}
	return len(list)
}

// The process that ends the session dies after the commit. The next node revokes the
// grants, including those of codes that were in flight.
func TestEndsRevokeGrantsAtOnceAndAgain(t *testing.T) {
	b := newEndsBench(t)
	first, kept, other := b.grant("ends", endedSession, 1), b.grant("keeps", endedSession, 2), b.grant("ends", [16]byte{2}, 3)
	b.end(t.Context())
	x, y := b.node(b.Engine), b.node(b.Engine)
	b.look(x)
	b.want(grant.Revoked, first)
	late := b.grant("ends", endedSession, 4) // by a code that was in flight
	b.look(y)
	b.want(grant.Active, late)
	b.Clock.Advance(b.InFlight() - time.Second)
	b.look(y)
	b.want(grant.Active, late)
	b.Clock.Advance(time.Second)
	b.look(y)
	b.want(grant.Revoked, first, late)
	b.want(grant.Active, kept, other)
	b.Clock.Advance(issuer.DeviceLifetime)
	b.look(y)
	if n := b.left(); n != 0 {
		t.Errorf("%d ends are left", n)
	}
}

// The session end of an operator ends all its grants, whatever the registrations of their
// clients. Each revocation records who ended the session, why, and by which request,
// whichever process revokes the grant.
func TestEndsRecordWhoAndWhy(t *testing.T) {
	b := newEndsBench(t)
	st := &withOrigins{Store: b.Engine}
	from := audit.Origin{RequestID: "c0ffee", RemoteIP: netip.MustParseAddr("192.0.2.7")}
	first := b.grant("keeps", endedSession, 1)
	b.end(audit.With(t.Context(), from), byOperator)
	e := b.node(st)
	b.look(e)
	late := b.grant("keeps", endedSession, 2)
	b.Clock.Advance(b.InFlight())
	b.look(e)
	b.want(grant.Revoked, first, late)
	for _, id := range []grant.ID{first, late} {
		events, err := b.Engine.Events(t.Context(), id.String(), 10)
		if err != nil || len(events) != 1 || events[0].Actor != "operator:root" || events[0].Detail != "with the session" {
			t.Errorf("recorded %+v, %v", events, err)
		}
		if g, err := b.Engine.Grant(t.Context(), id); err != nil || g.Reason != grant.ReasonOperator {
			t.Errorf("%s, %v", g.Reason, err)
		}
	}
	if len(st.seen) != 2 || st.seen[0] != from || st.seen[1] != from {
		t.Errorf("the requests are %+v, not twice %+v", st.seen, from)
	}
}

// withOrigins notes the requests by which grants are changed.
type withOrigins struct {
	store.Store
	seen []audit.Origin
}

func (w *withOrigins) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	w.seen = append(w.seen, audit.From(ctx))
	return w.Store.UpdateGrant(ctx, id, decide)
}

var errKilled = errors.New("killed")

// killed is the store of a node that dies at its nth write: before the write happens, or
// after it and before the node gets the answer. Every later call fails.
type killed struct {
	store.Store
	mu     sync.Mutex
	n      int
	after  bool
	writes int
}

func (k *killed) write(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	if k.writes == k.n && k.after {
		if err := do(); err != nil {
			return err
		}
	}
	if k.writes >= k.n {
		return errKilled
	}
	return do()
}

func (k *killed) Commit(ctx context.Context, c store.Change) error {
	return k.write(func() error { return k.Store.Commit(ctx, c) })
}

func (k *killed) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	return k.write(func() error { return k.Store.UpdateGrant(ctx, id, decide) })
}

// A node dies at each of its writes, at both looks. Another node takes over when the
// lease has run out, and every grant is revoked and recorded once.
func TestEndsOfANodeThatDies(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			b := newEndsBench(t)
			ids := []grant.ID{b.grant("ends", endedSession, 1), b.grant("ends", endedSession, 2)}
			b.end(t.Context())
			st := &killed{Store: b.Engine, n: n, after: after}
			x, y := b.node(st), b.node(b.Engine)
			dies := func() {
				if _, err := x.Look(t.Context()); err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
			takesOver := func() {
				for range 12 {
					b.Clock.Advance(time.Second)
					b.look(y)
				}
			}
			dies()
			if st.writes >= n {
				takesOver()
				b.want(grant.Revoked, ids...)
			}
			ids = append(ids, b.grant("ends", endedSession, 3))
			b.Clock.Advance(b.InFlight())
			dies()
			takesOver()
			b.want(grant.Revoked, ids...)
			b.Clock.Advance(issuer.DeviceLifetime)
			takesOver()
			if left := b.left(); left != 0 {
				t.Errorf("write %d, done %t: %d ends are left", n, after, left)
			}
			if st.writes < n {
				if n < 8 {
					t.Errorf("only %d writes", st.writes)
				}
				break
			}
		}
	}
}

// Only one node works at a time. If it dies, another takes over when its lease has run
// out.
func TestOneNodeEndsGrantsAtATime(t *testing.T) {
	b := newEndsBench(t)
	id := b.grant("ends", endedSession, 1)
	b.end(t.Context())
	st := &killed{Store: b.Engine, n: 2} // the node dies after taking the lease
	x, y := b.node(st), b.node(b.Engine)
	if _, err := x.Look(t.Context()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	for range 10 {
		b.look(y)
		b.want(grant.Active, id)
		b.Clock.Advance(time.Second)
	}
	b.look(y)
	b.want(grant.Revoked, id)
	// A node that has finished releases the lease at once.
	b.Clock.Advance(b.InFlight())
	b.end(t.Context())
	next := b.grant("ends", endedSession, 2)
	b.look(b.node(b.Engine))
	b.want(grant.Revoked, next)
}

// An end that waits for its second look does not hold up others. Neither does a document
// that cannot be read, or a clock that is set back.
func TestEndsDoNotWaitForEachOther(t *testing.T) {
	b := newEndsBench(t)
	b.end(t.Context())
	b.grant("ends", endedSession, 1)
	e := b.node(b.Engine)
	b.look(e)
	list, err := b.Engine.Documents(t.Context(), store.DocumentFilter{Kind: store.DocumentSessionEnd, Limit: 10})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	damaged := list[0]
	damaged.Key, damaged.Body = store.DocumentKey{1}, []byte("{")
	if err := b.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{damaged}}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(-time.Hour)
	id := b.grant("ends", endedSession, 2)
	b.end(t.Context())
	if _, err := e.Look(t.Context()); err == nil {
		t.Error("a document that cannot be read is no error")
	}
	b.want(grant.Revoked, id)
}

// A node whose clock is ahead leaves session ends to other nodes: it would finish them
// before all codes in flight have expired, and miss the grants of those codes.
func TestAClockAheadEndsNoGrants(t *testing.T) {
	b := newEndsBench(t)
	b.end(t.Context())
	e := b.node(b.Faulty)
	e.ClockFault = func() error { return errors.New("an hour ahead") }
	b.Clock.Advance(time.Hour)
	b.look(e)
	b.Clock.Advance(-time.Hour)
	id := b.grant("ends", endedSession, 1)
	e.ClockFault = func() error { return nil }
	b.look(e)
	b.want(grant.Revoked, id)
}

// A revocation that fails is tried again.
func TestEndsContinueAfterAnOutage(t *testing.T) {
	b := newEndsBench(t)
	id := b.grant("ends", endedSession, 1)
	b.end(t.Context())
	e := b.node(b.Faulty)
	for _, fault := range []storetest.Fault{storetest.Lost, storetest.Unanswered} {
		for _, m := range []storetest.Method{storetest.Documents, storetest.Document, storetest.Grants, storetest.UpdateGrant} {
			b.Faulty.Inject(m, 1, fault)
			if _, err := e.Look(t.Context()); err == nil && m != storetest.UpdateGrant {
				t.Errorf("%s failed, and that is no error", m)
			}
			b.Faulty.Heal()
		}
	}
	b.look(e)
	b.want(grant.Revoked, id)
}

// A device may redeem its code until the code expires: long after the session of the user
// who approved the device has ended.
func TestEndsRevokeGrantsOfDevices(t *testing.T) {
	b := newEndsBench(t)
	b.IDTokenLifetime = 5 * time.Minute // else codes name no session
	tv, _ := b.Register(client.Registration{ID: "tv", Settings: store.Settings{
		Name: "TV", Auth: store.AuthNone, Scope: "openid read", RedirectURIs: []string{}, GrantTypes: []string{store.GrantDeviceCode, store.GrantRefreshToken}, IDTokenAlg: keys.ES256, LogoutEndsGrants: true,
	}})
	c, devices := &tv, issuer.DeviceCodes{Issuer: b.Issuer}
	asked, err := devices.DeviceAuthorization(t.Context(), c, issuer.DeviceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := devices.FindDevice(t.Context(), b.View(), asked.UserCode)
	if err == nil {
		d, err = devices.AllowDevice(c, d, issuer.Agreement{
			Authorization: issuer.Authorization{ClientID: "tv", Subject: "alice", Scope: "openid read", Session: endedSession},
			KeyID:         b.View().Ring.Current(keys.Seal, b.At()), AuthorizedAt: b.At(),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	doc, err := devices.DeviceDocument(d)
	if err == nil {
		err = b.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{doc}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.end(t.Context())
	e := b.node(b.Engine)
	b.look(e)
	b.Clock.Advance(b.InFlight())
	b.look(e)
	b.Clock.Advance(issuer.DeviceLifetime - b.InFlight() - time.Second)
	tokens, err := devices.DeviceToken(t.Context(), c, issuer.CodeRequest{Code: asked.DeviceCode, From: testkit.Origin})
	if err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Minute)
	b.look(e)
	b.want(grant.Revoked, tokens.GrantID)
	if n := b.left(); n != 0 {
		t.Errorf("%d ends are left", n)
	}
}
