package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// newFront returns the login and the pages of the realm, or nil if login.mode is off.
func (n *realm) newFront(cfg config.Config, iss *issuer.Issuer) (*web.Front, error) {
	if cfg.Login.Mode == config.LoginOff {
		return nil, nil
	}
	set, err := newPages(cfg)
	if err != nil {
		return nil, err
	}
	authorizer := login.New(iss, login.Documents{Realm: n.name, Store: n.store, Directory: n.directory, Now: time.Now})
	authorizer.Pending, authorizer.Interactions.Lifetime = &n.pending, cfg.InteractionLifetime.Std()
	authorizer.Sessions.Lifetime, authorizer.Idle, authorizer.MaxSkew = cfg.Session.Lifetime.Std(), cfg.Session.Idle.Std(), cfg.Skew()
	authorizer.ContinueURL = cfg.PublicURL + cfg.BasePath + "/oauth2/interaction?id="
	authorizer.CallbackParameters, authorizer.Development = cfg.Compat.CallbackParameters, n.dev
	authorizer.RequirePAR, authorizer.Console = cfg.Authorization.RequirePAR, loginOfConsole(cfg)
	front := &web.Front{Authorizer: authorizer, Pages: set, RedirectURIMismatch: cfg.Compat.RedirectURIMismatch, ErrorPage: cfg.Authorization.ErrorPage == config.ErrorPageAlways}
	switch cfg.Login.Mode {
	case config.LoginHandoff:
		front.Handoff = cfg.Login.HandoffURL
	case config.LoginUpstream:
		if front.Upstream, err = newUpstream(cfg, &n.discovered); err != nil {
			return nil, err
		}
	default:
		front.Users = n.newUsers()
		authorizer.Alive = front.Users.Alive
	}
	return front, nil
}

// pusher returns a function that stores pushed authorization requests (RFC 9126).
func pusher(a *login.Authorizer) token.Pusher {
	return func(ctx context.Context, r *server.Request, req oauth.AuthorizationRequest, form string, known bool) (string, error) {
		v := login.Visitor{}
		if r.Counted.IsValid() {
			v = login.Visitor{Network: overload.Party(r.Counted), Charge: r.Charge}
		}
		return a.Push(ctx, req, form, v, known)
	}
}

func (n *realm) newUsers() *account.Users {
	return account.New(account.Users{
		Realm: n.name, Store: n.store, Now: time.Now, Log: n.log, Guard: n.guard,
		Ring: func() (*keys.Ring, error) {
			view, err := n.directory.View()
			if err != nil {
				return nil, err
			}
			return view.Ring, nil
		},
	})
}

func newUpstream(cfg config.Config, discovered *upstream.Discovered) (*upstream.Provider, error) {
	u := cfg.Login.Upstream
	secret := ""
	if u.ClientSecretFile != "" {
		var err error
		if secret, err = deployment.ReadSecretFile(u.ClientSecretFile); err != nil {
			return nil, &config.Fault{Name: "login.upstream.client_secret_file", Err: err}
		}
	}
	mapping, err := claims.ParseMapping(u.Claims)
	if err != nil {
		return nil, &config.Fault{Name: "login.upstream.claims", Err: err}
	}
	logoutURL := ""
	if u.Logout {
		logoutURL = cfg.PublicURL + cfg.BasePath + web.LogoutPath
	}
	return upstream.New(upstream.Config{
		Issuer: u.Issuer, ClientID: u.ClientID, ClientSecret: oauth.Secret(strings.TrimSpace(secret)), Scopes: u.Scopes,
		SubjectClaim: u.SubjectClaim, SubjectPrefix: u.SubjectPrefix, Claims: mapping, RedirectURL: cfg.UpstreamRedirectURL(), LogoutURL: logoutURL, Now: time.Now, Discovered: discovered,
	}), nil
}

// newPages loads the pages, with the files of the brand and the descriptions of scopes.
func newPages(cfg config.Config) (*pages.Set, error) {
	opt := pages.Options{Name: cmp.Or(cfg.Pages.Name, cfg.ServiceName()), BasePath: cfg.BasePath, Locale: cfg.Pages.Locale}
	var faults []error
	fault := func(name string, err error) { faults = append(faults, &config.Fault{Name: name, Err: err}) }
	if cfg.Pages.Directory != "" {
		info, err := os.Stat(cfg.Pages.Directory)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", cfg.Pages.Directory)
		}
		if err != nil {
			fault("pages.directory", deployment.Hint(err, "name a directory with brand.css, images or templates, or leave it out"))
		}
		opt.Brand = os.DirFS(cfg.Pages.Directory)
	}
	if cfg.Pages.ScopesFile != "" {
		text, err := os.ReadFile(cfg.Pages.ScopesFile)
		if err != nil {
			fault("pages.scopes_file", err)
		} else if opt.Scopes, err = pages.ReadScopes(bytes.NewReader(text)); err != nil {
			fault("pages.scopes_file", fmt.Errorf("%s: %w", cfg.Pages.ScopesFile, err))
		}
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	set, err := pages.New(opt)
	if err != nil {
		return nil, &config.Fault{Name: "pages.directory", Err: fmt.Errorf("%s: %w", cfg.Pages.Directory, err)}
	}
	return set, nil
}
