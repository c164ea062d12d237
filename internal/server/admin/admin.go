// Package admin is the HTTP API for administrators, on a listener of its own.
package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// API answers the administrator's listener. On a Unix socket, the file's
// permissions determine who may call; over TCP, callers need a bearer token.
type API struct {
	cases  admin.Admin    // without an actor; see as
	issuer *issuer.Issuer // nil: no server runs, a command has opened the store
	logins *login.Authorizer
	log    *slog.Logger
	access Access

	// Audit is where security events are recorded, set before first use; nil:
	// nowhere.
	Audit *audit.Log
	// Outage combines the lines about failures of the store, set before first use.
	Outage *store.Outage
	// Probes are the probes of the public endpoints, set before first use.
	Probes *server.Probes
	// Service is what authenticator apps call this service, set before first use.
	Service string
	// ConsoleURL is the address of the console, set before first use; "": there is none.
	ConsoleURL string
	// Version is the server's version, for commands, set before first use.
	Version string

	// AuditDirectory is where the audit log is, set before first use; "": there is none.
	AuditDirectory string
	// Explain explains a text with the audit records of realms; empty: of all realms. It is
	// set before first use; nil: no server runs.
	Explain func(ctx context.Context, in adminapi.ExplainRequest, realms []string) (any, error)

	// Traffic adds up what all nodes have answered, set before first use; nil: no server runs.
	Traffic func(ctx context.Context, of, step time.Duration) (adminapi.Traffic, error)

	// Checkup returns the last checkup of the server, and begins another one if start is set,
	// set before first use; nil: no server runs.
	Checkup func(start bool) adminapi.Checkup

	// Watch returns the requests of a client of the realm since it was first called for the
	// client, set before first use; nil: no server runs.
	Watch func(store.Client) (w adminapi.Watch, ok bool)

	// Settings returns the settings with which the server runs, set before first use; nil: no
	// server runs.
	Settings func() adminapi.Settings

	// Assertions verifies assertions as grants, set before first use; nil: no server runs.
	Assertions *client.Authenticator

	// Pages contains the consent page, set before first use; nil: there is none.
	Pages *pages.Set

	// Realm is the realm whose clients, users and so on the API manages, set before first use.
	Realm adminapi.Realm

	realms  []adminapi.Realm
	changes chan struct{} // concurrency slots of changes; see slots
	rows    chan struct{}
	lists   chan struct{}
	lookups chan struct{} // and of looking up tokens

	searches chan struct{} // and of searches of the audit log
}

// NewAPI makes the API of a server. Logins is nil unless login.mode is handoff: only then
// does a login page use the API.
func NewAPI(cases admin.Admin, iss *issuer.Issuer, logins *login.Authorizer, access Access, log *slog.Logger) *API {
	a := newAPI(cases, log)
	a.issuer, a.logins, a.access = iss, logins, access
	return a
}

// NewLocal makes the API for a command, which has opened the store because no
// server runs.
func NewLocal(cases admin.Admin) *API {
	a := newAPI(cases, slog.New(slog.DiscardHandler))
	a.access.Socket = true // its caller is this process
	return a
}

func newAPI(cases admin.Admin, log *slog.Logger) *API {
	return &API{cases: cases, log: log, Probes: &server.Probes{}, changes: make(chan struct{}, maxChanges), rows: make(chan struct{}, 1), lists: make(chan struct{}, 1), lookups: make(chan struct{}, maxLookups), searches: make(chan struct{}, maxSearches)}
}

// A Problem is an error answer.
type Problem struct {
	adminapi.Problem

	allow   string // of a 405
	unknown bool   // the field is a name that the caller may have made up
	cause   error  // for the log, and for a command in this process
}

// Error is for the log.
func (p *Problem) Error() string { return p.Title }

const (
	// maxAdminBody is far more than most requests need.
	maxAdminBody = 16 << 10
	// maxLongBody is more than the longest client or API needs: a client with the most URIs,
	// or an API with the most scopes and their texts in every language.
	maxLongBody = 128 << 10
	// maxImportBody is more than the longest import needs: 100 lines of 16 KiB, if each
	// character is escaped.
	maxImportBody = 10 << 20
)

