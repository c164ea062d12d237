// Package explain tells all that is known of a token, a code, a request or a
// grant, for whoever has to find out why a client was refused: whether it would
// be answered now, and if not, why, what the client is told and what to do; and
// then the whole life of the grant behind it. The issuer says what is so; the
// words, and what the store's events, the audit trail and the log add, are here.
// Nothing of a token is shown.
package explain

import (
	"context"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Explainer looks into the store and the audit trail, beside a server that
// may be running on them.
type Explainer struct {
	Config config.Config
	Issuer *issuer.Issuer
	Store  store.Store
	// Locked says why tokens cannot be checked; nil if they can.
	Locked error
	// Told is what the token endpoint tells a client whose request of a grant type
	// is refused.
	Told func(grantType string, why grant.Refusal) (status int, code oauth.ErrorCode)
}

// An Explained is all that is shown of what was asked about.
type Explained struct {
	*issuer.Explanation // nil for a request that is about no grant
	by                  *Explainer
	asked               Asked
	request             *requestFacts
	life                []lifeEntry
	// trail says why the audit trail could not be read to its end, or "".
	trail string
}

// Explain finds out all about what is asked. The log is for a request alone; nil
// if there is none.
func (x *Explainer) Explain(ctx context.Context, a Asked, log *Log) (*Explained, error) {
	v := &Explained{by: x, asked: a}
	var e issuer.Explanation
	var err error
	switch a.kind {
	case askedRequest:
		if err := x.findRequest(ctx, v, log); err != nil {
			return nil, err
		}
		return v, x.completeLife(ctx, v)
	case askedGrant:
		id, _ := grant.ParseID(a.Text)
		e, err = x.Issuer.ExplainGrant(ctx, id)
	default:
		e, err = x.Issuer.ExplainToken(ctx, a.Text)
	}
	if err != nil {
		return nil, err
	}
	v.Explanation = &e
	return v, x.completeLife(ctx, v)
}
