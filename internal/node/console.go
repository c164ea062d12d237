package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// consoleHandler returns the handler of the console's listener. Operators are users of the
// default realm.
func (n *node) consoleHandler(cfg config.Config, a *handlers, api http.Handler) http.Handler {
	c := &console.Console{
		URL: cfg.ConsoleURL(), Service: cfg.ServiceName(), Dev: n.dev, API: api, Store: n.store, Now: time.Now, Log: n.log, Audit: n.auditLog, LoginSystem: elsewhere(cfg),
	}
	if a.front != nil {
		c.Users = a.front.Users
	}
	all := n.realms[0].useCases(cfg)
	c.Enrolled = func(by admin.Actor, u account.User, at grant.Instant) store.Change {
		of := all
		of.Actor = by
		return of.Users().Enrolled(u, at)
	}
	return c.Handler()
}

// elsewhere returns where operators sign in if users are not built in, or nil if they get
// in by invitation alone.
func elsewhere(cfg config.Config) *console.LoginSystem {
	if !cfg.ByLogin() {
		return nil
	}
	e := &console.LoginSystem{URL: cfg.PublicURL + cfg.BasePath + web.ConsolePath, At: cfg.Login.HandoffURL, ACR: cfg.Console.SecondFactor.ACR, AMR: cfg.Console.SecondFactor.AMR, Rules: cfg.Console.Rules()}
	if cfg.Login.Mode == config.LoginUpstream {
		e.At = cfg.Login.Upstream.Issuer
	}
	return e
}

// loginOfConsole returns the part of the default realm's login that signs operators in, or
// nil if it signs none in.
func loginOfConsole(cfg config.Config) *login.Console {
	e := elsewhere(cfg)
	if e == nil || cfg.Realm != oauth.DefaultRealm {
		return nil
	}
	return &login.Console{URL: cfg.ConsoleURL(), ACRValues: strings.Join(e.ACR, " "), Claims: e.Claims(), Admit: func(challenge string, who login.Identity) (store.Document, string, error) {
		t := operator.Ticket{Challenge: challenge, Subject: who.Subject, ACR: who.Login.Class(), AMR: who.Login.Methods()}
		return e.Ticket(cfg.ConsoleURL(), t, grant.At(time.Now()), who.Standard, who.Claims, who.Said)
	}}
}

// devConsole returns the address of the --dev console: two ports above the public listener,
// so that each reading of the configuration gives the same.
func devConsole(public *net.TCPAddr) string {
	port := public.Port + 2
	if port > 65535 {
		port = public.Port - 2
	}
	return net.JoinHostPort(public.IP.String(), strconv.Itoa(port))
}

// devOperator is the name of the operator of --dev.
const devOperator = "dev"

// inviteDev makes the operator of --dev, unless there is one, and an invitation.
func inviteDev(ctx context.Context, cfg config.Config, st store.Store) (link string, err error) {
	now := grant.At(time.Now())
	err = operator.Add(ctx, st, operator.Operator{Name: devOperator, Role: operator.Admin, CreatedBy: devActor, CreatedAt: now})
	if err != nil && !errors.Is(err, operator.ErrTaken) {
		return "", err
	}
	text, _, err := operator.Invite(ctx, st, devOperator, devActor, now)
	if err != nil {
		return "", err
	}
	return cfg.ConsoleURL() + "/invitation/" + text, nil
}

// devInvitation describes how to open the console.
func devInvitation(step int, link, self, data string) string {
	if link == "" {
		return ""
	}
	return fmt.Sprintf(`%d. Open the console, as the operator dev. The link works once, for 10 minutes; %s console invite dev --data %s makes another:

%s

`, step, self, data, link)
}
