package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/issuer"
)

// Admin answers the administrator's listener. On a Unix socket, the file's
// permissions say who may call; over TCP, a bearer token does.
type Admin struct {
	issuer *issuer.Issuer
	log    *slog.Logger
	token  string
}

// NewAdmin makes an Admin. An empty token asks for none.
func NewAdmin(iss *issuer.Issuer, token string, log *slog.Logger) *Admin {
	return &Admin{iss, log, token}
}

// CodeRequest is the body of POST /admin/v1/codes.
type CodeRequest struct {
	ClientID    string `json:"client_id"`
	RedirectURI string `json:"redirect_uri"`
	Subject     string `json:"subject"`
	Scope       string `json:"scope,omitempty"`          // all of the client's if absent
	Challenge   string `json:"code_challenge,omitempty"` // S256
}

// CodeAnswer is what it returns.
type CodeAnswer struct {
	Code        string    `json:"code"`
	CallbackURL string    `json:"callback_url"`
	Scope       string    `json:"scope"`
	ExpiresAt   time.Time `json:"expires_at"`
	GrantID     string    `json:"grant_id"`
}

// A Problem is an error answer of the admin API (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"` // the member that is wrong

	cause error // for the log alone
}

// maxAdminBody is far more than a request needs.
const maxAdminBody = 16 << 10

// Handler answers every request with an id, and logs those that it refuses.
// There is no mux: it would answer some requests itself.
func (a *Admin) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID()
		w.Header().Set("X-Request-Id", id)
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		created, problem := a.serve(r, id)
		if problem == nil {
			a.json(w, http.StatusCreated, "application/json", created)
			return
		}
		switch problem.Status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", http.MethodPost)
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
		}
		a.json(w, problem.Status, "application/problem+json", problem)
		a.record(r, id, problem)
	})
}

// serve is the whole API: it returns the body of a 201, or a problem.
func (a *Admin) serve(r *http.Request, id string) (CodeAnswer, *Problem) {
	switch {
	case !a.allowed(r):
		return CodeAnswer{}, &Problem{Title: "admin token required", Status: http.StatusUnauthorized,
			Detail: "send the token of admin.token_file as Authorization: Bearer"}
	case r.URL.Path != "/admin/v1/codes":
		return CodeAnswer{}, &Problem{Title: "no such resource", Status: http.StatusNotFound}
	case r.Method != http.MethodPost:
		return CodeAnswer{}, &Problem{Title: "method must be POST", Status: http.StatusMethodNotAllowed}
	}
	return a.codes(r, id)
}

// record logs a refusal: of a stranger as a warning, of a mistake for people
// who search. What the request holds stays out: it names a person.
func (a *Admin) record(r *http.Request, id string, p *Problem) {
	level, message := slog.LevelInfo, "admin request refused"
	switch {
	case p.Status >= 500:
		level, message = slog.LevelError, "admin request failed"
	case p.Status == http.StatusUnauthorized:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", id), slog.Int("status", p.Status), slog.String("method", printable(r.Method)),
		slog.String("path", printable(r.URL.Path)), slog.String("remote_ip", peerAddress(r)), slog.String("reason", p.Title),
	}
	if p.Field != "" {
		attrs = append(attrs, slog.String("field", p.Field))
	}
	if p.cause != nil {
		attrs = append(attrs, slog.String("error", p.cause.Error()))
	}
	a.log.LogAttrs(context.Background(), level, message, attrs...)
}

// peerAddress is where a request comes from, which is nowhere for one on a
// Unix socket.
func peerAddress(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return peer.Addr().Unmap().String()
}

// allowed compares digests, so that neither length nor content shows in time.
func (a *Admin) allowed(r *http.Request) bool {
	if a.token == "" {
		return true
	}
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	have, want := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(a.token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

func (a *Admin) codes(r *http.Request, id string) (CodeAnswer, *Problem) {
	var req CodeRequest
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return CodeAnswer{}, &Problem{Title: "malformed request", Status: http.StatusBadRequest, Detail: err.Error()}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return CodeAnswer{}, &Problem{Title: "malformed request", Status: http.StatusBadRequest, Detail: "more than one JSON value"}
	}
	code, err := a.issuer.IssueCode(r.Context(), issuer.Authorization(req))
	var invalid *issuer.Invalid
	switch {
	case errors.As(err, &invalid):
		return CodeAnswer{}, &Problem{Title: "invalid request", Status: http.StatusUnprocessableEntity, Detail: invalid.Message, Field: invalid.Field}
	case errors.Is(err, issuer.ErrUnavailable):
		return CodeAnswer{}, &Problem{Title: "try again later", Status: http.StatusServiceUnavailable, Detail: err.Error(), cause: err}
	case err != nil:
		return CodeAnswer{}, &Problem{Title: "internal error", Status: http.StatusInternalServerError, cause: err}
	}
	a.log.Info("code issued", "request_id", id, "client_id", req.ClientID, "grant_id", code.GrantID.String(),
		"scope", string(code.Scope), "remote_ip", peerAddress(r))
	return CodeAnswer{
		Code: code.Code, CallbackURL: code.CallbackURL, Scope: string(code.Scope),
		ExpiresAt: code.ExpiresAt, GrantID: code.GrantID.String(),
	}, nil
}

func (a *Admin) json(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
