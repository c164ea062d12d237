package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Interactions stores what users are asked.
type Interactions struct {
	Documents
	// Lifetime is how long a user may take, from the client's request to the answer.
	Lifetime time.Duration
	// ContinueURL is the address of an interaction's page, up to its id.
	ContinueURL string
	// Pending counts the interactions under way. It outlives a reload.
	Pending *Pending
}

const interactionBox = "interaction"

// newID is 256 random bits as text.
func newID() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// isID reports whether newID can have made a text.
func isID(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}

// NewBrowser draws the content of a browser's cookie.
func NewBrowser() string { return newID() }

// MaxGuestState is how long a state may be, in bytes, that is kept for a user
// who is not signed in.
const MaxGuestState = 4096

// weight is how much of the store the request takes, in kilobytes. The state is
// stored as base64.
func (it *Interaction) weight() int {
	r := it.Request
	size := len(r.RedirectURI) + len(r.State)*4/3 + len(r.Scope) + len(r.Asked) + len(r.LoginHint) + len(r.UILocales) + len(r.ACRValues)
	for _, text := range slices.Concat(r.Resources, r.Subjects, r.Classes) {
		size += len(text)
	}
	return kilobytes(size)
}

// kilobytes is how much of the store a record takes whose texts have so many bytes.
func kilobytes(size int) int { return 1 + size/1024 }

// ask begins an interaction.
func (a *Authorizer) ask(ctx context.Context, st Stage, r oauth.AuthorizationRequest, v Visitor, step Step) (Stage, error) {
	if st.Session == nil && len(r.State) > MaxGuestState {
		return st, a.clientError(st.Client, r, oauth.ErrGuestState, false, nil)
	}
	it := &Interaction{Request: r, Step: step, Fresh: r.Prompt.Login || stale(r, st.Session, a.now()) || unmet(r, st.Session) != nil}
	if step == StepConsent {
		it.Identity = &st.Session.Identity
	}
	if st.Client.SelfRegistered() && !isUnread(st.Client) {
		it.Client = st.Client // the user answers about what was shown
	}
	err := a.begin(ctx, it, v, st.Session != nil)
	switch {
	case errors.Is(err, ErrLimited), errors.Is(err, oauth.ErrTooLarge):
		return st, err
	case err != nil:
		return st, a.clientError(st.Client, r, oauth.ErrUnavailable, st.Session != nil, err)
	}
	st.Interaction = it
	return st, nil
}

// begin stores a new interaction of a browser, whose user is signed in or not.
func (ins *Interactions) begin(ctx context.Context, it *Interaction, v Visitor, signedIn bool) error {
	now := ins.now()
	if err := ins.Pending.admit(now, ins.Lifetime.Milliseconds(), v, it.weight(), signedIn); err != nil {
		return err
	}
	browser := sha256.Sum256([]byte(v.Browser))
	it.ID, it.Browser = newID(), browser[:]
	it.CreatedAt, it.ExpiresAt = now, now.Add(ins.Lifetime)
	return ins.put(ctx, it, store.Change{})
}

// admit charges a visitor, whose user is signed in or not, for so many kilobytes of
// what is stored until it is answered.
func (p *Pending) admit(now grant.Instant, lifetime int64, v Visitor, weight int, signedIn bool) error {
	if v.Charge != nil && !v.Charge(weight) {
		return ErrLimited
	}
	most := maxPendingGuest
	if signedIn {
		most = maxPending
	}
	return p.add(now, lifetime, v.Network, weight, most)
}

// BeginAccount begins a login for the account pages.
func (ins *Interactions) BeginAccount(ctx context.Context, v Visitor) (*Interaction, error) {
	it := &Interaction{Step: StepLogin}
	return it, ins.begin(ctx, it, v, false)
}

// put stores the next version of it, and with in the same commit.
func (ins *Interactions) put(ctx context.Context, it *Interaction, with store.Change) error {
	d := store.Document{Kind: store.DocumentInteraction, Key: store.KeyOf(store.DocumentInteraction, ins.Realm, it.ID), Version: it.version + 1, ExpiresAt: it.ExpiresAt}
	var err error
	if d.Body, err = ins.seal(interactionBox, it); err != nil {
		return err
	}
	with.Documents = append(slices.Clip(with.Documents), d)
	if err := ins.Store.Commit(ctx, with); err != nil {
		return store.Unavailable(err)
	}
	it.version++
	return nil
}

