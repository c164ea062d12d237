package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// record counts the request and writes its log line: faults at the level error, refusals
// at info, successes at debug.
func (s *Server) record(r *Request, took time.Duration) {
	s.count(r, took)
	rec, status, err := &r.outcome.Report, r.outcome.Status, r.outcome.Err
	if err == nil && !rec.Tokens.Repeated && !rec.Tokens.Shared && !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return // nearly every request: skip building a line that is not logged
	}
	level, message := severity(r, rec, status, err)
	level = DuringOutage(s.Outage, time.Now(), level, err)
	var refused *grant.Refused
	counted := 0
	if level == slog.LevelError && message == lostCommits {
		level, counted = s.behind.level(time.Now())
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", r.ID), slog.Int("status", status), slog.String("method", Printable(r.Method)),
		slog.String("remote_ip", r.Address.String()), slog.String("realm", s.Realm), slog.String("grant_type", knownGrantType(rec.GrantType)),
		slog.String("client_id", s.known(rec.ClientID)), slog.Float64("dur_ms", float64(took.Microseconds())/1000),
	}
	if r.trace != "" {
		attrs = append(attrs, slog.String("trace_id", r.trace))
	}
	if counted > 0 {
		attrs = append(attrs, slog.Int("since_last_line", counted))
	}
	var bug *panicError
	switch {
	case rec.Inactive != nil:
		attrs = withGrant(append(attrs, slog.String("reason", rec.Inactive.Error())), rec.GrantID)
	case err == nil && rec.GrantID != (grant.ID{}):
		attrs = withGrant(attrs, rec.GrantID)
	case err == nil && rec.Tokens.GrantID != (grant.ID{}):
		attrs = append(withGrant(attrs, rec.Tokens.GrantID), slog.Uint64("generation", uint64(rec.Tokens.Generation)))
	case errors.As(err, &refused):
		_, wire := s.wireError(r, err)
		attrs = withGrant(append(attrs, slog.String("error", string(wire.Code)), slog.String("reason", refused.Why.String())), refused.GrantID)
	case errors.As(err, &bug):
		attrs = append(attrs, slog.String("error", err.Error()), slog.String("stack", string(bug.stack)))
	case err != nil:
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.log.LogAttrs(context.Background(), level, message, attrs...)
}

// withGrant adds the id of a grant unless it is zero.
func withGrant(attrs []slog.Attr, id grant.ID) []slog.Attr {
	if id == (grant.ID{}) {
		return attrs
	}
	return append(attrs, slog.String("grant_id", id.String()))
}

// DuringOutage returns the level of a line about a failure: debug if an outage of the
// store causes the error, because o counts such errors and logs the first.
func DuringOutage(o *store.Outage, now time.Time, level slog.Level, err error) slog.Level {
	if level == slog.LevelError && o.Combines(err, now) {
		return slog.LevelDebug
	}
	return level
}

// behind selects the lines about a store that has lost commits: the first, and then one a
// minute, however many clients come with tokens that it does not know.
type behind struct {
	mu     sync.Mutex
	logged time.Time // when the last line was logged as an error
	count  int       // requests since
}

// level returns the level of the next line: error if none was within the last minute, with
// the number of requests whose lines had the level debug since.
func (b *behind) level(now time.Time) (level slog.Level, counted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.logged.IsZero() && now.Sub(b.logged) < time.Minute {
		b.count++
		return slog.LevelDebug, 0
	}
	counted, b.logged, b.count = b.count, now, 0
	return slog.LevelError, counted
}

func severity(r *Request, rec *Report, status int, err error) (slog.Level, string) {
	switch {
	case err != nil:
		return severityOfFault(r, rec, status, err)
	case rec.Tokens.Shared:
		return slog.LevelInfo, "token request with an earlier refresh token answered"
	case rec.Tokens.Repeated:
		// Log it at info: the caller may also have stolen the client's secret.
		return slog.LevelInfo, "token request repeated, same pair answered"
	}
	return slog.LevelDebug, r.Route.Name + " answered"
}

// lostCommits is the message about the only refusal of a grant that is answered 5xx:
// grant.StoreBehind.
const lostCommits = "an authentic token has no record: the store has lost commits; was an older backup or a replica put in place? for a minute, further ones are counted, and logged at level debug"

func severityOfFault(r *Request, rec *Report, status int, err error) (slog.Level, string) {
	var refused *grant.Refused
	var bug *panicError
	switch {
	case errors.Is(err, overload.ErrShed):
		return slog.LevelDebug, r.Route.Name + " shed" // NewQueue logs all of them together
	case errors.As(err, &bug):
		return slog.LevelError, "bug"
	case !rec.Fault && (errors.Is(err, oauth.ErrPending) || errors.Is(err, oauth.ErrSlowDown)):
		return slog.LevelDebug, r.Route.Name + " of a polling device, authorization pending" // every few seconds
	case status >= 500 && errors.As(err, &refused):
		return slog.LevelError, lostCommits
	case errors.As(err, new(*store.ExternalFault)):
		return slog.LevelWarn, r.Route.Name + " failed"
	case status >= 500, rec.Fault:
		return slog.LevelError, r.Route.Name + " failed"
	}
	return r.Route.Refusals, r.Route.Name + " refused"
}