// Handler answers every request with an id, and logs those that it refuses. Records of the
// audit log have that id and the caller's address. A request of the console has the id of
// the browser's. There is no mux: it would answer some requests itself.
func (a *API) Handler() http.Handler {
	routes := a.Routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := audit.Origin{RequestID: cmp.Or(audit.From(r.Context()).RequestID, server.RequestID()), RemoteIP: server.PeerOf(r)}
		x := &call{Request: r.WithContext(audit.With(r.Context(), origin)), id: origin.RequestID, path: unknownPath(r), log: a.log, w: w}
		w.Header().Set("X-Request-Id", x.id)
		var status int
		var body any
		problem := a.authenticate(x)
		if problem == nil {
			if x.isCommand() {
				w.Header().Set(adminapi.Version, a.Version)
			}
			status, body, problem = a.serve(x, routes)
		}
		if problem == nil {
			a.json(w, status, "application/json", body)
			return
		}
		switch problem.Status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", problem.allow)
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
		}
		if cause, ok := r.Context().Value(causeKey{}).(*error); ok {
			*cause = problem.cause
		}
		a.json(w, problem.Status, "application/problem+json", problem.Problem)
		a.record(x, problem, r.Context().Err() != nil)
	})
}

// serve is the whole API: it returns the status and the body of a success, or a
// problem.
func (a *API) serve(x *call, routes []Route) (int, any, *Problem) {
	var methods []string
	for _, rt := range routes {
		names, ok := rt.matches(x.URL.EscapedPath())
		switch {
		case !ok:
			continue
		case rt.absent != nil:
			x.path = rt.Path
			return 0, nil, rt.absent
		case x.Method == rt.Method:
			x.path = rt.Path
			x.names, x.changes = names, rt.Needs == admin.RoleAdmin
			if !a.reaches(x.actor, rt) {
				return 0, nil, a.elsewhere(x, rt)
			}
			if !x.actor.Role.Covers(rt.Needs) {
				return 0, nil, a.forbidden(x, rt)
			}
			if p := x.readBody(rt); p != nil {
				return 0, nil, p
			}
			if err := x.condition(rt); err != nil {
				return 0, nil, x.problem(err)
			}
			status, body, err := rt.handle(x)
			if err != nil {
				return 0, nil, x.problem(err)
			}
			return status, body, nil
		}
		x.path = rt.Path
		methods = append(methods, rt.Method)
	}
	if methods != nil {
		return 0, nil, &Problem{Problem: adminapi.Problem{Title: "method must be " + strings.Join(methods, " or "), Status: http.StatusMethodNotAllowed}, allow: strings.Join(methods, ", ")}
	}
	if name, ok := strings.CutPrefix(x.URL.EscapedPath(), realmsPath+"/"); ok {
		name, _, _ = strings.Cut(name, "/")
		if name, _ = url.PathUnescape(name); !slices.ContainsFunc(a.realms, func(r adminapi.Realm) bool { return r.Name == name }) {
			return 0, nil, &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:not-found", Title: "no such realm", Status: http.StatusNotFound,
				Detail: fmt.Sprintf("there is no realm %q", name), Advice: "see: mintage realm list"}}
		}
	}
	return 0, nil, &Problem{Problem: adminapi.Problem{Title: "no such resource", Status: http.StatusNotFound}}
}

// unknownPath returns the text for the log in place of a path that no route has: the
// path may contain a secret.
func unknownPath(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, loginsPath) {
		return loginsPath + "{challenge}"
	}
	return "(unknown)"
}

const loginsPath = "/admin/v1/logins/"

// Route is one method of one resource. A part of its path in braces
// matches any text.
type Route struct {
	Method, Path string
	Needs        admin.Role // at least
	handle       handler
	absent       *Problem // the answer if the deployment has no such route; else nil
}

