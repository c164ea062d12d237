// Package restore puts a backup in the place of an embedded store (Prepare, Declare,
// Install). Before that, it finds what the backup lacks (CompareWith), and what has
// happened since and must not be undone: what was revoked, disabled, deleted or
// withdrawn is ended in the restored store as well, and an operator has to repeat the
// rest. It reads the store that is to be replaced (InStore) or, if that cannot be read,
// the audit log (InAuditLog).
package restore

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Lasting lists the events whose effects a restore undoes.
var Lasting = []audit.Name{
	audit.Name(store.EventCodeReplayed), audit.Name(store.EventRefreshReplayed), audit.Name(store.EventGrantRevoked), audit.Name(store.EventAccessRevoked),
	audit.Name(store.EventCutoff), audit.Name(store.EventDisconnected), audit.Name(store.EventKeyWithdrawn),
	audit.Name(store.EventClientCreated), audit.Name(store.EventClientChanged), audit.Name(store.EventClientDeleted),
	audit.Name(store.EventSecretAdded), audit.Name(store.EventSecretRevoked),
	audit.Name(store.EventAPICreated), audit.Name(store.EventAPIChanged), audit.Name(store.EventAPIDeleted),
	audit.Name(store.EventTrustCreated), audit.Name(store.EventTrustChanged), audit.Name(store.EventTrustDeleted),
	audit.Name(store.EventUserCreated), audit.Name(store.EventUserChanged), audit.Name(store.EventUserDisabled), audit.Name(store.EventUserEnabled),
	audit.Name(store.EventPasswordChanged), audit.Name(store.EventTOTPSet), audit.Name(store.EventTOTPRemoved),
	audit.Name(store.EventAdminTokenCreated), audit.Name(store.EventAdminTokenRevoked),
	audit.Name(store.EventOperatorAdded), audit.Name(store.EventOperatorRemoved),
}

// Since holds the lasting changes since a backup.
type Since struct {
	Ended       admin.Ended // what a restored store ends as well
	EndedGrants int64       // grants of the backup that were revoked
	Missing     []string    // changes that the operator has to repeat, each in one line
}

// InStore finds the changes since a backup in the store that is to be replaced. Grants
// calls its argument for each grant that has ended.
func InStore(l Lost, grants func(context.Context, func(grant.Grant) error) error) Since {
	s := Since{EndedGrants: l.Ended, Ended: admin.Ended{
		Keys: l.Withdrawn, Cutoffs: l.Cutoffs, Sessions: l.SignedOut, Grants: grants,
	}}
	for _, c := range l.Clients {
		s.ofClient(c)
	}
	for _, a := range l.APIs {
		s.ofAPI(a)
	}
	for _, t := range l.Trusts {
		s.ofTrust(t)
	}
	for _, u := range l.Users {
		s.ofUser(u)
	}
	s.ofTokens(l.Tokens.Was, l.Tokens.Is)
	s.ofOperators(l.Operators.Was, l.Operators.Is)
	return s
}

// ofTokens compares the tokens of the admin API. Tokens of the same name with different
// digests are different tokens.
func (s *Since) ofTokens(was, is []admin.Token) {
	gone, added := differences(was, is, func(a, b admin.Token) bool { return bytes.Equal(a.Digest, b.Digest) })
	for _, t := range gone {
		s.Ended.Tokens = append(s.Ended.Tokens, admin.EndedEntry{Name: t.Name})
	}
	for _, t := range added {
		s.miss("", "admin token %s was created, and is lost: mintage admin token create %s --role %s%s", t.Name, t.Name, t.Role, flagOf(t.Realm))
	}
}

// ofOperators compares the operators of the console. An operator who was removed and added
// again counts as another one, who may have another role.
func (s *Since) ofOperators(was, is []operator.Operator) {
	gone, added := differences(was, is, func(a, b operator.Operator) bool { return a.Name == b.Name && a.CreatedAt == b.CreatedAt })
	for _, o := range gone {
		s.Ended.Operators = append(s.Ended.Operators, admin.EndedEntry{Name: o.Name})
	}
	for _, o := range added {
		s.miss("", "operator %s was added: mintage operator add %s --role %s%s", o.Name, o.Name, o.Role, flagOf(o.Realm))
	}
}

// differences returns the items of was that is lacks, and those of is that was lacks.
func differences[T any](was, is []T, same func(a, b T) bool) (gone, added []T) {
	without := func(list, other []T) []T {
		return slices.DeleteFunc(slices.Clone(list), func(a T) bool {
			return slices.ContainsFunc(other, func(b T) bool { return same(a, b) })
		})
	}
	return without(was, is), without(is, was)
}

// flagOf returns the flag of a command for a realm, with a space before it; "" for none.
func flagOf(realm string) string {
	if realm == "" {
		return ""
	}
	return " --realm " + strings.TrimPrefix(realm, "/")
}

