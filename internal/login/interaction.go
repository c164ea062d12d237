package login

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// Interactions stores the interactions of one realm.
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

// NewBrowser returns a random value for a browser's cookie.
func NewBrowser() string { return newID() }

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

// begin stores a new interaction of a browser. signedIn is set if its user is signed in.
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

// load finds an interaction of any browser.
func (ins *Interactions) load(ctx context.Context, id string) (*Interaction, error) {
	it := &Interaction{ID: id}
	d, err := ins.unseal(ctx, store.DocumentInteraction, id, interactionBox, it)
	if err != nil {
		return nil, err
	}
	it.ExpiresAt, it.version = d.ExpiresAt, d.Version
	if ins.now() >= it.ExpiresAt {
		return it, ErrExpired
	}
	return it, nil
}

// Interaction finds an interaction of this browser. For an interaction of another browser,
// it returns ErrInteraction: an id is of no use there.
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

// change applies f to it and stores the result together with what f puts into with, unless
// with is nil. If another request has changed the interaction meanwhile, change reads it
// again and applies f to the new version. If f returns errUnchanged, nothing is stored.
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

// proveMore records that a built-in user has passed a step in an epoch of the user's
// record, and which step the user must pass next.
func (ins *Interactions) proveMore(ctx context.Context, it *Interaction, who Proof) error {
	return ins.change(ctx, it, nil, func(it *Interaction) error {
		if it.Step != StepLogin && it.Step != who.Owes {
			return ErrStep
		}
		it.Step, it.Username, it.Epoch = who.Owes, who.Username, who.Epoch
		return nil
	})
}

// restart begins the login again, as another interaction, so that no user answers a page
// that was shown to another user (CWE-639). If another is set, the login is for another
// user, and the browser's session does not count.
func (ins *Interactions) restart(ctx context.Context, it *Interaction, v Visitor, another bool) (*Interaction, error) {
	next := &Interaction{Request: it.Request, Client: it.Client, Device: it.Device, Console: it.Console, SeenEnds: it.SeenEnds, Step: StepLogin, Fresh: it.Fresh || another}
	if err := ins.begin(ctx, next, v, it.Identity != nil); err != nil {
		return nil, err
	}
	err := ins.change(ctx, it, nil, func(it *Interaction) error {
		switch {
		case it.Decision != nil:
			return ErrAnswered
		case it.Step == StepMoved:
			return ErrMoved
		}
		it.Step, it.Next = StepMoved, next.ID
		return nil
	})
	return next, err
}

// identify records the user's identity, and in the same commit what add adds, unless add
// is nil. add may change the identity.
func (ins *Interactions) identify(ctx context.Context, it *Interaction, who Identity, add func(*Identity, *store.Change) error) error {
	var with store.Change
	return ins.change(ctx, it, &with, func(it *Interaction) error {
		if it.Decision != nil {
			return ErrAnswered
		}
		with = store.Change{}
		if add != nil {
			if err := add(&who, &with); err != nil {
				return err
			}
		}
		it.Step, it.Identity, it.Username = StepConsent, &who, ""
		return nil
	})
}

// keepUpstream stores the values with which the answer of another provider is compared.
func (ins *Interactions) keepUpstream(ctx context.Context, it *Interaction, pending json.RawMessage) error {
	return ins.change(ctx, it, nil, func(it *Interaction) error {
		if it.Step != StepLogin {
			return ErrStep
		}
		it.Upstream = pending
		return nil
	})
}
