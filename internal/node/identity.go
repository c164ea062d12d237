package node

import (
	"context"
	"log/slog"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store"
)

// noteIssuer stores the issuer at the first start, and logs an error if it differs
// later: clients and resource servers compare it.
func noteIssuer(ctx context.Context, cfg config.Config, st store.Store, log *slog.Logger) {
	was, err := directory.RememberIssuer(ctx, st, deployment.Realm, cfg.IssuerID())
	switch {
	case err != nil:
		log.Warn("cannot have the store remember the issuer", "error", err)
	case was != cfg.IssuerID():
		log.Error("the issuer has changed: clients and resource servers that know the old one refuse what this server says",
			"was", was, "is", cfg.IssuerID(), "advice", "put the old issuer (or public_url, base_path) back; if the change is meant: mintage doctor --accept-issuer")
	}
}
