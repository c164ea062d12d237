package issuer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/lease"
	"github.com/mintage/mintage/internal/store"
)

// A SessionEnd is the end of a session. The grants that end with it record its author
// and its reason, whichever process revokes them.
type SessionEnd struct {
	Subject   string
	Reference [16]byte
	// Grants is set if all grants of the session end with it, whatever their clients
	// are registered for.
	Grants bool
	Actor  string // of the events, as in store.Event
	Detail string
}

// Revoke returns g revoked because of e, and the event. The reason is ReasonOperator if
// all grants of the session end with it, and ReasonLogout if only some do.
func (e SessionEnd) Revoke(g grant.Grant, now grant.Instant) (grant.Grant, []store.Event) {
	why := grant.ReasonLogout
	if e.Grants {
		why = grant.ReasonOperator
	}
	return g.Revoke(why).Next, []store.Event{{At: now, Name: store.EventGrantRevoked, About: g.ID.String(), Actor: e.Actor, Detail: e.Detail}}
}

// EndGrants revokes the grants that end with a session. It returns how many it revoked.
// It can be repeated: a code that was issued before the end may become a grant after it.
func (iss *Issuer) EndGrants(ctx context.Context, e SessionEnd) (revoked int, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return 0, store.Unavailable(err)
	}
	any := e.Grants || view.AnyMarked(directory.Ending, iss.Realm)
	if !any || e.Reference == [16]byte{} {
		return 0, nil
	}
	for g, err := range store.EachGrant(ctx, iss.Store, store.GrantFilter{Realm: iss.Realm, Subject: e.Subject}) {
		if err != nil {
			return revoked, store.Unavailable(err)
		}
		c, ok := view.Registered(iss.Realm, g.ClientID) // a disabled client may be enabled again
		if g.Session != e.Reference || g.State != grant.Active || !e.Grants && (!ok || !c.LogoutEndsGrants) {
			continue
		}
		err = iss.Store.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) { return e.Revoke(g, iss.now()) })
		switch {
		case err == nil:
			revoked++
		case !errors.Is(err, store.ErrNotFound):
			return revoked, store.Unavailable(err)
		}
	}
	return revoked, nil
}

const (
	// endsPage is how many ends are read at once, endsInterval the time between two reads.
	endsPage     = 100
	endsInterval = time.Second
	// endsKept is how long an end is kept that no node has processed.
	endsKept = 7 * 24 * time.Hour
	// redeeming is how long the redemption of a code may take.
	redeeming = 10 * time.Second
)

// InFlight is how long after its session has ended a code can become a grant.
func (iss *Issuer) InFlight() time.Duration {
	return iss.CodeLifetime + 2*iss.Policy.MaxSkew + redeeming
}

// InFlightToDevices is how long after a session has ended a device can redeem the code
// that the session's user has allowed.
func InFlightToDevices(iss *Issuer) time.Duration {
	return DeviceLifetime + 2*iss.Policy.MaxSkew + redeeming
}

// A storedEnd is the document of a SessionEnd.
type storedEnd struct {
	Subject   string        `json:"subject"`
	Session   string        `json:"session"` // the reference, in hexadecimal digits
	At        grant.Instant `json:"at"`
	Grants    bool          `json:"grants,omitempty"`
	Actor     string        `json:"actor"`
	Detail    string        `json:"detail"`
	RequestID string        `json:"request_id,omitempty"` // of the request that has ended the session
	RemoteIP  netip.Addr    `json:"remote_ip,omitzero"`
	// Due is when Ends looks for grants again; zero: it has not looked yet.
	Due grant.Instant `json:"due,omitempty"`
}

// ownerEnds is the owner of all unfinished ends. It equals the owner of no subject,
// because subjects contain no control characters.
func ownerEnds(realm string) store.Owner { return store.OwnerOf(realm, "\x00session ends") }

// Document returns the document that the commit of a session's end stores, so that Ends
// revokes the grants of the session even if the committing process dies right after it.
func (e SessionEnd) Document(ctx context.Context, realm string, at grant.Instant) (store.Document, error) {
	from := audit.From(ctx)
	return storedEnd{
		Subject: e.Subject, Session: hex.EncodeToString(e.Reference[:]), At: at, Grants: e.Grants, Actor: e.Actor, Detail: e.Detail,
		RequestID: from.RequestID, RemoteIP: from.RemoteIP,
	}.document(realm, store.KeyAt(at, realm, e.Subject, rand.Text()))
}

