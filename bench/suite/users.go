package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// The example of RFC 7636 appendix B.
const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

// request returns the query of the authorization request to which the users have
// consented.
func (d *dataset) request() string {
	return url.Values{
		"response_type": {"code"}, "client_id": {d.clientID}, "redirect_uri": {callback}, "scope": {scope}, "state": {"af0ifjsldkj"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}.Encode()
}

// signIn creates n users, each with a browser that is signed in, who consent to the
// client's request. It calls the use cases directly, beside the server that runs on the
// store.
func (d *dataset) signIn(ctx context.Context, n int) (err error) {
	st, err := sqlite.Open(ctx, d.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	log := slog.New(slog.DiscardHandler)
	directory, err := directory.Open(ctx, st, d.kek, keys.Schedule{}, log, time.Now)
	if err != nil {
		return err
	}
	front := login.New(issuer.New(issuer.Issuer{
		Realm: realm, ID: "https://benchmark.example", Store: st, Directory: directory, CodeLifetime: time.Minute, Now: time.Now, Log: log,
	}), login.Documents{Realm: realm, Store: st, Directory: directory, Now: time.Now})
	front.Interactions.Lifetime, front.Sessions.Lifetime, front.Idle = time.Minute, time.Hour, time.Hour
	front.Alive = func(context.Context, string, int64) (bool, error) { return true, nil }
	d.sessions = make([]string, n)
	failed := make([]error, 64)
	var wg sync.WaitGroup
	for worker := range failed {
		wg.Go(func() {
			for i := worker; i < n && failed[worker] == nil; i += len(failed) {
				d.sessions[i], failed[worker] = d.signInOne(ctx, st, front, fmt.Sprintf("user-%08d-of-this-benchmark-%08d", i, i))
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

func (d *dataset) signInOne(ctx context.Context, st store.Store, front *login.Authorizer, name string) (session string, err error) {
	now := grant.At(time.Now())
	user := account.User{Realm: realm, Username: name, Subject: name, State: account.Enabled, CreatedAt: now, UpdatedAt: now, Version: 1}
	if err := account.Put(ctx, st, user, store.Change{}); err != nil {
		return "", err
	}
	v := login.Visitor{Browser: login.NewBrowser()}
	request := oauth.AuthorizationRequest{ClientID: d.clientID, RedirectURI: callback, Scope: scope, Challenge: challenge}
	stage, err := front.Authorize(ctx, request, v)
	if err != nil {
		return "", err
	}
	if v.Session, err = front.SignIn(ctx, stage.Interaction, login.Identity{Subject: name, Username: name}, v); err != nil {
		return "", err
	}
	_, err = front.Answer(ctx, v, login.Answer{
		Interaction: stage.Interaction.ID, From: login.FromForm, Form: login.Form{Step: login.StepConsent, Decision: "allow", Remember: true},
	})
	return v.Session, err
}
