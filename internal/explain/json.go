package explain

import (
	"encoding/json"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// MarshalJSON is the explanation for programs.
func (v *Explained) MarshalJSON() ([]byte, error) {
	type requestJSON struct {
		ID      string        `json:"id"`
		Refusal string        `json:"refusal,omitempty"`
		Defect  string        `json:"defect,omitempty"`
		Audit   []audit.Entry `json:"audit"`
		Log     []LogLine     `json:"log"`
	}
	type tokenJSON struct {
		Key        string     `json:"key,omitempty"`
		Fault      string     `json:"fault,omitempty"`
		GrantID    string     `json:"grant_id,omitempty"`
		Generation uint32     `json:"generation,omitempty"`
		Standing   string     `json:"standing,omitempty"`
		Scope      string     `json:"scope,omitempty"`
		APIs       []string   `json:"apis,omitempty"`
		Issuer     string     `json:"issuer,omitempty"`
		IssuedAt   *time.Time `json:"issued_at,omitempty"`
		ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	}
	type codeJSON struct {
		ClientID    string     `json:"client_id"`
		Subject     string     `json:"subject"`
		Scope       string     `json:"scope"`
		RedirectURI string     `json:"redirect_uri,omitempty"`
		APIs        []string   `json:"apis,omitempty"`
		PKCE        bool       `json:"pkce"`
		Redeemed    bool       `json:"redeemed"`
		IssuedAt    *time.Time `json:"issued_at"`
		ExpiresAt   *time.Time `json:"expires_at"`
	}
	type clientJSON struct {
		ID    string            `json:"id"`
		Name  string            `json:"name"`
		State store.ClientState `json:"state"`
	}
	out := struct {
		Kind    string       `json:"kind"`
		Genuine *bool        `json:"genuine,omitempty"`
		Now     *reading     `json:"now,omitempty"`
		Notes   []string     `json:"notes,omitempty"`
		Request *requestJSON `json:"request,omitempty"`
		Token   *tokenJSON   `json:"token,omitempty"`
		Code    *codeJSON    `json:"code,omitempty"`
		Client  *clientJSON  `json:"client,omitempty"`
		Grant   *show.Grant  `json:"grant,omitempty"`
		Session *sessionJSON `json:"session,omitempty"`
		Holders string       `json:"holders,omitempty"`
		Life    []lifeEntry  `json:"life,omitempty"`
		Trail   string       `json:"trail,omitempty"`
	}{Kind: "request", Notes: v.asked.notes, Holders: v.holders(), Life: v.life, Trail: v.auditNote}
	if q := v.request; q != nil {
		out.Request = &requestJSON{q.id, q.refusal(), q.defect(), q.audit, q.lines()}
	}
	if s := v.session; s != nil {
		out.Session = s.json(grant.At(v.by.Issuer.Now()))
		if v.request == nil && v.Explanation == nil {
			out.Kind = "session"
		}
	}
	e := v.Explanation
	if e == nil {
		return json.Marshal(out)
	}
	if v.request == nil {
		out.Kind = string(e.As)
	}
	r := v.read()
	out.Now = &r
	if e.As != AsGrant && (e.Answer.Known || e.Genuine) {
		out.Genuine = &e.Genuine
	}
	if e.As != AsGrant && e.As != AsCode {
		t := &tokenJSON{Key: v.keyText(), Fault: string(e.Diagnosis.Fault), Standing: e.Standing(), Scope: e.Scope, APIs: e.APIs,
			IssuedAt: show.JSONInstant(e.Token.IssuedAt), ExpiresAt: show.JSONInstant(e.Token.ExpiresAt), Generation: e.Token.Generation}
		if e.Named {
			t.GrantID = e.Token.GrantID.String()
		}
		if e.JWT != nil {
			t.Fault, t.Issuer = string(e.JWT.Fault), e.JWT.Issuer
		}
		out.Token = t
	}
	if c := e.Code; c != nil {
		out.Code = &codeJSON{c.ClientID, c.Subject, string(c.Scope), e.RedirectURI, e.APIs, c.Challenged, e.Grant != nil, show.JSONInstant(c.AuthorizedAt), show.JSONInstant(c.ExpiresAt)}
	}
	if c := e.Client; c != nil {
		out.Client = &clientJSON{c.ID, c.Name, c.State}
	}
	if e.Grant != nil {
		g := show.GrantAt(*e.Grant, e.Directory, e.Now)
		out.Grant = &g
	}
	return json.Marshal(out)
}