// Routes returns the whole API. Each operation declares the role that it needs, whatever
// its method: a POST can read.
func (a *API) Routes() []Route {
	var absent *Problem
	if a.logins == nil {
		absent = &Problem{Problem: adminapi.Problem{Title: "no logins", Status: http.StatusNotFound, Detail: "login.mode is not handoff"}}
	}
	const get, post, put, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	const reads, changes = admin.RoleAuditor, admin.RoleAdmin
	const c, u = clientsPath + "/{client}", usersPath + "/{user}"
	return []Route{
		{get, clientsPath, reads, a.do(200, listClients, "match", "state", "after", "limit", "self_registered", "deleted"), nil},
		{post, clientsPath, changes, a.do(201, with(createClient)), nil},
		{get, c, reads, a.do(200, showClient), nil},
		{get, c + "/watch", reads, a.do(200, a.watchClient), nil},
		{get, c + "/usage", reads, a.do(200, usage), nil},
		{put, c, changes, a.do(200, with(applyClient), "dry_run"), nil},
		{remove, c, changes, a.do(204, changed((*admin.Admin).Clients, admin.Clients.Delete, gone)), nil},
		{post, c + "/disable", changes, a.do(200, bare(setClientState(store.ClientDisabled))), nil},
		{post, c + "/enable", changes, a.do(200, bare(setClientState(store.ClientEnabled))), nil},
		{get, c + "/secrets", reads, a.do(200, listSecrets), nil},
		{post, c + "/secrets", changes, a.do(201, may(addSecret)), nil},
		{remove, c + "/secrets/{secret}", changes, a.do(204, revokeSecret, "force"), nil},
		{get, apisPath, reads, a.do(200, listAPIs, "match", "after", "limit"), nil},
		{post, apisPath, changes, a.do(201, with(createAPI)), nil},
		{get, apisPath + "/{api}", reads, a.do(200, shown((*admin.Admin).APIs, admin.APIs.Read, viewAPI)), nil},
		{get, apisPath + "/{api}/consent", reads, a.do(200, a.previewConsent, "locale"), nil},
		{put, apisPath + "/{api}", changes, a.do(200, with(applyAPI), "dry_run"), nil},
		{remove, apisPath + "/{api}", changes, a.do(204, changed((*admin.Admin).APIs, admin.APIs.Delete, gone)), nil},
		{get, trustsPath, reads, a.do(200, listTrusts, "match", "after", "limit"), nil},
		{post, trustsPath, changes, a.do(201, with(createTrust)), nil},
		{get, trustsPath + "/{trust}", reads, a.do(200, shown((*admin.Admin).Trusts, admin.Trusts.Read, viewTrust)), nil},
		{put, trustsPath + "/{trust}", changes, a.do(200, with(changeTrust), "dry_run"), nil},
		{remove, trustsPath + "/{trust}", changes, a.do(204, deleteTrust), nil},
		{post, "/admin/v1/assertions", reads, a.do(200, with(a.judge)), nil},
		{get, usersPath, reads, a.do(200, listUsers, "match", "state", "after", "limit"), nil},
		{post, usersPath, changes, a.do(201, with(createUser)), nil},
		{post, "/admin/v1/imports", changes, a.do(200, with(importUsers)), nil},
		{get, u, reads, a.do(200, shown((*admin.Admin).Users, admin.Users.Read, viewUser)), nil},
		{http.MethodPatch, u, changes, a.do(200, with(updateUser)), nil},
		{post, u + "/disable", changes, a.do(200, bare(changed((*admin.Admin).Users, admin.Users.Disable, viewUser))), nil},
		{post, u + "/enable", changes, a.do(200, bare(changed((*admin.Admin).Users, admin.Users.Enable, viewUser))), nil},
		{post, u + "/password", changes, a.do(200, may(setPassword)), nil},
		{post, u + "/totp", changes, a.do(200, bare(a.setTOTP)), nil},
		{remove, u + "/totp", changes, a.do(204, changed((*admin.Admin).Users, admin.Users.RemoveTOTP, gone)), nil},
		{get, "/admin/v1/keys", reads, a.do(200, all("keys", (*admin.Admin).Keys, admin.Keys.List)), nil},
		{get, "/admin/v1/keys/public", reads, a.do(200, all("keys", (*admin.Admin).Keys, admin.Keys.Public)), nil}, // a JWK Set
		{post, "/admin/v1/keys/rotate", changes, a.do(200, may(rotateKeys)), nil},
		{post, "/admin/v1/keys/withdraw", changes, a.do(200, with(withdrawKeys)), nil},
		{get, "/admin/v1/grants", reads, a.do(200, listGrants, "subject", "client_id", "after", "limit"), nil},
		{get, "/admin/v1/grants/{grant}", reads, a.do(200, showGrant), nil},
		{remove, "/admin/v1/grants/{grant}", changes, a.do(204, revokeGrant), nil},
		{get, sessionsPath, reads, a.do(200, listSessions, "subject"), nil},
		{post, sessionsPath + "/end", changes, a.do(200, with(endSessions)), nil},
		{get, cutoffsPath, reads, a.do(200, listCutoffs, "subject", "client_id", "after", "limit"), nil},
		{post, cutoffsPath, changes, a.do(201, with(cutOff)), nil},
		{get, "/admin/v1/events", reads, a.do(200, listEvents, "subject", "client_id", "grant_id", "api", "trust"), nil},
		{get, auditPath, reads, a.do(200, a.searching(a.listAudit), "grant_id", "client_id", "subject", "request_id", "event", "since", "until", "before", "limit"), nil},
		{get, auditPath + "/head", reads, a.do(200, a.auditHead), nil},
		{post, "/admin/v1/explain", reads, a.do(200, a.searching(with(a.explain))), nil},
		{get, "/admin/v1/traffic", reads, a.do(200, a.traffic, "period"), nil},
		{get, "/admin/v1/checkup", reads, a.do(200, a.checkup(false)), nil},
		{post, "/admin/v1/checkup", reads, a.do(202, bare(a.checkup(true))), nil},
		{get, "/admin/v1/settings", reads, a.do(200, a.showSettings), nil},
		{get, realmsPath, reads, a.do(200, a.listRealms), nil},
		{get, "/admin/v1/restores", reads, a.do(200, all("restores", (*admin.Admin).Restores, admin.Restores.List)), nil},
		{post, "/admin/v1/restores", changes, a.do(201, with(declareRestore)), nil},
		{get, tokensPath, reads, a.do(200, all("admin_tokens", (*admin.Admin).Tokens, admin.Tokens.List)), nil},
		{post, tokensPath, changes, a.do(201, with(a.createToken)), nil},
		{remove, tokensPath + "/{name}", changes, a.do(204, named((*admin.Admin).Tokens, admin.Tokens.Revoke)), nil},
		{get, operatorsPath, reads, a.do(200, all("operators", (*admin.Admin).Console, admin.Console.Operators)), nil},
		{post, operatorsPath, changes, a.do(201, with(a.addOperator)), nil},
		{remove, operatorsPath + "/{name}", changes, a.do(204, named((*admin.Admin).Console, admin.Console.RemoveOperator)), nil},
		{post, consolePath + "/invitations", changes, a.do(201, with(a.inviteOperator)), nil},
		{get, consolePath + "/sessions", reads, a.do(200, all("sessions", (*admin.Admin).Console, admin.Console.ConsoleSessions)), nil},
		{remove, consolePath + "/sessions/{session}", changes, a.do(204, named((*admin.Admin).Console, admin.Console.EndConsoleSession)), nil},
		{post, "/admin/v1/codes", changes, direct(201, with(a.codes)), nil},
		{post, "/admin/v1/probes", reads, direct(201, a.announceProbe), nil},
		{get, "/admin/v1/probes/{probe}", reads, direct(200, a.probeArrival), nil},
		{get, loginsPath + "{challenge}", reads, direct(200, a.loginRequest), absent},
		{post, loginsPath + "{challenge}/accept", changes, direct(200, with(a.acceptLogin)), absent},
		{post, loginsPath + "{challenge}/reject", changes, direct(200, with(a.rejectLogin)), absent},
	}
}