func (s *Since) ofClient(c ClientChange) {
	id := c.Is.ID
	switch {
	case c.Is.SelfRegistered():
		if c.Is.State != store.ClientEnabled {
			s.Ended.Clients = append(s.Ended.Clients, admin.EndedClient{Realm: store.OtherRealm(c.Is.Realm), ID: id, State: c.Is.State, Own: c.Is})
		} else if c.Was != nil && c.Was.State != c.Is.State {
			s.miss(c.Is.Realm, "client %s was enabled: mintage client enable %s", id, id)
		}
		return
	case c.Was == nil && c.Is.State == store.ClientDeleted:
		return // made and deleted since
	case c.Was == nil:
		s.miss(c.Is.Realm, "client %s (%q) was registered: register it anew, with --id %s", id, c.Is.Name, id)
		return
	}
	end := admin.EndedClient{Realm: store.OtherRealm(c.Is.Realm), ID: id}
	if c.Was.State != c.Is.State {
		if c.Is.State == store.ClientEnabled {
			s.miss(c.Is.Realm, "client %s was enabled: mintage client enable %s", id, id)
		} else {
			end.State = c.Is.State
		}
	}
	has := func(secrets []store.Secret, id string) bool {
		return slices.ContainsFunc(secrets, func(s store.Secret) bool { return s.ID == id })
	}
	for _, secret := range c.Is.Secrets {
		if !has(c.Was.Secrets, secret.ID) {
			s.miss(c.Is.Realm, "client %s got the secret %s, which is lost: add one and bring it there", id, secret.ID)
		}
	}
	for _, secret := range c.Was.Secrets {
		if !has(c.Is.Secrets, secret.ID) && end.State != store.ClientDeleted {
			end.Secrets = append(end.Secrets, secret.ID)
		}
	}
	if end.State != "" || len(end.Secrets) > 0 {
		s.Ended.Clients = append(s.Ended.Clients, end)
	}
	was, is := c.Was.Clone(), c.Is.Clone()
	for _, x := range []*store.Client{&was, &is} {
		x.Secrets, x.State, x.Version, x.UpdatedAt, x.LongestIDToken = nil, "", 0, 0, 0
	}
	if end.State != store.ClientDeleted && !reflect.DeepEqual(was, is) {
		s.miss(c.Is.Realm, "the registration of client %s was changed on %s: change it again", id, show.Instant(c.Is.UpdatedAt))
	}
}

func (s *Since) ofAPI(c APIChange) {
	id := c.Is.ID
	was, is := c.Was, *c.Is
	deleted := was != nil && !was.Deleted && (is.Deleted || is.Number != was.Number)
	if deleted {
		s.Ended.APIs = append(s.Ended.APIs, admin.EndedAPI{Realm: store.OtherRealm(was.Realm), ID: was.ID, Deleted: true})
	}
	switch {
	case is.Deleted:
		return
	case was == nil || was.Deleted || deleted:
		s.miss(c.Is.Realm, "API %s (%q) was registered: register it anew: mintage api create", id, is.Name)
		return
	}
	end := admin.EndedAPI{Realm: store.OtherRealm(c.Is.Realm), ID: id, Closed: was.Open && !is.Open, Scope: was.Scope().Without(is.Scope())}
	if end.Closed || end.Scope != "" {
		s.Ended.APIs = append(s.Ended.APIs, end)
	}
	merged := *was
	merged.Open = was.Open && is.Open
	merged.Scopes = slices.DeleteFunc(slices.Clone(was.Scopes), func(s store.APIScope) bool { return end.Scope.Has(s.Name) })
	merged.DefaultScope = was.DefaultScope.Without(end.Scope)
	for _, x := range []*store.API{&merged, &is} {
		x.Version, x.UpdatedAt, x.LastScope, x.LongestLifetime = 0, 0, 0, 0
	}
	if !reflect.DeepEqual(merged, is) {
		s.miss(c.Is.Realm, "the registration of the API %s was changed on %s: change it again: mintage api update", id, show.Instant(c.Is.UpdatedAt))
	}
}

func (s *Since) ofTrust(c TrustChange) {
	was, now := c.Was, *c.Is
	switch {
	case now.Deleted && was != nil && !was.Deleted:
		s.Ended.Trusts = append(s.Ended.Trusts, admin.EndedTrust{Realm: store.OtherRealm(now.Realm), ID: now.ID, Deleted: true})
	case now.Deleted:
	case was == nil || was.Deleted || was.Since != now.Since && !was.Disabled && !now.Disabled:
		if was != nil && !was.Deleted {
			s.Ended.Trusts = append(s.Ended.Trusts, admin.EndedTrust{Realm: store.OtherRealm(now.Realm), ID: now.ID, Deleted: true})
		}
		s.miss(now.Realm, "trust %s in %s was created: create it anew: mintage trust create", now.ID, now.Issuer)
	default:
		s.Ended.Trusts = append(s.Ended.Trusts, admin.EndedTrust{Realm: store.OtherRealm(now.Realm), ID: now.ID})
		if !now.Disabled {
			s.miss(now.Realm, "trust %s in %s was changed on %s: change it again, and enable it: mintage trust update", now.ID, now.Issuer, show.Instant(now.UpdatedAt))
		}
	}
}

// miss notes a change that the operator has to repeat. If the format ends with a command,
// miss adds the flag of the realm. It replaces control characters, which could break the
// line.
func (s *Since) miss(realm, format string, args ...any) {
	if realm = store.OtherRealm(realm); realm != "" {
		if strings.Contains(format, ": mintage ") {
			format += flagOf(realm)
		}
		format, args = "realm %s: "+format, append([]any{strings.TrimPrefix(realm, "/")}, args...)
	}
	s.Missing = append(s.Missing, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...)))
}
