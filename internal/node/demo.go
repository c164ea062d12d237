package node

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/demo"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
)

// demoPages returns the pages of the demo client, or nil without --dev.
func (n *realm) demoPages(cfg config.Config, iss *issuer.Issuer, tokens *token.Endpoints) *demo.Demo {
	if !n.dev || n.name != oauth.DefaultRealm {
		return nil
	}
	return &demo.Demo{
		Site: server.Site{PublicURL: cfg.PublicURL, BasePath: cfg.BasePath}, Issuer: iss, Directory: n.directory,
		Client: func() demo.Client {
			info := n.demo.Load()
			if info == nil {
				return demo.Client{} // the server is starting
			}
			return demo.Client{ID: info.ClientID, Secret: oauth.Secret(info.ClientSecret), Username: info.Username}
		},
		Explain: func(ctx context.Context, w io.Writer, text string) error {
			v, err := n.explain(ctx, cfg, iss, tokens, adminapi.ExplainRequest{Text: text}, nil)
			if err != nil {
				return err
			}
			return v.Print(w)
		},
	}
}

// admitDemoPage adds the callback of the demo pages to the redirect URIs of the demo
// client, and removes that of an earlier address.
func admitDemoPage(ctx context.Context, cfg config.Config, st store.Store, dir *directory.Directory, info deployment.DevInfo) error {
	view, err := dir.Current(ctx)
	if err != nil {
		return err
	}
	known, there := view.Client(oauth.DefaultRealm, info.ClientID)
	if !there {
		return fmt.Errorf("there is no demo client %q", info.ClientID)
	}
	callback := demoCallback(cfg)
	if slices.Contains(known.RedirectURIs, callback) {
		return nil
	}
	c := *known
	c.RedirectURIs = slices.DeleteFunc(slices.Clone(known.RedirectURIs), func(uri string) bool { return strings.HasSuffix(uri, demo.CallbackPath) })
	c.RedirectURIs = append(c.RedirectURIs, callback)
	c.Version++
	c.UpdatedAt = grant.At(time.Now())
	event := store.Event{At: c.UpdatedAt, Name: store.EventClientChanged, About: c.ID, Actor: devActor, Detail: "redirect URI of the demo page: " + callback}
	if err := st.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{event}}); err != nil {
		return err
	}
	return dir.Poll(ctx)
}

// demoCallback returns the redirect URI of the demo pages.
func demoCallback(cfg config.Config) string { return cfg.PublicURL + cfg.BasePath + demo.CallbackPath }
