package restore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// InAuditLog finds the changes since a backup in entries of audit logs, which are sorted
// by time. Has reports whether the backup holds a grant as active; it is nil if that is
// unknown.
func InAuditLog(ctx context.Context, entries []audit.Entry, has func(context.Context, grant.ID) (bool, error)) (Since, error) {
	r := replay{
		has: has, known: map[grant.ID]int{}, cutOffs: map[[3]string]bool{}, clients: map[[2]string]*admin.EndedClient{}, users: map[[2]string]bool{},
	}
	for _, e := range entries {
		e.Realm = store.OtherRealm(e.Realm)
		if e.GrantID == "" {
			r.entry(e)
		} else if err := r.grant(ctx, e); err != nil {
			return r.since, err
		}
	}
	return r.result(), nil
}

// A replay reads entries of the audit log one after the other.
type replay struct {
	since   Since
	has     func(context.Context, grant.ID) (bool, error)
	grants  []grant.Grant
	known   map[grant.ID]int   // index in grants
	cutOffs map[[3]string]bool // realms, subjects and clients
	clients map[[2]string]*admin.EndedClient
	users   map[[2]string]bool // subjects of realms, and whether they are disabled
}

// grant notes the end of a grant, or of its access tokens.
func (r *replay) grant(ctx context.Context, e audit.Entry) error {
	id, err := grant.ParseID(e.GrantID)
	if err != nil {
		return nil
	}
	i, there := r.known[id]
	if !there {
		if r.has != nil { // a newer grant is lost anyway
			if there, err := r.has(ctx, id); err != nil || !there {
				return err
			}
		}
		i = len(r.grants)
		r.known[id] = i
		r.grants = append(r.grants, grant.Grant{ID: id, State: grant.Active})
	}
	switch g, name := &r.grants[i], store.EventName(e.Event); {
	case name == store.EventAccessRevoked:
		g.AccessFloor = grant.At(e.Time)
	case g.State != grant.Revoked:
		g.State, g.Reason = grant.Revoked, reasonOf[name]
		r.since.EndedGrants++
	}
	return nil
}

// entry notes an event that names no grant.
func (r *replay) entry(e audit.Entry) {
	word, rest, _ := strings.Cut(e.Detail, " ")
	switch name := store.EventName(e.Event); {
	case name == store.EventCutoff || name == store.EventDisconnected:
		r.cutOff(e)
	case name == store.EventKeyWithdrawn:
		// The detail is "key ID: PURPOSE key".
		id, _, _ := strings.Cut(rest, ":")
		if key, err := strconv.ParseUint(id, 16, 32); err == nil {
			r.since.Ended.Keys = append(r.since.Ended.Keys, grant.KeyID(key))
		}
	case name == store.EventClientDeleted:
		r.client(e).State = store.ClientDeleted
	case name == store.EventClientChanged:
		r.clientChanged(e)
	case name == store.EventSecretRevoked && word == "secret":
		r.client(e).Secrets = append(r.client(e).Secrets, rest)
	case name == store.EventAPIDeleted:
		// The detail is "api ID: NAME", and no id has a space.
		id, _, _ := strings.Cut(rest, ": ")
		r.since.Ended.APIs = append(r.since.Ended.APIs, admin.EndedAPI{Realm: e.Realm, ID: id, Deleted: true, At: grant.At(e.Time)})
	case name == store.EventTrustDeleted || name == store.EventTrustChanged:
		// The detail is "trust ID: ...".
		id, _, _ := strings.Cut(rest, ": ")
		r.since.Ended.Trusts = append(r.since.Ended.Trusts, admin.EndedTrust{Realm: e.Realm, ID: id, Deleted: name == store.EventTrustDeleted, At: grant.At(e.Time)})
		if name == store.EventTrustChanged {
			r.miss(e)
		}
	case name == store.EventAdminTokenRevoked:
		r.since.Ended.Tokens = append(r.since.Ended.Tokens, admin.EndedEntry{Name: e.Detail, At: grant.At(e.Time)})
	case name == store.EventOperatorRemoved:
		// The detail is "NAME: was ROLE".
		of, _, _ := strings.Cut(e.Detail, ": ")
		r.since.Ended.Operators = append(r.since.Ended.Operators, admin.EndedEntry{Name: of, At: grant.At(e.Time)})
	case name == store.EventUserDisabled:
		r.users[[2]string{e.Realm, e.Subject}] = true
		r.cutOff(e) // its grants ended
	case name == store.EventUserEnabled && r.users[[2]string{e.Realm, e.Subject}]: // otherwise the user was disabled before the backup
		r.users[[2]string{e.Realm, e.Subject}] = false
	case name == store.EventPasswordChanged && strings.Contains(e.Detail, "grants ended"):
		r.cutOff(e)
		r.miss(e)
	default:
		r.miss(e)
	}
}

