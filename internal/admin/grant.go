package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Grants returns grants in the order of their ids, the directory with all cutoffs
// and APIs, and whether more grants follow.
func (a *Admin) Grants(ctx context.Context, f store.GrantFilter) (list []grant.Grant, ch store.Changes, more bool, err error) {
	if err := errors.Join((Page{Limit: f.Limit}).Check(), storable("subject", f.Subject), storable("client_id", f.ClientID)); err != nil {
		return nil, ch, false, err
	}
	if ch, err = a.Store.Changes(ctx, 0); err != nil {
		return nil, ch, false, err
	}
	limit := f.Limit
	f.Realm, f.Limit = a.Realm, limit+1
	list, err = a.Store.Grants(ctx, f)
	return list[:min(limit, len(list))], ch, len(list) > limit, err
}

// Grant returns a grant, and the directory with all cutoffs and APIs.
func (a *Admin) Grant(ctx context.Context, id grant.ID) (g grant.Grant, ch store.Changes, err error) {
	g, err = a.Store.Grant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return g, ch, &Error{NotFound, "grant", id.String(), fmt.Sprintf("there is no grant %s", id)}
	}
	if err != nil {
		return g, ch, err
	}
	ch, err = a.Store.Changes(ctx, 0)
	return g, ch, err
}

// ViewGrant returns the view of a grant at now. It needs all cutoffs and APIs.
func ViewGrant(g grant.Grant, ch store.Changes, now grant.Instant) show.Grant {
	return show.GrantAt(g, ch, now)
}

// RevokeGrant ends a grant.
func (a *Admin) RevokeGrant(ctx context.Context, id grant.ID) error {
	now := a.now()
	err := a.Store.UpdateGrant(ctx, id, func(g grant.Grant) (grant.Grant, []store.Event) {
		return g.Revoke(grant.ReasonOperator).Next, []store.Event{a.event(now, store.EventGrantRevoked, id.String(), "by command")}
	})
	if errors.Is(err, store.ErrNotFound) {
		err = &Error{NotFound, "grant", id.String(), fmt.Sprintf("there is no grant %s", id)}
	}
	return err
}

// CutOff ends everything that was authorized until now by a subject, for a client,
// or by the subject for the client, and says for whom.
func (a *Admin) CutOff(ctx context.Context, subject, client string) (cut store.Cutoff, of string, err error) {
	if subject == "" && client == "" {
		return cut, "", &oauth.Invalid{Field: "subject", Message: "name a subject, a client or both"}
	}
	if err := storable("subject", subject); err != nil {
		return cut, "", err
	}
	var list []string
	about := client
	if subject != "" {
		list = append(list, fmt.Sprintf("subject %q", subject))
	}
	if client != "" {
		if _, err := a.Client(ctx, client); err != nil {
			return cut, "", err
		}
		list = append(list, fmt.Sprintf("client %q", client))
	} else {
		about = store.AboutSubject(subject)
	}
	of = strings.Join(list, ", ")
	cut = store.Cutoff{Realm: a.Realm, Subject: subject, ClientID: client, At: a.cutoffAt()}
	change := store.Change{Cutoffs: []store.Cutoff{cut}}
	if client == "" {
		// No token is left that could read what logins said about the subject.
		change.Delete = []store.DocumentKey{store.ClaimsKey(a.Realm, subject)}
		change.Documents = []store.Document{a.endOfAll(subject, cut.At)}
	}
	return cut, of, a.commit(ctx, change, a.event(a.now(), store.EventCutoff, about, of))
}

// endOfAll returns the document by which clients are told that the sessions of a
// subject have ended that began until an instant. The clock of the node that began
// them may be ahead.
func (a *Admin) endOfAll(subject string, at grant.Instant) store.Document {
	return logout.EndOfAll(a.Realm, subject, at.Add(a.Policy.MaxSkew))
}

// Cutoffs returns cutoffs sorted by subject and client, of one subject or one
// client if they are named, and whether more follow.
func (a *Admin) Cutoffs(ctx context.Context, subject, client string, p Page) (list []store.Cutoff, more bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	ch, err := a.Store.Changes(ctx, 0)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(ch.Cutoffs, func(a, b store.Cutoff) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ClientID, b.ClientID))
	})
	return pick(p, ch.Cutoffs, CutoffKey, func(c store.Cutoff) bool {
		return c.Realm == a.Realm && (subject == "" || c.Subject == subject) && (client == "" || c.ClientID == client)
	})
}

// CutoffKey identifies a cutoff in a list.
func CutoffKey(c store.Cutoff) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Subject + "\x00" + c.ClientID))
}

// A CutoffView is a cutoff as people and programs see it.
type CutoffView struct {
	Subject  string     `json:"subject,omitempty"`
	ClientID string     `json:"client_id,omitempty"`
	At       *time.Time `json:"at"`
}

// ViewCutoff returns the view of a cutoff.
func ViewCutoff(c store.Cutoff) CutoffView {
	return CutoffView{c.Subject, c.ClientID, show.JSONInstant(c.At)}
}

// MaxCovered bounds what Covered counts.
const MaxCovered = 10000

// Covered counts the grants that a cutoff covers, whatever their state is: none is
// perhaps a name that was mistyped.
func (a *Admin) Covered(ctx context.Context, cut store.Cutoff) (covered int, err error) {
	f := store.GrantFilter{Realm: cut.Realm, Subject: cut.Subject, ClientID: cut.ClientID, Limit: 1000}
	for covered < MaxCovered {
		page, err := a.Store.Grants(ctx, f)
		if err != nil {
			return covered, err
		}
		for _, g := range page {
			if g.AuthorizedAt <= cut.At {
				covered++
			}
		}
		if len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].ID
	}
	return covered, nil
}