// matches reports whether a path is the route's, and returns the parts that braces
// match. A part may have any byte, percent-encoded.
func (rt Route) matches(escaped string) (names []string, ok bool) {
	want, got := strings.Split(rt.Path, "/"), strings.Split(escaped, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i := range want {
		part, _ := url.PathUnescape(got[i]) // EscapedPath is valid
		switch {
		case strings.HasPrefix(want[i], "{"):
			names = append(names, part)
		case want[i] != part:
			return nil, false
		}
	}
	return names, true
}

// problem returns the answer to an error of a use case.
func problem(err error) *Problem {
	var invalid *oauth.Invalid
	switch {
	case errors.As(err, &invalid):
		return &Problem{Problem: adminapi.Problem{Title: "invalid request", Status: http.StatusUnprocessableEntity, Detail: invalid.Message, Field: invalid.Field}, unknown: invalid.Unknown}
	case errors.Is(err, login.ErrInteraction):
		return &Problem{Problem: adminapi.Problem{Title: "no such login", Status: http.StatusNotFound,
			Detail: "the challenge is unknown: pass it on as it came, and let the user start again at the application"}}
	case errors.Is(err, login.ErrExpired):
		return &Problem{Problem: adminapi.Problem{Title: "login expired", Status: http.StatusGone,
			Detail: "the user took too long: let the user start again at the application"}}
	case errors.Is(err, login.ErrAnswered):
		return &Problem{Problem: adminapi.Problem{Title: "login answered before", Status: http.StatusConflict,
			Detail: "the login was already accepted or rejected, or is over: let the user start again at the application"}}
	case store.Interrupted(err):
		return &Problem{Problem: adminapi.Problem{Title: "try again later", Status: http.StatusServiceUnavailable, Detail: err.Error()}, cause: err}
	}
	return &Problem{Problem: adminapi.Problem{Title: "internal error", Status: http.StatusInternalServerError}, cause: err}
}

// record logs a refusal: a missing token as a warning, a mistake at a lower level. It
// logs nothing of the request's content, which may name a person. If the caller has gone,
// an operation that ended for that reason is no outage of the store.
func (a *API) record(x *call, p *Problem, gone bool) {
	level, message := slog.LevelInfo, "admin request refused"
	switch {
	case p.Status >= 500:
		level, message = slog.LevelError, "admin request failed"
		if gone && (p.Status == http.StatusServiceUnavailable || errors.Is(p.cause, context.Canceled)) {
			level = slog.LevelInfo
		}
	case p.Status == http.StatusUnauthorized:
		level = slog.LevelWarn
	case x.isCommand(): // its user has seen why
		level = slog.LevelDebug
	}
	level = server.DuringOutage(a.Outage, a.monotonic(), level, p.cause)
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.Int("status", p.Status), slog.String("method", server.Printable(x.Method)),
		slog.String("path", server.Printable(x.path)), slog.String("remote_ip", peerAddress(x.Request)), slog.String("reason", p.Title),
	}
	if p.Field != "" && !p.unknown {
		attrs = append(attrs, slog.String("field", p.Field))
	}
	if p.cause != nil {
		attrs = append(attrs, slog.String("error", p.cause.Error()))
	}
	a.log.LogAttrs(context.Background(), level, message, attrs...)
}

