package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A Ticket carries the result of a login at another system to the console.
type Ticket struct {
	// Challenge is the code challenge of the verifier in the browser that began to sign in at
	// the console (RFC 7636 section 4.2).
	Challenge string   `json:"challenge"`
	Subject   string   `json:"subject"`
	ACR       string   `json:"acr,omitempty"`
	AMR       []string `json:"amr,omitempty"`
	Rule      string   `json:"rule,omitempty"` // the first one that fits, "": none
	// Nonce identifies the request that has spent the ticket (see invitation.Nonce).
	Nonce uint64 `json:"nonce,omitempty"`
}

// ticketLife is how long a browser may take from the login to the console.
const ticketLife = time.Minute

// ErrNoTicket says that a ticket does not exist, has expired, or was spent.
const ErrNoTicket Error = "there is no such ticket"

// NewVerifier returns a code verifier, which a browser keeps while it signs in.
func NewVerifier() string { return string(keys.NewSecret()) }

// Document returns the document of a new ticket, and the text that names it.
func (t Ticket) Document(now grant.Instant) (text string, d store.Document, err error) {
	text = string(keys.NewSecret())
	d = store.Document{Kind: store.DocumentConsoleTicket, Key: store.KeyOf(store.DocumentConsoleTicket, "", text), Version: 1, ExpiresAt: now.Add(ticketLife)}
	d.Body, err = json.Marshal(t)
	return text, d, err
}

// SpendTicket spends a ticket, once, and returns it.
func SpendTicket(ctx context.Context, st store.Store, text string, now grant.Instant) (t Ticket, err error) {
	d, err := read(ctx, st, store.DocumentConsoleTicket, text, &t, ErrNoTicket)
	if err != nil {
		return t, err
	}
	if t.Nonce != 0 || now >= d.ExpiresAt {
		return t, ErrNoTicket
	}
	t.Nonce = rand.Uint64() | 1
	return t, spend(ctx, st, d, t, ErrNoTicket)
}

// An invitation lets an operator sign in once.
type invitation struct {
	Operator  string        `json:"operator"`
	By        string        `json:"by"`
	At        grant.Instant `json:"at"`
	ExpiresAt grant.Instant `json:"expires"`
	SpentAt   grant.Instant `json:"spent,omitempty"`
	// Nonce identifies the request that has spent the invitation: without it, the store would
	// accept equal writes of two requests.
	Nonce uint64 `json:"nonce,omitempty"`
}

// Limits of invitations.
const (
	Invitation = 10 * time.Minute
	// spentFor is how long a spent or expired invitation is kept, so that its page can say
	// why it is invalid.
	spentFor = 24 * time.Hour
)

// Errors of invitations.
const (
	ErrNoInvitation Error = "there is no such invitation"
	ErrSpent        Error = "the invitation was used"
	ErrExpired      Error = "the invitation has expired"
)

// Invite makes an invitation for an operator, and returns the text that its link ends
// with.
func Invite(ctx context.Context, st store.Store, name, actor string, now grant.Instant) (text string, expires grant.Instant, err error) {
	if _, err := Find(ctx, st, name); err != nil {
		return "", 0, err
	}
	text = string(keys.NewSecret())
	i := invitation{Operator: name, By: actor, At: now, ExpiresAt: now.Add(Invitation)}
	d := store.Document{Kind: store.DocumentConsoleInvitation, Key: store.KeyOf(store.DocumentConsoleInvitation, "", text), Version: 1, ExpiresAt: i.ExpiresAt.Add(spentFor)}
	if d.Body, err = json.Marshal(i); err != nil {
		return "", 0, err
	}
	e := store.Event{At: now, Name: store.EventConsoleInvited, About: About, Actor: actor, Detail: name}
	return text, i.ExpiresAt, st.Commit(ctx, store.Change{Documents: []store.Document{d}, Events: []store.Event{e}})
}

func readInvitation(ctx context.Context, st store.Store, text string, now grant.Instant) (i invitation, d store.Document, err error) {
	d, err = read(ctx, st, store.DocumentConsoleInvitation, text, &i, ErrNoInvitation)
	switch {
	case err != nil:
	case i.SpentAt != 0:
		err = ErrSpent
	case now >= i.ExpiresAt:
		err = ErrExpired
	}
	return i, d, err
}

// Invited returns the operator whom an invitation is for. It changes nothing, so that
// programs that open links in messages do not spend the invitation.
func Invited(ctx context.Context, st store.Store, text string, now grant.Instant) (name string, err error) {
	i, _, err := readInvitation(ctx, st, text, now)
	return i.Operator, err
}

// Spend spends an invitation, once, and returns the operator whom it is for.
func Spend(ctx context.Context, st store.Store, text, address string, now grant.Instant) (name string, err error) {
	i, d, err := readInvitation(ctx, st, text, now)
	if err != nil {
		return i.Operator, err
	}
	if _, err := Find(ctx, st, i.Operator); err != nil {
		return "", err
	}
	i.SpentAt, i.Nonce = now, rand.Uint64()
	e := store.Event{At: now, Name: store.EventConsoleInvitationUsed, About: About, Actor: "console:" + i.Operator, Detail: "from " + address + ", made by " + i.By}
	return i.Operator, spend(ctx, st, d, i, ErrSpent, e)
}

// read reads the ticket or invitation that a text names, or returns the error none.
func read(ctx context.Context, st store.Store, kind store.DocumentKind, text string, into any, none Error) (store.Document, error) {
	d, found, err := store.FindDocument(ctx, st, store.KeyOf(kind, "", text))
	if err != nil || !found {
		return d, cmp.Or(err, error(none))
	}
	return d, json.Unmarshal(d.Body, into)
}

// spend stores a ticket or an invitation as spent, with the nonce of this request. If
// another request has changed the document before, spend returns taken.
func spend(ctx context.Context, st store.Store, d store.Document, spent any, taken Error, events ...store.Event) (err error) {
	if err = store.PutDocument(ctx, st, d, spent, events...); errors.Is(err, store.ErrConflict) {
		return taken
	}
	return err
}