// knownGrantType keeps unknown values of grant_type out of the log: a client may have put
// a secret there.
func knownGrantType(s string) string {
	if s == "" || slices.Contains(store.AllGrantTypes, s) {
		return s
	}
	return "unsupported"
}

// Printable shortens a text that a caller sent, for the log.
func Printable(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

// known returns a client id for the log. It replaces an id that no client has, which may
// be a secret in the wrong field.
func (s *Server) known(id string) string {
	_, registered := s.directory.Latest().Registered(s.Realm, id)
	if id == "" || registered || s.directory.Admits(s.Realm, id) {
		return id
	}
	return unknownClient
}

// count counts the request. A refresh that succeeds allocates nothing here.
func (s *Server) count(r *Request, took time.Duration) {
	m, o := s.Metrics, &r.outcome
	if m == nil {
		return
	}
	r.Route.meter.Answered(r.Method, o.Status, took)
	if o.Err != nil {
		countRefusal(m, o.Err)
	}
	if r.Route.Count == nil || !slices.Contains(r.Route.Methods, r.Method) {
		return
	}
	if o.Err != nil {
		_, wire := s.wireError(r, o.Err)
		o.Code = wire.Code
	}
	r.Route.Count(m, o)
}

// countRefusal counts the refusals that are counted on every route.
func countRefusal(m *metrics.Metrics, err error) {
	var refused *grant.Refused
	var fault client.AuthFault
	switch {
	case errors.As(err, &refused):
		if refused.Why == grant.StoreBehind {
			m.StoreBehind()
		}
	case errors.As(err, &fault):
		m.ClientAuthFailed(string(fault))
	case errors.Is(err, oauth.ErrClient):
		m.ClientAuthFailed(metrics.MalformedCredentials)
	}
}

// originOf puts the request's origin into the context, so that events which are stored
// during the request name it.
func (s *Server) originOf(ctx context.Context, r *Request) context.Context {
	if s.Audit == nil {
		return ctx
	}
	return audit.With(ctx, audit.Origin{RequestID: r.ID, RemoteIP: r.Address})
}

// Note records an event of a request. It replaces a client id that no client has; see known.
func (s *Server) Note(r *Request, e audit.Event) {
	e.Realm, e.ClientID, e.RequestID, e.RemoteIP = s.Realm, s.known(e.ClientID), r.ID, r.Address
	s.Audit.Record(e)
}

// audit records the end of a request that changes nothing in the store. Changes are
// recorded where they are stored (package audit).
func (s *Server) audit(r *Request) {
	rec, err := &r.outcome.Report, r.outcome.Err
	switch {
	case s.Audit == nil:
	case err != nil:
		s.auditFault(r, rec, r.outcome.Status, err)
	case rec.ServiceRevoked:
		s.Note(r, audit.Event{Name: audit.ServiceTokenRevoked, Outcome: audit.Success, ClientID: rec.ClientID, GrantID: rec.GrantID.String()})
	case rec.Tokens.GrantID != (grant.ID{}):
		e := audit.Event{Name: audit.TokensRefreshed, Outcome: audit.Success, ClientID: rec.ClientID}
		if rec.Tokens.Shared {
			e.Name = audit.RefreshShared
		} else if rec.Tokens.Repeated {
			e.Name = audit.RefreshRepeated
		} else if rec.GrantType == store.GrantAuthorizationCode || rec.GrantType == store.GrantDeviceCode {
			e.Name = audit.CodeRedeemed
		} else if rec.GrantType == store.GrantClientCredentials {
			e.Name = audit.ServiceTokenIssued
		} else if rec.Tokens.Trust != "" {
			e.Name, e.Detail = audit.AssertionAccepted, "trust "+rec.Tokens.Trust
		} else if x := rec.Tokens.Exchanged; x != nil {
			if e.Name = audit.TokenExchanged; x.Impersonates {
				e.Name = audit.UserImpersonated
			}
			if e.Detail = "a token of client " + s.known(x.From); x.For != "" {
				e.Name, e.Detail = audit.IDJAGIssued, "for "+x.For
			}
		}
		e.GrantID, e.Subject, e.Generation = rec.Tokens.GrantID.String(), rec.Tokens.Subject, rec.Tokens.Generation
		if rec.Tokens.Bound {
			e.Detail = strings.TrimPrefix(e.Detail+", bound to the DPoP key "+r.key.String(), ", ")
		}
		s.Note(r, e)
	}
}

func (s *Server) auditFault(r *Request, rec *Report, status int, err error) {
	var refused *grant.Refused
	var fault *client.GrantFault
	switch {
	case errors.Is(err, client.ErrClient), errors.Is(err, oauth.ErrClient):
		e := audit.Event{Name: audit.ClientAuthFailed, Outcome: audit.Refused, ClientID: rec.ClientID, Detail: r.Route.Name}
		if why, ok := errors.AsType[client.AuthFault](err); ok {
			e.Detail += ", " + string(why)
		}
		if assertion, ok := errors.AsType[*client.AssertionFault](err); ok {
			e.Detail += ": " + assertion.Claim + " " + assertion.Why
		}
		if _, why, known := strings.Cut(err.Error(), oauth.ErrClient.Error()+": "); known {
			e.Detail += ": " + why
		} else if errors.Is(err, oauth.ErrClient) {
			e.Detail += ", " + metrics.MalformedCredentials
		}
		if s.known(rec.ClientID) == unknownClient {
			e.ClientID = ""
		}
		s.Note(r, e)
	case status == http.StatusTooManyRequests:
		s.AuditThrottled(r, rec.ClientID)
	case errors.As(err, &refused):
		s.auditRefusal(r, rec, refused)
	case errors.As(err, &fault):
		s.Note(r, audit.Event{Name: audit.TokenRefused, Outcome: audit.Refused, ClientID: rec.ClientID, Detail: fault.Text()})
	case (errors.Is(err, oauth.ErrProof) || errors.Is(err, oauth.ErrNoProof)) && r.Route.Refusals >= 0:
		detail := err.Error() + ", " + strings.TrimSpace(knownGrantType(rec.GrantType)+" "+r.Route.Name)
		s.Note(r, audit.Event{Name: audit.TokenRefused, Outcome: audit.Refused, ClientID: rec.ClientID, Detail: detail})
	}
}

func (s *Server) auditRefusal(r *Request, rec *Report, refused *grant.Refused) {
	if r.Route.Refusals < 0 {
		return // invalid tokens of unauthenticated callers, at the endpoints of resource servers
	}
	e := audit.Event{Name: audit.TokenRefused, Outcome: audit.Refused, ClientID: rec.ClientID}
	if refused.Why == grant.StoreBehind {
		e.Outcome = audit.Failed
	}
	if refused.GrantID != (grant.ID{}) {
		e.GrantID = refused.GrantID.String()
	}
	// Only a request with a known grant type reaches a grant, so that rec.GrantType is not
	// an arbitrary text.
	e.Detail = refused.Why.String() + ", " + strings.TrimSpace(rec.GrantType+" "+r.Route.Name)
	s.Note(r, e)
}

// AuditThrottled records that a request is refused because of its address, at most once
// a minute for each network.
func (s *Server) AuditThrottled(r *Request, clientID string) {
	if s.Audit == nil || !s.throttled.First(r.Address, time.Now()) {
		return
	}
	s.Note(r, audit.Event{Name: audit.Throttled, Outcome: audit.Refused, ClientID: clientID, Detail: r.Route.Name + "; further ones within a minute are not recorded"})
}

// noteProbe records how a request has arrived, if it is an announced probe.
func (s *Server) noteProbe(r *Request) {
	p := s.Probes
	if p == nil || p.open.Load() == 0 {
		return
	}
	_, name, ok := strings.Cut(r.UserAgent(), ProbeAgent)
	if !ok {
		return
	}
	a := Arrival{
		RemoteIP: r.Address.String(), Secure: s.secure(r.Request), TLS: r.TLS != nil, Protocol: r.Proto, Method: r.Method,
		Host: Printable(r.Host), Path: Printable(r.URL.Path), Forwarded: r.Header["Forwarded"] != nil,
		Authorization: r.Header["Authorization"] != nil, ContentType: Printable(r.Header.Get("Content-Type")), RequestID: r.ID,
		ForwardedProto: []string{},
	}
	if peer := PeerOf(r.Request); peer.IsValid() {
		a.Peer, a.Declared = peer.String(), s.trusted(peer)
	}
	for _, v := range r.Header["X-Forwarded-For"] {
		a.ForwardedFor += len(strings.Split(v, ","))
	}
	for _, v := range r.Header["X-Forwarded-Proto"] {
		a.ForwardedProto = append(a.ForwardedProto, Printable(v))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		if x.name == strings.TrimSpace(name) {
			a.Arrived = x.arrival.Arrived + 1
			x.arrival = a
		}
	}
}

// watch records the request if an operator watches its client. While nobody watches any
// client, this costs one atomic read.
func (s *Server) watch(r *Request) {
	rec := &r.outcome.Report
	if s.Watches == nil || s.Watches.watched.Load() == 0 || rec.ClientID == "" {
		return
	}
	s.Watches.note(s.Realm, s.known(rec.ClientID), Sighting{At: time.Now(), RequestID: r.ID, Endpoint: r.Route.Name, GrantType: knownGrantType(rec.GrantType),
		Err: r.outcome.Err, Repeated: rec.Tokens.Repeated})
}
