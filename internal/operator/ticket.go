package operator

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A Ticket is a login at another system, on its way to the console.
type Ticket struct {
	// Challenge is that of the verifier which the browser has that began at the console
	// (RFC 7636 section 4.2).
	Challenge string   `json:"challenge"`
	Subject   string   `json:"subject"`
	ACR       string   `json:"acr,omitempty"`
	AMR       []string `json:"amr,omitempty"`
	Rule      string   `json:"rule,omitempty"` // the first one that fits, "": none
	// Nonce is of the request that has spent it, as that of an invitation.
	Nonce uint64 `json:"nonce,omitempty"`
}

// ticketLife is how long a browser may take from the login to the console.
const ticketLife = time.Minute

// ErrNoTicket says that a ticket does not exist, has expired, or was spent.
const ErrNoTicket Error = "there is no such ticket"

// NewVerifier returns what a browser keeps that begins to sign in.
func NewVerifier() string { return string(keys.NewSecret()) }

// Document returns the document of a new ticket, and the text that names it.
func (t Ticket) Document(now grant.Instant) (text string, d store.Document, err error) {
	text = string(keys.NewSecret())
	d = store.Document{Kind: store.DocumentConsoleTicket, Key: ticketKey(text), Version: 1, ExpiresAt: now.Add(ticketLife)}
	d.Body, err = json.Marshal(t)
	return text, d, err
}

func ticketKey(text string) store.DocumentKey {
	return store.KeyOf(store.DocumentConsoleTicket, "", text)
}

// SpendTicket spends a ticket, once, and returns it.
func SpendTicket(ctx context.Context, st store.Store, text string, now grant.Instant) (t Ticket, err error) {
	d, err := st.Document(ctx, ticketKey(text))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, ErrNoTicket
	case err != nil:
		return t, store.Unavailable(err)
	}
	if err := json.Unmarshal(d.Body, &t); err != nil {
		return t, err
	}
	if t.Nonce != 0 || now >= d.ExpiresAt {
		return t, ErrNoTicket
	}
	t.Nonce = rand.Uint64() | 1
	d.Version++
	if d.Body, err = json.Marshal(t); err != nil {
		return t, err
	}
	if err = st.Commit(ctx, store.Change{Documents: []store.Document{d}}); errors.Is(err, store.ErrConflict) {
		err = ErrNoTicket // another request was faster
	}
	return t, err
}
