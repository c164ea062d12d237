package login

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Consent is what a subject has agreed to for one client. Remembered is what
// that it need not be asked again; it is shown as known in any case.
type Consent struct {
	Scope      oauth.Scope   `json:"scope"`
	At         grant.Instant `json:"at"`
	Remembered oauth.Scope   `json:"remembered,omitempty"`
}

// consents are all of one subject, by client: one document.
type consents struct {
	Of map[string]Consent `json:"of"`

	key     store.DocumentKey
	version int64
}

func (a *Authorizer) consents(ctx context.Context, subject string) (consents, error) {
	cs := consents{Of: map[string]Consent{}, key: store.KeyOf(store.DocumentConsents, a.Issuer.Realm, subject)}
	d, err := a.Issuer.Store.Document(ctx, cs.key)
	if errors.Is(err, store.ErrNotFound) {
		return cs, nil
	}
	if err != nil {
		return cs, unavailable(err)
	}
	cs.version = d.Version
	return cs, json.Unmarshal(d.Body, &cs)
}

// living is the consent to c that no cutoff has ended since.
func (a *Authorizer) living(view *directory.View, cs consents, subject, clientID string) (Consent, bool) {
	have, ok := cs.Of[clientID]
	return have, ok && have.At > view.Cutoff(a.Issuer.Realm, subject, clientID)
}

// document is cs as it is to be stored next. It forgets what was agreed to
// longest ago if there is no room for all: the user is asked again.
func (cs consents) document() (store.Document, error) {
	for {
		body, err := json.Marshal(cs)
		if err != nil || len(body) <= store.MaxDocument {
			return store.Document{Kind: store.DocumentConsents, Key: cs.key, Version: cs.version + 1, Body: body}, err
		}
		oldest := ""
		for id, c := range cs.Of {
			if oldest == "" || c.At < cs.Of[oldest].At {
				oldest = id
			}
		}
		delete(cs.Of, oldest)
	}
}

// recordConsent adds what was decided to what the subject has agreed to before.
func (a *Authorizer) recordConsent(ctx context.Context, view *directory.View, subject string, r oauth.AuthorizationRequest, d Decision) error {
	clientID := r.ClientID
	for range 8 {
		cs, err := a.consents(ctx, subject)
		if err != nil {
			return err
		}
		have, ok := a.living(view, cs, subject, clientID)
		if !ok {
			have = Consent{}
		}
		// Only what was on the page is remembered, or no longer so.
		remembered := have.Remembered.Without(r.Scope)
		if d.Remember {
			remembered = union(r.Scope, have.Remembered)
		}
		cs.Of[clientID] = Consent{Scope: union(r.Scope, have.Scope), Remembered: remembered, At: d.AuthorizedAt}
		doc, err := cs.document()
		if err != nil {
			return err
		}
		err = a.Issuer.Store.Commit(ctx, store.Change{Documents: []store.Document{doc}})
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, store.ErrConflict):
			return unavailable(err)
		}
	}
	return unavailable(store.ErrConflict)
}

// needsConsent reports whether the signed-in user must be asked, and notes in
// st what is known.
func (a *Authorizer) needsConsent(ctx context.Context, view *directory.View, st *Stage, r oauth.AuthorizationRequest) (bool, error) {
	st.Remember = !unassured(st.Client, r.RedirectURI)
	if st.Client.FirstParty && !r.Prompt.Consent && st.Remember {
		return false, nil
	}
	cs, err := a.consents(ctx, st.Session.Subject)
	if err != nil {
		return false, err
	}
	have, ok := a.living(view, cs, st.Session.Subject, st.Client.ID)
	if !ok {
		return true, nil
	}
	st.Known = r.Scope.Common(have.Scope)
	return r.Prompt.Consent || !st.Remember || !have.Remembered.Covers(r.Scope), nil
}

// unassured reports whether any program of the user's machine could have made
// the request in the client's name: its redirect URI is a loopback address or a
// private-use scheme. Then the user is always asked (RFC 8252 section 8.6).
func unassured(c *store.Client, redirectURI string) bool {
	return c.Native && !strings.HasPrefix(redirectURI, "https:")
}
