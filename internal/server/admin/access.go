package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Access says who may call the admin API.
type Access struct {
	Socket     bool   // every process that may open the socket; otherwise bearers of tokens
	Configured string // the token of admin.token_file; "": there is none
}

// configuredToken is the name of the token of the configuration. No other token can have
// this name, because their names contain no dot.
const configuredToken = "admin.token_file"

// maxLookups limits the tokens that are looked up at once, because unauthenticated callers
// cause look-ups, and each reads the store.
const maxLookups = 4

// authenticate sets the actor of a request: the actor of its context (see WithActor), such
// as an operator of the console; otherwise, the bearer of a token.
func (a *API) authenticate(x *call) *Problem {
	if actor, known := x.Context().Value(actorKey{}).(admin.Actor); known {
		x.actor = actor
		return nil
	}
	if a.access.Socket {
		x.actor = admin.ByUser("unknown") // not every operating system names the user
		return nil
	}
	scheme, sent, _ := strings.Cut(x.Header.Get("Authorization"), " ")
	if sent == "" || !strings.EqualFold(scheme, "Bearer") {
		return a.refuse(x, "no token", "send a token of the admin API as Authorization: Bearer")
	}
	if a.isConfigured(sent) {
		x.actor = admin.Actor{Via: admin.ViaToken, Name: configuredToken, Role: admin.RoleAdmin}
		return nil
	}
	select {
	case a.lookups <- struct{}{}:
		defer func() { <-a.lookups }()
	case <-x.Context().Done():
		return problem(store.Unavailable(x.Context().Err()))
	}
	u := a.cases // without an actor
	token, err := u.Tokens().Find(x.Context(), sent)
	switch {
	case err != nil:
		return problem(err)
	case token == nil:
		return a.refuse(x, "unknown token", "the token is wrong, or was revoked")
	case token.ExpiresAt.Time().After(u.Now()):
		x.actor = token.Actor()
		return nil
	}
	return a.refuse(x, token.Actor().String()+" has expired", fmt.Sprintf("the token %q expired on %s", token.Name, token.ExpiresAt.Time().Format(time.RFC3339)))
}

// isConfigured compares digests, so that its duration reveals neither length nor content.
func (a *API) isConfigured(sent string) bool {
	have, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(a.access.Configured))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1 && a.access.Configured != ""
}

// refuse returns the answer to an unauthenticated caller, and records the reason in the
// audit log.
func (a *API) refuse(x *call, reason, detail string) *Problem {
	a.audit(x, audit.Event{Name: audit.AdminAuthFailed, Outcome: audit.Refused, Detail: reason})
	return &Problem{Problem: adminapi.Problem{Title: "admin token required", Status: http.StatusUnauthorized, Detail: detail}}
}

// forbidden returns the answer to an actor without the role that a route needs, and
// records the request in the audit log.
func (a *API) forbidden(x *call, rt Route) *Problem {
	a.audit(x, audit.Event{Name: audit.AdminForbidden, Outcome: audit.Refused, Actor: x.actor.String(), Detail: rt.Method + " " + rt.Path})
	return &Problem{Problem: adminapi.Problem{
		Type: "urn:mintage:problem:role", Title: "another role is needed", Status: http.StatusForbidden,
		Detail: fmt.Sprintf("this needs the role %s, and %s has the role %s", rt.Needs, x.actor, x.actor.Role),
		Advice: "ask somebody with that role, or use a token that has it: mintage admin token create NAME --role " + string(rt.Needs),
	}}
}

// reaches reports whether an actor may use a route of this realm. An actor of one realm
// may use only what belongs to that realm. Operators of the console are users of the
// default realm, so that only actors of the deployment may change those users.
func (a *API) reaches(actor admin.Actor, rt Route) bool {
	switch {
	case actor.Realm == "":
		return true
	case actor.Realm != a.cases.Realm || !rt.ofRealm():
		return false
	}
	return a.ConsoleURL == "" || a.cases.Realm != oauth.DefaultRealm || rt.Needs == admin.RoleAuditor || !rt.about("users", "imports")
}

// elsewhere returns the answer to an actor of one realm that requests something of another
// realm or of the deployment, and records the request in the audit log.
func (a *API) elsewhere(x *call, rt Route) *Problem {
	own := strings.TrimPrefix(x.actor.Realm, "/")
	a.audit(x, audit.Event{Name: audit.AdminForbidden, Outcome: audit.Refused, Actor: x.actor.String(), Detail: rt.Method + " " + rt.Path + ", outside of the realm " + own})
	p := &Problem{Problem: adminapi.Problem{
		Type: "urn:mintage:problem:realm", Title: "belongs to another realm or to the deployment", Status: http.StatusForbidden,
		Detail: fmt.Sprintf("%s may use only the realm %s, and this resource belongs to the realm %s", x.actor, own, a.Realm.Name),
		Advice: "name the realm: --realm " + own + ", or " + realmsPath + "/" + own + "/ in a path",
	}}
	if !rt.ofRealm() || x.actor.Realm == a.cases.Realm {
		p.Detail = fmt.Sprintf("%s may use only the realm %s, and this resource belongs to the deployment", x.actor, own)
		p.Advice = "ask somebody who operates the deployment"
	}
	return p
}