// clientChanged notes the state of a client. The detail contains the new state, or the
// changes of the registration, or both, separated by a semicolon. Earlier versions wrote
// the state last.
func (r *replay) clientChanged(e audit.Entry) {
	texts := strings.Split(e.Detail, "; ")
	for _, text := range []string{texts[0], texts[len(texts)-1]} {
		switch store.ClientState(text) {
		case store.ClientDisabled:
			r.client(e).State = store.ClientDisabled
		case store.ClientEnabled:
			if r.client(e).State == "" {
				continue // the client was disabled before the backup
			}
			r.client(e).State = ""
		default:
			continue
		}
		if len(texts) > 1 {
			r.miss(e)
		}
		return
	}
	r.miss(e)
}

// cutOff notes a cutoff. It skips one that a merge has recorded again (MergedDetail) if
// the original was noted, which may be in another audit log: the repetition is dated later.
func (r *replay) cutOff(e audit.Entry) {
	of := [3]string{e.Realm, e.Subject, e.ClientID}
	if e.Subject+e.ClientID != "" && !(e.Detail == admin.MergedDetail && r.cutOffs[of]) {
		r.cutOffs[of] = true
		r.since.Ended.Cutoffs = append(r.since.Ended.Cutoffs, store.Cutoff{Realm: cmp.Or(e.Realm, oauth.DefaultRealm), Subject: e.Subject, ClientID: e.ClientID, At: grant.At(e.Time)})
	}
}

func (r *replay) client(e audit.Entry) *admin.EndedClient {
	of := [2]string{e.Realm, e.ClientID}
	if r.clients[of] == nil {
		r.clients[of] = &admin.EndedClient{Realm: e.Realm, ID: e.ClientID}
	}
	return r.clients[of]
}

func (r *replay) miss(e audit.Entry) {
	about := strings.TrimSpace(strings.Join([]string{e.ClientID, e.Subject, e.Detail}, " "))
	r.since.miss(e.Realm, "%s: %s %s, by %s", e.Time.Format(time.RFC3339), e.Event, about, e.Actor)
}

// result returns the outcome of all entries, with clients and users sorted by name.
func (r *replay) result() Since {
	s := r.since
	for _, of := range sorted(r.clients) {
		s.Ended.Clients = append(s.Ended.Clients, *r.clients[of])
	}
	for _, of := range sorted(r.users) {
		if r.users[of] {
			s.Ended.Users = append(s.Ended.Users, admin.EndedUser{Realm: of[0], Subject: of[1], Disabled: true})
		}
	}
	s.Ended.Grants = func(_ context.Context, f func(grant.Grant) error) error {
		for _, g := range r.grants {
			if err := f(g); err != nil {
				return err
			}
		}
		return nil
	}
	return s
}

// sorted returns the keys of a map, by realm and name.
func sorted[V any](m map[[2]string]V) [][2]string {
	return slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
}

// reasonOf maps an event of the audit log to the reason why it ended a grant.
// EventGrantRevoked stands for operators and clients alike.
var reasonOf = map[store.EventName]grant.Reason{
	store.EventCodeReplayed: grant.ReasonCodeReplayed, store.EventRefreshReplayed: grant.ReasonRefreshReplayed, store.EventGrantRevoked: grant.ReasonOperator,
}
