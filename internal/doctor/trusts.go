package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// This file checks trusts in other issuers, whose assertions are grants.

// presentTrusts returns the trusts that were not deleted, sorted by id.
func (p *Deployment) presentTrusts() []store.Trust {
	list := slices.DeleteFunc(slices.Clone(p.Changes.Trusts), func(t store.Trust) bool { return t.Deleted })
	slices.SortFunc(list, func(a, b store.Trust) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// trustName names a trust in a line.
func trustName(t store.Trust) string {
	return fmt.Sprintf("trust %s (%s of %s for client %s)", t.ID, t.Kind, t.Issuer, t.ClientID)
}

// checkTrusts reports trusts by which nothing is accepted, or less than they name.
func checkTrusts(_ context.Context, p *Deployment) (f findings) {
	list := p.presentTrusts()
	for _, t := range list {
		if t.Disabled {
			f.judgeDisabled(p, t)
			continue
		}
		if strings.TrimSuffix(t.Issuer, "/") == strings.TrimSuffix(p.Config.IssuerID(), "/") {
			f.fault("mintage trust delete ID", "%s is in this server, whose tokens are no assertions", trustName(t))
		}
		login := p.Config.Login
		if t.SubjectFrom == store.SubjectUpstream && (login.Mode != config.LoginUpstream || login.Upstream.Issuer != t.Issuer) {
			f.warn("set login.upstream, or mintage trust update ID --subject-from sub", "%s names users as logins there do, and users do not sign in there (login.mode, login.upstream.issuer): all assertions are refused", trustName(t))
		}
		f.judgeTrusted(p, t)
	}
	f.bounded("see: mintage trust list")
	return f.unless("%s, each with its client and its APIs", show.Count(len(list), "trust", "trusts"))
}

// aroundRestore limits the time between a restore and the update of a trust that it
// disabled.
const aroundRestore = time.Hour

// judgeDisabled distinguishes a trust that a restore has disabled, because it changed after
// the backup, from a trust that an operator has disabled.
func (f *findings) judgeDisabled(p *Deployment, t store.Trust) {
	restored := func(r grant.Restore) bool { return t.UpdatedAt.Since(r.At).Abs() < aroundRestore }
	if slices.ContainsFunc(p.Changes.Restores, restored) {
		f.warn("compare it with what it has to allow now (mintage trust show ID); then mintage trust update ID --disabled=false, or mintage trust delete ID", "%s was disabled at a restore: it had changed since the backup", trustName(t))
		return
	}
	f.note("%s is disabled", trustName(t))
}

// judgeTrusted reports a trust whose client or APIs are gone, or no longer fit.
func (f *findings) judgeTrusted(p *Deployment, t store.Trust) {
	var c *store.Client
	if i := slices.IndexFunc(p.Changes.Clients, func(c store.Client) bool { return c.ID == t.ClientID }); i >= 0 {
		c = &p.Changes.Clients[i]
	}
	own := client.IsSelfRegisteredID(t.ClientID) && (c == nil || c.SelfRegistered())
	gone := "mintage trust delete ID"
	if c != nil && c.State == store.ClientDisabled { // a deleted one does not come back
		gone += ", or mintage client enable ID"
	}
	switch {
	case c == nil && !own:
		f.warn(gone, "%s: the client does not exist", trustName(t))
		return
	case c == nil && len(p.Config.DocumentsAdmitted()) == 0:
		f.warn("set client_metadata.documents, or mintage trust delete ID", "%s: the client describes itself, and no such client is admitted", trustName(t))
	case c != nil && c.State != store.ClientEnabled:
		f.warn(gone, "%s: the client is %s", trustName(t), c.State)
	case c != nil && !own && t.Kind == store.TrustIDJAG && c.Public():
		f.warn("mintage trust delete ID, and register a client that authenticates", "%s: the client is public, and an ID-JAG is accepted of clients that authenticate only", trustName(t))
	}
	for _, text := range t.APIs {
		l, err := store.ReadAllowedAPI(text)
		if err != nil {
			continue // creation refuses it
		}
		api := p.Changes.FindAPI(l.ID)
		switch {
		case api == nil:
			f.warn("mintage trust update ID --api, without it; or register it anew: mintage api create", "%s names the API %s, which does not exist", trustName(t), l.ID)
		case !api.Scope().Covers(l.Scope):
			f.warn("mintage trust update ID --api \"API SCOPES\"", "%s names the scope %q of the API %s, which it does not have", trustName(t), l.Scope.Without(api.Scope()), api.ID)
		case own && !api.Open:
			f.warn("mintage api update ID --self-registered-clients", "%s names the API %s, which is closed to clients that describe themselves", trustName(t), api.ID)
		case !own && !slices.ContainsFunc(c.APIs, func(of string) bool {
			have, _ := store.ReadAllowedAPI(of)
			return oauth.CanonicalTarget(have.ID) == oauth.CanonicalTarget(api.ID)
		}):
			f.warn("mintage client update ID --add-api", "%s names the API %s, which its client is not allowed", trustName(t), api.ID)
		}
	}
}

// checkIssuerKeys fetches the keys of trusted issuers, as the server does for an assertion
// if it has no fresh ones.
func checkIssuerKeys(ctx context.Context, p *Deployment) (f findings) {
	cache, whole := keyset.NewCache(time.Now, nil, nil), func(keyset.Set) bool { return true }
	tried := map[[2]string]bool{}
	for _, t := range p.presentTrusts() {
		get, address := cache.Registered, t.KeysURI
		if address == "" {
			get, address = cache.Discovered, t.Issuer
		}
		at := [2]string{address, t.KeysCA}
		if t.Disabled || len(t.Keys) > 0 || tried[at] {
			continue
		}
		if tried[at] = true; ctx.Err() != nil {
			return f.unknown("try again", "not all keys of issuers could be fetched in time")
		}
		if _, err := get(ctx, address, t.KeysCA, time.Time{}, whole); err != nil {
			f.fault("does the issuer answer from here? Compare --jwks-uri and --jwks-ca: mintage trust show ID", "%s: its keys cannot be fetched from %s, and without them assertions are answered 503: %s",
				trustName(t), address, show.Bounded(err.Error()))
		}
	}
	f.bounded("see: mintage trust list")
	return f.unless("%s of issuers fetched", show.Count(len(tried), "key set", "key sets"))
}
