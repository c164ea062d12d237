package node

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/server/token"
)

// explain explains a text as a request of the realm would be answered under cfg, with
// what the audit log has of realms, or of all if there is none.
func (n *realm) explain(ctx context.Context, cfg config.Config, iss *issuer.Issuer, tokens *token.Endpoints, in adminapi.ExplainRequest, realms []string) (*explain.Explained, error) {
	x := explain.Explainer{Config: cfg, Realm: n.name, Store: n.store, Directory: n.directory, Now: time.Now, MaxSkew: cfg.Skew(), Issuer: iss, Told: tokens.Told, Audited: realms}
	for _, r := range n.realms {
		x.Realms = append(x.Realms, r.name)
	}
	asked := explain.Parse(in.Text)
	asked.Subject = in.Subject
	return x.Explain(ctx, asked, nil)
}
