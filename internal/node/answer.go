package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/lease"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// newRealm returns the parts of one realm that outlive a reload.
func (n *node) newRealm(cfg config.Config) *realm {
	r := &realm{node: n, name: cfg.Realm, began: time.Now(), log: n.log, metrics: n.metrics.Realm(cfg.Realm), store: n.store, feed: issuer.NewFeed()}
	if several := len(n.cfg.Realms) > 0; several {
		r.store = &store.RealmStore{Store: n.store, Name: r.name}
		r.log = n.log.With("realm", r.name)
	}
	alone := cfg.Store == config.StoreSQLite
	running := func() time.Duration { return time.Since(r.began) }
	r.clients = &client.Authenticator{Realm: r.name, Store: r.store, Directory: n.directory, Now: time.Now, Log: r.log, Slow: n.slow,
		Issuer: cfg.IssuerID(), TokenEndpoint: tokenEndpoints(cfg), Keys: n.keys.Registered, Discovered: n.keys.Discovered, OwnKeys: n.keys.SelfRegistered,
		Shared: !alone, Running: running}
	r.clients.UpstreamSubject = r.upstreamSubject
	r.clients.Described = func(ctx context.Context, id string, from netip.Prefix) (*store.Client, error) {
		return r.documentsOf(cfg).Client(ctx, id, "", from)
	}
	if n.auditLog != nil {
		r.clients.OldSecretUsed = n.auditLog.OldSecretUsed
	}
	r.ends = &issuer.Ends{Store: r.store, Log: r.log, Outage: n.outage, ClockFault: n.directory.ClockFault, Lease: lease.New(lease.Lease{
		Store: r.store, Key: store.KeyOf(store.DocumentDeployment, r.name, "ends leader"), Alone: alone, Monotonic: time.Now, Log: r.log,
	})}
	r.logouts = logout.New(logout.Config{
		Realm: r.name, Store: r.store, Directory: n.directory, Now: time.Now, ClockFault: n.directory.ClockFault, Alone: alone, Metrics: r.metrics, Audit: n.auditLog, Log: r.log, Monotonic: time.Now, Outage: n.outage,
	})
	return r
}

// upstreamSubject maps claims of an issuer to the subject that a login there gets.
func (n *realm) upstreamSubject(issuer string, claims map[string]json.RawMessage) (string, error) {
	p := n.provider.Load()
	if p == nil || p.Issuer() != issuer {
		return "", errors.New("users do not sign in there")
	}
	return p.Subject(claims)
}

// answer builds the handlers of each realm for cfg. It reads the files that cfg names,
// and changes nothing that is in use.
func (n *node) answer(cfg config.Config) (list []*handlers, err error) {
	for i, of := range cfg.Each() {
		a, answerErr := n.realms[i].answer(of, cfg)
		list, err = append(list, a), errors.Join(err, of.Named(answerErr))
	}
	return list, err
}

// answer builds the handlers of the realm for cfg, its configuration. All is the
// configuration of the deployment: restores and withdrawals of keys concern all realms.
func (n *realm) answer(cfg, all config.Config) (*handlers, error) {
	iss := NewIssuer(cfg, n.store, n.directory, n.feed, n.log)
	iss.Devices = &n.devices
	front, err := n.newFront(cfg, iss)
	if err != nil {
		return nil, err
	}
	if front != nil {
		front.Authorizer.Ended = endLogouts(n.name, n.directory)
		front.Authorizer.Notified = func(ctx context.Context, e login.End) { n.logouts.Await(ctx, e.SessionEnd, e.At) }
	}
	access, err := adminAccess(cfg)
	if err != nil {
		return nil, err
	}
	var logins *login.Authorizer
	if cfg.Login.Mode == config.LoginHandoff {
		logins = front.Authorizer
	}
	cases := n.useCases(cfg)
	cases.Policy.RefreshLifetime, cases.Policies = all.LongestRefresh(), deployment.Policies(all)
	adminAPI := admin.NewAPI(cases, iss, logins, access, n.log)
	adminAPI.Audit, adminAPI.Probes, adminAPI.Service = n.auditLog, &n.probes, cfg.ServiceName()
	adminAPI.Outage, adminAPI.Version, adminAPI.ConsoleURL = n.outage, n.version, cfg.ConsoleURL()
	adminAPI.Realm = adminapi.Realm{Name: strings.TrimPrefix(cfg.Realm, "/"), Issuer: cfg.IssuerID(), Login: cfg.Login.Mode}
	srv := server.New(n.directory, server.Options{
		Site:            server.Site{PublicURL: cfg.PublicURL, BasePath: cfg.BasePath, Realm: n.name, Issuer: cfg.IssuerID()},
		Proxies:         server.Proxies{TrustedProxies: cfg.TrustedProxies, PlainHTTP: cfg.TLS.Cert == ""},
		BasicAuthStatus: cfg.Errors.BasicAuthStatus, CORSOrigins: cfg.CORS.Origins,
		Clients: n.clients, Proofs: n.proofs(cfg), Queue: n.queue, Throttle: n.throttle, Outage: n.outage, Probes: &n.probes, Watches: &n.watches, Audit: n.auditLog, Metrics: n.metrics, Tracer: n.tracer,
	}, n.node.log) // the lines of requests name their realm
	registrations, err := registrationsOf(cfg, n.directory)
	if err != nil {
		return nil, err
	}
	tokens := &token.Endpoints{
		Issuer: iss, Assertions: n.clients, Registrations: registrations, QueryParameters: cfg.Compat.QueryParameters, InvalidRequestForDeadRefresh: cfg.Compat.InvalidRequestForDeadRefresh,
	}
	adminAPI.Assertions = n.clients
	adminAPI.AuditDirectory, adminAPI.Traffic, adminAPI.Checkup = cfg.AuditDirectory(), n.trafficOf, n.checkup
	adminAPI.Watch, adminAPI.Settings = n.watchClient, n.settings
	adminAPI.Explain = func(ctx context.Context, in adminapi.ExplainRequest, realms []string) (any, error) {
		return n.explain(ctx, cfg, iss, tokens, in, realms)
	}
	if front != nil {
		tokens.DevicePage = cfg.PublicURL + cfg.BasePath + web.DevicePath
	}
	resources := &resource.Endpoints{Server: srv, Issuer: iss, Directory: n.directory, ScopesSupported: cfg.ScopesSupported, TokenInfoQuery: cfg.Compat.TokenInfoQuery}
	a := &handlers{issuer: iss, directory: n.directory, front: front, server: srv, admin: adminAPI, documents: n.documentsOf(cfg), registrations: registrations}
	if front != nil {
		front.EndAll, adminAPI.Pages = n.endAll(cases), front.Pages
		resources.Claims, iss.Claims = front.Claims, front.Claims
		iss.SessionLives = front.Authorizer.Sessions.Lives
		if front.Users != nil {
			iss.Users = front.Users.Standing
		}
		front.Authorizer.SelfRegistered = a.selfRegistered
		front.Documents = len(a.documents.Admitted) > 0
		tokens.Push, tokens.PushedLifetime, tokens.RequirePAR = pusher(front.Authorizer), login.PushedLifetime, cfg.Authorization.RequirePAR
	}
	routes := slices.Concat(tokens.Routes(), resources.Routes())
	if front != nil {
		routes = append(routes, front.Routes(srv)...)
		if pages := n.demoPages(cfg, iss, tokens); pages != nil {
			routes = append(routes, pages.Routes(srv)...)
		}
	}
	srv.Mount(routes...)
	return a, nil
}

