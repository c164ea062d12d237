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
	Socket     bool   // whoever may open it; otherwise bearers of tokens
	Configured string // the token of admin.token_file; "": there is none
}

// configuredToken is the name of the token of the configuration. No other has it: their
// names have no dot.
const configuredToken = "admin.token_file"

// maxLookups bounds the tokens that are looked up at once: a caller need not have one,
// and the look-up is a read of the store.
const maxLookups = 4

// authenticate finds out who makes a request: the actor of the context, which is the user
// of the process at the other end of the socket or an operator of the console; elsewhere,
// the bearer of a token.
func (a *API) authenticate(x *call) *Problem {
	if actor, known := x.Context().Value(actorKey{}).(admin.Actor); known {
		x.actor = actor
		return nil
	}
	if a.access.Socket {
		x.actor = admin.ByUser("unknown") // not every operating system says who
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
	u := a.cases // of nobody yet
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

// isConfigured compares digests, so that neither length nor content shows in time.
func (a *API) isConfigured(sent string) bool {
	have, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(a.access.Configured))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1 && a.access.Configured != ""
}

// refuse is the answer to a caller who is nobody, for a reason.
func (a *API) refuse(x *call, reason, detail string) *Problem {
	a.audit(x, audit.Event{Name: audit.AdminAuthFailed, Outcome: audit.Refused, Detail: reason})
	return &Problem{Problem: adminapi.Problem{Title: "admin token required", Status: http.StatusUnauthorized, Detail: detail}}
}

// forbidden is the answer to an actor without the role that a route needs.
func (a *API) forbidden(x *call, rt Route) *Problem {
	a.audit(x, audit.Event{Name: audit.AdminForbidden, Outcome: audit.Refused, Actor: x.actor.String(), Detail: rt.Method + " " + rt.Path})
	return &Problem{Problem: adminapi.Problem{
		Type: "urn:mintage:problem:role", Title: "another role is needed", Status: http.StatusForbidden,
		Detail: fmt.Sprintf("this needs the role %s, and %s has the role %s", rt.Needs, x.actor, x.actor.Role),
		Advice: "ask somebody with that role, or use a token that has it: mintage admin token create NAME --role " + string(rt.Needs),
	}}
}

// reaches reports whether an actor may use a route here: one of a realm uses what that
// realm has, and nothing else. Operators of the console are users of the default realm:
// whoever changes them operates the deployment.
func (a *API) reaches(actor admin.Actor, rt Route) bool {
	switch {
	case actor.Realm == "":
		return true
	case actor.Realm != a.cases.Realm || !rt.ofRealm():
		return false
	}
	return a.ConsoleURL == "" || a.cases.Realm != oauth.DefaultRealm || rt.Needs == admin.RoleAuditor || !rt.about("users", "imports")
}

// elsewhere is the answer to an actor of one realm at what another realm or the
// deployment has.
func (a *API) elsewhere(x *call, rt Route) *Problem {
	own := strings.TrimPrefix(x.actor.Realm, "/")
	a.audit(x, audit.Event{Name: audit.AdminForbidden, Outcome: audit.Refused, Actor: x.actor.String(), Detail: rt.Method + " " + rt.Path + ", outside of the realm " + own})
	p := &Problem{Problem: adminapi.Problem{
		Type: "urn:mintage:problem:realm", Title: "another realm's, or the deployment's", Status: http.StatusForbidden,
		Detail: fmt.Sprintf("%s is for the realm %s alone, and this belongs to the realm %s", x.actor, own, a.Realm.Name),
		Advice: "name the realm: --realm " + own + ", or " + realmsPath + "/" + own + "/ in a path",
	}}
	if !rt.ofRealm() || x.actor.Realm == a.cases.Realm {
		p.Detail = fmt.Sprintf("%s is for the realm %s alone, and this belongs to the deployment", x.actor, own)
		p.Advice = "ask somebody who operates the deployment"
	}
	return p
}