// load finds an interaction, whosever it is.
func (ins *Interactions) load(ctx context.Context, id string) (*Interaction, error) {
	it := &Interaction{ID: id}
	d, err := ins.unseal(ctx, store.DocumentInteraction, id, interactionBox, it)
	if err != nil {
		return nil, err
	}
	it.ExpiresAt, it.version = d.ExpiresAt, d.Version
	if it.Step == stepLogout {
		return nil, ErrInteraction
	}
	if ins.now() >= it.ExpiresAt {
		return it, ErrExpired
	}
	return it, nil
}

// Interaction finds an interaction of this browser. Somebody else's is the same
// as none: an id is of no use in another browser.
func (ins *Interactions) Interaction(ctx context.Context, id string, v Visitor) (*Interaction, error) {
	it, err := ins.load(ctx, id)
	if it == nil {
		return nil, err
	}
	browser := sha256.Sum256([]byte(v.Browser))
	if v.Browser == "" || subtle.ConstantTimeCompare(browser[:], it.Browser) != 1 {
		return nil, ErrInteraction
	}
	if err == nil && it.Step == StepMoved {
		err = ErrMoved
	}
	return it, err
}

// change applies f to it and stores the result together with what f puts into
// with, unless that is nil. If another request changed something meanwhile, f is
// applied again to that. If f returns errUnchanged, nothing is stored.
func (ins *Interactions) change(ctx context.Context, it *Interaction, with *store.Change, f func(*Interaction) error) error {
	if with == nil {
		with = &store.Change{}
	}
	for range 8 {
		switch err := f(it); {
		case errors.Is(err, errUnchanged):
			return nil
		case err != nil:
			return err
		}
		if err := ins.put(ctx, it, *with); !errors.Is(err, store.ErrConflict) {
			return err
		}
		now, err := ins.load(ctx, it.ID)
		if err != nil {
			return err
		}
		*it = *now
	}
	return store.Unavailable(store.ErrConflict)
}

var errUnchanged = errors.New("unchanged")

// maxPending bounds, in kilobytes, the interactions that one node begins within
// the lifetime of one, because unauthenticated requests begin them. The last fifth is
// reserved for users who are signed in.
const (
	maxPending      = 128 << 10
	maxPendingGuest = maxPending * 4 / 5
	// pendingOfParty is which part of what is free one network may have: enough
	// for as many ordinary logins as throttle.interactions allows an address.
	pendingOfParty = 8
)

// Pending counts the kilobytes of the interactions that one node began in this
// stretch of time and in the one before. The zero value is ready; it is safe for
// concurrent use.
type Pending struct {
	mu           sync.Mutex
	stretch      int64
	young, older begun
}

// begun is what was begun in a stretch: together, and by each network. Each of
// these has a kilobyte at least, so that maxPending bounds them too.
type begun struct {
	kilobytes int
	of        map[netip.Prefix]int
}

// errShare is a network that has begun as much as one may of what all share.
var errShare = fmt.Errorf("%w: its network has its share of all", ErrLimited)

// add counts so many kilobytes for a network, if there is room for them and the
// network has no more than its share. The zero network has no share.
func (p *Pending) add(now grant.Instant, lifetime int64, network netip.Prefix, kilobytes, most int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch stretch := int64(now) / max(1, lifetime); stretch {
	case p.stretch:
	case p.stretch + 1:
		p.stretch, p.older, p.young = stretch, p.young, begun{}
	default:
		p.stretch, p.older, p.young = stretch, begun{}, begun{}
	}
	free := most - p.young.kilobytes - p.older.kilobytes
	switch {
	case kilobytes > free:
		return ErrCrowded
	case network.IsValid() && !overload.Fair(p.young.of[network]+p.older.of[network], kilobytes, free, pendingOfParty):
		return errShare
	}
	p.young.kilobytes += kilobytes
	if network.IsValid() {
		if p.young.of == nil {
			p.young.of = map[netip.Prefix]int{}
		}
		p.young.of[network] += kilobytes
	}
	return nil
}

// A Visitor is what a browser shows of itself.
type Visitor struct {
	Browser string // content of the browser's cookie
	Session string // content of the session's cookie
	// Network is where the visitor is, to have a share of the interactions of
	// all; the zero prefix if visitors cannot be told apart by it.
	Network netip.Prefix
	// Charge, if set, charges the visitor's address for an interaction of so many
	// kilobytes. It returns false if the address has begun too much.
	Charge func(kilobytes int) bool
}