// proofs returns the rules for DPoP proofs under cfg. A nonce is an HMAC tag of the realm
// and the minute, which every node can compute. On SQLite, it is also a tag of the node's
// start: the memory of the proofs that were used does not outlive the process.
func (n *realm) proofs(cfg config.Config) server.Proofs {
	p := server.Proofs{Seen: &n.seen, OfAll: cfg.Authorization.DPoPNonce == config.DPoPNonceAll, Now: time.Now}
	if cfg.Authorization.DPoPNonce == config.DPoPNonceOff {
		return p
	}
	start := binary.BigEndian.AppendUint64(nil, uint64(n.began.UnixNano()))
	if n.embedded == nil {
		p.Shared, start = n.store, nil
	}
	p.Nonces = func(minute int64) []byte {
		return n.directory.Latest().Ring.Tag("nonce of a proof", []byte(n.name), append(binary.BigEndian.AppendUint64(nil, uint64(minute)), start...))
	}
	return p
}

// NewIssuer returns the issuer of a configuration. If feed is nil, the issuer has its own.
func NewIssuer(cfg config.Config, st store.Store, directory *directory.Directory, feed *issuer.Feed, log *slog.Logger) *issuer.Issuer {
	return issuer.New(issuer.Issuer{
		Realm: cfg.Realm, ID: cfg.IssuerID(), Store: st, Directory: directory,
		Policy:            policyOf(cfg),
		RetryWindowPublic: cfg.RetryWindowPublic.Std(), OwnReuseGrace: cfg.ClientMetadata.ReuseGrace.Std(), CodeLifetime: cfg.CodeLifetime.Std(),
		IDTokenLifetime: cfg.IDTokens(), HintAge: cfg.Session.Lifetime.Std() + cfg.RefreshTokenLifetime.Std(),
		RevocationsMaxAge: cfg.RevocationsMaxAge.Std(),
		Now:               time.Now, Monotonic: time.Now, Log: log, Feed: feed,
	})
}

// use puts the handlers of list into use: they serve every further request. Running
// requests finish with the handlers that they began with.
func (n *node) use(cfg config.Config, list []*handlers) {
	n.cfg = cfg
	n.checkups.use(cfg)
	admits := map[string]func(id string) bool{}
	var servers []*server.Server
	var admins []*admin.API
	for i, a := range list {
		r := n.realms[i]
		r.current = a
		if r.provider.Store(nil); a.front != nil {
			r.provider.Store(a.front.Upstream)
		}
		r.devices.SetLimit(cfg.Throttle.DeviceCodes)
		r.ends.Use(a.issuer)
		r.logouts.Use(a.issuer)
		admits[r.name] = a.admits
		servers, admins = append(servers, a.server), append(admins, a.admin)
	}
	deployment.SetLevel(n.level, cfg.Log)
	n.throttle.SetLimits(throttleLimits(cfg))
	n.guard.SetFailures(cfg.Throttle.LoginFailures)
	n.queue.SetCapacity(capacity(cfg))
	n.boundConnections(cfg)
	n.directory.AdmitSelfRegistered(func(realm, id string) bool { return admits[realm] != nil && admits[realm](id) })
	n.public.swap(server.Realms(servers))
	api := admin.Realms(admins)
	n.admin.swap(api)
	n.console.swap(n.consoleHandler(cfg, list[0], api))
}

// tokenEndpoints lists the addresses that clients use as the audience of assertions beside
// the issuer: the token endpoint in the metadata, that in the service's specification, and
// the endpoint of pushed requests (RFC 9126 section 2).
func tokenEndpoints(cfg config.Config) []string {
	site := server.Site{PublicURL: cfg.PublicURL, BasePath: cfg.BasePath, Realm: cfg.Realm}
	return []string{site.Endpoint("access_token"), site.PublicURL + site.BasePath + "/oauth2/access_token?realm=" + site.Realm, site.Endpoint("par")}
}