// document returns the first version of a document. Keys are in the order in which
// their documents are due.
func (s storedEnd) document(realm string, key store.DocumentKey) (store.Document, error) {
	body, err := json.Marshal(s)
	return store.Document{
		Kind: store.DocumentSessionEnd, Key: key, Version: 1, ExpiresAt: max(s.At, s.Due).Add(endsKept), Owner: ownerEnds(realm), Body: body,
	}, err
}

// end returns the end that s stores.
func (s storedEnd) end() SessionEnd {
	e := SessionEnd{Subject: s.Subject, Grants: s.Grants, Actor: s.Actor, Detail: s.Detail}
	hex.Decode(e.Reference[:], []byte(s.Session))
	return e
}

// Ends revokes the grants of sessions that have ended, on one node at a time. It does so
// at once, again when every code of the session has become a grant or has expired, and
// once more when every device code has. The ends are in the store: if a node dies, another
// node continues with its ends. One goroutine uses an Ends.
type Ends struct {
	Store  store.Store
	Lease  *lease.Lease
	Log    *slog.Logger
	Outage *store.Outage // nil: each failure is logged
	// ClockFault returns an error if this node's clock differs from those of other nodes:
	// with a clock ahead, the first look at an end would also be the last.
	ClockFault func() error

	issuer  atomic.Pointer[Issuer]
	waiting bool // the last look has found ends
}

// Use makes e revoke grants through iss from now on. It must be called before Run.
func (e *Ends) Use(iss *Issuer) { e.issuer.Store(iss) }

// Run works until ctx ends.
func (e *Ends) Run(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := e.look(ctx)
		if more && err == nil {
			continue
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) && e.waiting && !e.Outage.Combines(err, e.Lease.Monotonic()) {
			e.Log.Warn("cannot revoke the grants of ended sessions; trying again", "error", err)
		}
		directory.Pause(ctx, endsInterval)
	}
}

// look revokes the grants of the ends that are due, and reports whether more ends may be
// due. It releases the lease before it returns.
func (e *Ends) look(ctx context.Context) (more bool, err error) {
	if e.ClockFault() != nil {
		return false, nil
	}
	iss := e.issuer.Load()
	list, err := e.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentSessionEnd, Owner: ownerEnds(iss.Realm), Limit: endsPage})
	if err != nil {
		return false, err
	}
	e.waiting = len(list) > 0
	defer e.Lease.Release(context.WithoutCancel(ctx)) // also if the server stops meanwhile
	for _, d := range list {
		var s storedEnd
		if fault := json.Unmarshal(d.Body, &s); fault != nil {
			err = fmt.Errorf("decode %s: %w", d.Kind, fault) // does not hold up the other ends
			continue
		}
		if s.Due > iss.now() {
			continue
		}
		if leads, err := e.Lease.Leads(ctx); err != nil || !leads {
			return false, err
		}
		more = len(list) == endsPage
		if err := e.revoke(ctx, iss, d, s); err != nil && !errors.Is(err, store.ErrConflict) {
			return false, err
		}
	}
	return more, err
}

// revoke revokes the grants of an end, and then deletes or postpones the end. If the node
// dies in between, another node repeats it, which changes no revoked grant.
func (e *Ends) revoke(ctx context.Context, iss *Issuer, d store.Document, s storedEnd) error {
	now, due := iss.now(), s.At.Add(iss.InFlight())
	if s.Due != 0 || now >= due {
		due = s.At.Add(InFlightToDevices(iss))
	}
	origin := audit.Origin{RequestID: s.RequestID, RemoteIP: s.RemoteIP}
	if _, err := iss.EndGrants(audit.With(ctx, origin), s.end()); err != nil {
		return err
	}
	c := store.Change{Delete: []store.DocumentKey{d.Key}}
	if now < due {
		s.Due = due
		again, err := s.document(iss.Realm, store.KeyAt(due, string(d.Key[:])))
		if err != nil {
			return err
		}
		c.Documents = []store.Document{again}
	}
	return e.Store.Commit(ctx, c)
}
