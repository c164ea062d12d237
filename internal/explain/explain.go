// Package explain explains a token, a code, a request, a grant or a session, for an
// operator who looks for the reason why a client was refused: whether a request with
// it would be answered now, and if not, why, what the client is answered, and what to
// do; and then the history of its grant. The issuer decides; this package adds the
// words, the store's events, the audit log and the server's log. It shows nothing
// of a token.
package explain

import (
	"context"
	"fmt"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Explainer reads the store and the audit log, also while a server uses them.
type Explainer struct {
	Config config.Config
	Issuer *issuer.Issuer
	Store  store.Store
	// Locked is the reason why tokens cannot be verified, or nil.
	Locked error
	// Told returns the token endpoint's answer to a refused request of a grant type.
	Told func(grantType string, why grant.Refusal) (status int, code oauth.ErrorCode)
}

// An Explained is a complete explanation.
type Explained struct {
	*Explanation // nil for a request that is about no grant
	by           *Explainer
	asked        Asked
	session      *sessionFacts // of a session, or of the session that made the grant
	request      *requestFacts
	life         []lifeEntry
	// auditNote is the reason why the audit log could not be read to its end, or "".
	auditNote string
	// shared counts the audit log's records of requests by a second holder of the
	// grant's token.
	shared int
}

// holders is the line about a refresh token that several processes hold, or "".
func (v *Explained) holders() string {
	if v.shared == 0 {
		return ""
	}
	return "2 holders or more: requests with an earlier refresh token were answered under the client's reuse grace; the audit log has " + fmt.Sprint(v.shared)
}

// Explain explains its input. The log is used for a request only, and may be nil.
func (x *Explainer) Explain(ctx context.Context, a Asked, log *Log) (*Explained, error) {
	v := &Explained{by: x, asked: a}
	var e Explanation
	var err error
	switch a.kind {
	case askedRequest:
		if err := x.findRequest(ctx, v, log); err != nil {
			return nil, err
		}
		return v, x.completeLife(ctx, v)
	case askedGrant:
		id, _ := grant.ParseID(a.Text)
		e, err = ExplainGrant(ctx, x.Issuer, id)
	case askedSession:
		return v, x.findSession(ctx, v, a.Subject, func(reference [16]byte) bool { return grant.SessionName(reference) == a.Text })
	default:
		if hint, err := x.Issuer.Hint(a.Text); err == nil {
			return v, x.findHinted(ctx, v, hint)
		}
		e, err = ExplainToken(ctx, x.Issuer, a.Text)
	}
	if err != nil {
		return nil, err
	}
	v.Explanation = &e
	if g := e.Grant; g != nil && g.Session != [16]byte{} {
		if err := x.findSession(ctx, v, g.Subject, func(reference [16]byte) bool { return reference == g.Session }); err != nil {
			return nil, err
		}
	}
	return v, x.completeLife(ctx, v)
}