// monotonic returns the time by which intervals between log lines are measured.
func (a *API) monotonic() time.Time {
	if a.issuer == nil {
		return a.cases.Now()
	}
	return a.issuer.Monotonic()
}

// peerAddress returns the address of a request's peer; "" for a request on a Unix
// socket.
func peerAddress(r *http.Request) string {
	if peer := server.PeerOf(r); peer.IsValid() {
		return peer.String()
	}
	return ""
}

func (a *API) json(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if t, ok := v.(tagged); ok {
		v = t.body
		w.Header().Set("ETag", `"`+t.etag+`"`)
		if t.location != "" {
			w.Header().Set("Location", t.location)
		}
	}
	if v == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// audit records an event of a request.
func (a *API) audit(x *call, e audit.Event) { a.Audit.Record(audit.From(x.Context()).Event(e)) }

// auditCode records a code that an operator's program has requested.
func (a *API) auditCode(x *call, req adminapi.CodeRequest, code issuer.IssuedCode) {
	a.audit(x, audit.Event{
		Name: audit.CodeIssued, Realm: a.cases.Realm, ClientID: req.ClientID, Subject: req.Subject, GrantID: code.GrantID.String(),
		Actor: x.actor.String(), Detail: fmt.Sprintf("scope %s", code.Scope),
	})
}
