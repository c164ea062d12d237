package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
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
}

// Handler is the route table of the admin listener.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admin/v1/codes", a.codes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.allowed(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			a.problem(w, Problem{Title: "admin token required", Status: http.StatusUnauthorized,
				Detail: "send the token of admin.token_file as Authorization: Bearer"})
			return
		}
		mux.ServeHTTP(w, r)
	})
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

func (a *Admin) codes(w http.ResponseWriter, r *http.Request) {
	var req CodeRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		a.problem(w, Problem{Title: "malformed request", Status: http.StatusBadRequest, Detail: err.Error()})
		return
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		a.problem(w, Problem{Title: "malformed request", Status: http.StatusBadRequest, Detail: "more than one JSON value"})
		return
	}
	code, err := a.issuer.IssueCode(r.Context(), issuer.Authorization(req))
	var invalid *issuer.Invalid
	switch {
	case errors.As(err, &invalid):
		a.problem(w, Problem{Title: "invalid request", Status: http.StatusUnprocessableEntity, Detail: invalid.Message, Field: invalid.Field})
		return
	case errors.Is(err, issuer.ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		a.problem(w, Problem{Title: "try again later", Status: http.StatusServiceUnavailable, Detail: err.Error()})
		return
	case err != nil:
		a.log.Error("issue code", "error", err)
		a.problem(w, Problem{Title: "internal error", Status: http.StatusInternalServerError})
		return
	}
	a.log.Info("code issued", "client_id", req.ClientID, "grant_id", code.GrantID.String(), "scope", string(code.Scope))
	a.json(w, http.StatusCreated, "application/json", CodeAnswer{
		Code: code.Code, CallbackURL: code.CallbackURL, Scope: string(code.Scope),
		ExpiresAt: code.ExpiresAt, GrantID: code.GrantID.String(),
	})
}

func (a *Admin) problem(w http.ResponseWriter, p Problem) {
	a.json(w, p.Status, "application/problem+json", p)
}

func (a *Admin) json(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
