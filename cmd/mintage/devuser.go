package main

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// devUsername is the demo user.
const devUsername = "demo"

// makeDevUser makes the demo user, unless dev.json names one that is there or
// others know the users.
func makeDevUser(ctx context.Context, cfg config.Config, st store.Store, info *devInfo) error {
	if cfg.Login.Mode != config.LoginUsers {
		info.Username, info.Password, info.SignIn = "", "", ""
		return nil
	}
	_, err := account.Find(ctx, st, realm, devUsername)
	switch {
	case errors.Is(err, store.ErrNotFound):
		now := grant.At(time.Now())
		password := account.GeneratePassword()
		user, err := account.NewUser(account.Registration{Realm: realm, Username: devUsername, Name: "Demo user of --dev", Password: password}, now)
		if err != nil {
			return err
		}
		event := store.Event{At: now, Name: store.EventUserCreated, About: store.AboutSubject(user.Subject), Actor: devActor, Detail: user.Username}
		if err := account.Create(ctx, st, user, event); err != nil {
			return err
		}
		info.Username, info.Password = devUsername, password
		// The hash took as much memory as the server has, by which the
		// collector would set its pace.
		runtime.GC()
	case err != nil:
		return err
	}
	info.SignIn = cfg.PublicURL + cfg.BasePath + "/oauth2/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {info.ClientID}, "redirect_uri": {devCallback}, "state": {"demo"},
	}.Encode()
	return nil
}
