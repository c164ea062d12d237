package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A Grant is a grant as it is listed.
type Grant struct {
	ID           string          `json:"id"`
	State        string          `json:"state"`
	Reason       string          `json:"reason,omitempty"`
	ClientID     string          `json:"client_id"`
	Subject      string          `json:"subject"`
	Claims       json.RawMessage `json:"claims,omitempty"`
	Scope        string          `json:"scope"`
	APIs         []string        `json:"apis,omitempty"`    // that the user agreed to; see APIs
	Session      string          `json:"session,omitempty"` // that made it; see grant.SessionName
	AuthTime     *time.Time      `json:"auth_time,omitempty"`
	AuthorizedAt *time.Time      `json:"authorized_at"`
	Generation   uint32          `json:"generation"`
	RotatedAt    *time.Time      `json:"rotated_at"`
	ExpiresAt    *time.Time      `json:"expires_at"`
	DeleteAfter  *time.Time      `json:"delete_after"`
	Cutoff       *time.Time      `json:"cutoff,omitempty"`
	Events       []Event         `json:"events,omitempty"`
}

// An Event is an event as it is listed.
type Event struct {
	At     *time.Time `json:"at"`
	Name   string     `json:"name"`
	Actor  string     `json:"actor"`
	Detail string     `json:"detail"`
}

// GrantAt is how a grant stands now, without its events. Of ch, the APIs and the
// cutoffs that are about the grant count.
func GrantAt(g grant.Grant, ch store.Changes, now grant.Instant) Grant {
	v := Grant{
		ID: g.ID.String(), State: g.State.String(), Reason: g.Reason.String(), ClientID: g.ClientID, Subject: g.Subject,
		Scope: string(g.Scope), AuthorizedAt: JSONInstant(g.AuthorizedAt), Generation: g.Generation,
		RotatedAt: JSONInstant(g.RotatedAt), ExpiresAt: JSONInstant(g.ExpiresAt), DeleteAfter: JSONInstant(g.DeleteAfter),
		AuthTime: JSONInstant(g.AuthTime), Claims: json.RawMessage(g.Claims), Session: grant.SessionName(g.Facts.Session),
		APIs: APIs(g.APIs[:], g.Realm, ch.APIs),
	}
	var cut grant.Instant
	for _, c := range ch.Cutoffs {
		if c.Realm == g.Realm && (c.Subject == "" || c.Subject == g.Subject) && (c.ClientID == "" || c.ClientID == g.ClientID) {
			cut = max(cut, c.At)
		}
	}
	switch {
	case g.State == grant.Revoked:
	case cut >= g.AuthorizedAt:
		v.State, v.Cutoff = "cut off", JSONInstant(cut)
	case now >= g.ExpiresAt:
		v.State = "expired"
	}
	return v
}

// APIs returns the ids of the APIs with these numbers, in their order: "issuer" for
// the built-in one, and "deleted API N" for one that is not among the registered.
func APIs(numbers []uint16, realm string, registered []store.API) (ids []string) {
	for _, n := range numbers {
		i := slices.IndexFunc(registered, func(a store.API) bool { return a.Number == n && a.Realm == realm && !a.Deleted })
		switch {
		case n == 0:
		case n == store.IssuerAPI:
			ids = append(ids, "issuer")
		case i < 0:
			ids = append(ids, fmt.Sprintf("deleted API %d", n))
		default:
			ids = append(ids, registered[i].ID)
		}
	}
	return ids
}
