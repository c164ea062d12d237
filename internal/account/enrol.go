package account

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// ErrHasFactor says that a user who enrols a second factor has one already.
var ErrHasFactor = errors.New("the user has a second factor")

// Present returns an enabled user by name, or ErrWrong.
func (u *Users) Present(ctx context.Context, username string) (Account, error) {
	user, ok, err := u.find(ctx, bounded(username))
	switch {
	case err != nil:
		return Account{}, err
	case !ok || user.State != Enabled:
		return Account{}, ErrWrong
	}
	return user.account(u.now()), nil
}

// NewFactor returns a new secret for a user's second factor, sealed. The factor takes
// effect once ConfirmFactor has checked a code of it.
func (u *Users) NewFactor(username string) (sealed []byte, err error) {
	ring, err := u.Ring()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	secret := make([]byte, totpSecret)
	rand.Read(secret)
	return ring.SealBox(User{Username: bounded(username)}.boxLabel(), secret, u.now()), nil
}

// ShowFactor returns a sealed secret as text to type into an app, and as the URI to show
// as a QR code. issuer is the name of the service, which the app shows.
func (u *Users) ShowFactor(username, issuer string, sealed []byte) (text, uri string, err error) {
	ring, err := u.Ring()
	if err != nil {
		return "", "", store.Unavailable(err)
	}
	user := User{Username: bounded(username)}
	secret, err := ring.OpenBox(user.boxLabel(), sealed)
	if err != nil {
		return "", "", err
	}
	return TOTPText(secret), user.TOTPURI(issuer, secret), nil
}

// ConfirmFactor checks a code of a new second factor, and sets the factor of a user who
// has none. It ends the user's sessions, which began without the factor, and commits the
// change that with returns in the same transaction. Its errors are those of SecondFactor,
// and ErrHasFactor.
func (u *Users) ConfirmFactor(ctx context.Context, username string, sealed []byte, code string, v Visitor, with func(User, grant.Instant) store.Change) (Account, error) {
	now, name := u.now(), bounded(username)
	ring, err := u.Ring()
	if err != nil {
		return Account{}, store.Unavailable(err)
	}
	giveBack, err := u.codes.take(keyOf(u.Realm, name), v.Address, nil, now)
	if err != nil {
		return Account{}, err
	}
	user, ok, err := u.find(ctx, name)
	switch {
	case err != nil:
		giveBack()
		return Account{}, err
	case !ok || user.State != Enabled:
		return Account{}, ErrWrong
	case user.TOTP != nil:
		return Account{}, ErrHasFactor
	}
	secret, err := ring.OpenBox(user.boxLabel(), sealed)
	if err != nil {
		return Account{}, err
	}
	step, ok := stepOf(secret, plainCode(code), now, 0)
	if !ok {
		return Account{}, ErrWrong
	}
	giveBack()
	user = user.withFactor(sealed, step, now)
	if err := Put(ctx, u.Store, user, with(user, now)); err != nil {
		return Account{}, store.Unavailable(err)
	}
	return user.account(now), nil
}
