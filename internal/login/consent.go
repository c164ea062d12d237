package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
)

// A Consent is the scope that a subject has agreed to for one client. The consent page
// marks it as known. For the scope Remembered, the subject is not asked again.
type Consent struct {
	Scope      oauth.Scope   `json:"scope"`
	At         grant.Instant `json:"at"`
	Remembered oauth.Scope   `json:"remembered,omitempty"`
	// Claims and RememberedClaims are the same for claims that requests have named.
	Claims           claims.Set `json:"claims,omitempty"`
	RememberedClaims claims.Set `json:"remembered_claims,omitempty"`
	Terms            string     `json:"terms,omitempty"` // see terms
}

// Consents stores what users have agreed to.
type Consents struct {
	Documents
	Issuer *issuer.Issuer
}

// consents holds all consents of one subject, by client. It is one document.
type consents struct {
	Of map[string]Consent `json:"of"`
	// Records is when the subject's consents created records of clients that registered
	// themselves: see recordPace.
	Records []grant.Instant `json:"records,omitempty"`

	key     store.DocumentKey
	version int64
}

func (co *Consents) consents(ctx context.Context, subject string) (consents, error) {
	cs := consents{Of: map[string]Consent{}, key: store.KeyOf(store.DocumentConsents, co.Realm, subject)}
	d, found, err := store.FindDocument(ctx, co.Store, cs.key)
	if err != nil || !found {
		return cs, err
	}
	cs.version = d.Version
	if err = plain.Unmarshal(consentsMembers, d.Body, &cs); err != nil {
		err = fmt.Errorf("decode %s: %w", store.DocumentConsents, err)
	}
	return cs, err
}

// consentsMembers are the members of consents in the order of their fields, and
// consentMembers those of one.
var consentsMembers = []plain.Member[consents]{
	plain.At("of", func(p *plain.Reader, cs *consents) { cs.Of = plain.Map(p, plain.Value(consentMembers)) }),
	plain.At("records", func(p *plain.Reader, cs *consents) {
		cs.Records = plain.List(p, func(p *plain.Reader) grant.Instant { return grant.Instant(p.Number()) })
	}),
}

var consentMembers = []plain.Member[Consent]{
	plain.At("scope", func(p *plain.Reader, c *Consent) { c.Scope = oauth.Scope(p.Text()) }),
	plain.At("at", func(p *plain.Reader, c *Consent) { c.At = grant.Instant(p.Number()) }),
	plain.At("remembered", func(p *plain.Reader, c *Consent) { c.Remembered = oauth.Scope(p.Text()) }),
	plain.At("claims", func(p *plain.Reader, c *Consent) { c.Claims = plain.Unsigned[claims.Set](p) }),
	plain.At("remembered_claims", func(p *plain.Reader, c *Consent) { c.RememberedClaims = plain.Unsigned[claims.Set](p) }),
	plain.At("terms", func(p *plain.Reader, c *Consent) { c.Terms = p.Text() }),
}

// living returns the consent to a client, unless a cutoff has ended it.
func (co *Consents) living(view *directory.View, cs consents, subject, clientID string) (Consent, bool) {
	have := cs.Of[clientID]
	if have.At <= view.Cutoff(co.Realm, subject, clientID) {
		return Consent{}, false
	}
	return have, true
}

// document returns the next version of cs as a document. It drops the oldest consents
// that do not fit: the user is asked again.
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

// record adds to a change the record of a client that registered itself, as the user has
// seen the client. before is the client's present record, or nil.
func (co *Consents) record(c, before *store.Client, with *store.Change) {
	next := c.Clone()
	next.CreatedAt, next.UpdatedAt = co.now(), co.now()
	if next.Version = 0; before != nil {
		next.Version, next.CreatedAt = before.Version, before.CreatedAt
		if len(next.RedirectURIs) == 0 { // the request is a device's
			next.RedirectURIs = before.RedirectURIs
		}
	} else {
		with.Events = []store.Event{{At: co.now(), Name: store.EventClientRecorded, About: c.ID, Actor: c.ID, Detail: fmt.Sprintf("%q, redirect URI of %s", c.Name, oauth.Host(slices.Concat(c.RedirectURIs, []string{c.ID})[0]))}}
	}
	with.Documents = append(with.Documents, next.Record(next.UpdatedAt, co.Issuer.RecordUntil(next.UpdatedAt)))
}

// terms returns a hash of the client's data that the user was shown, if the client
// registered itself: after a change, the user is asked again. It returns "" for an
// operator's client, for which the operator vouches.
func terms(c *store.Client, redirectURI string) string {
	if !c.SelfRegistered() {
		return ""
	}
	sum := sha256.Sum256([]byte(c.Name + "\x00" + oauth.Host(redirectURI) + "\x00" + string(c.Auth) + "\x00" + c.Assertion.KeysURI))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// union returns the scopes of x and y, or x alone if they are too many.
func union(x, y oauth.Scope) oauth.Scope {
	if both, err := oauth.ParseScope(string(x) + " " + string(y)); err == nil {
		return both
	}
	return x
}
