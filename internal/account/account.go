package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Limits of concurrent password checks, so that logins leave processor time to
// token requests. Unknown browsers leave slots to known ones, and one network
// leaves slots to others.
const (
	hashersWaiting = 31
	hashersSpared  = 8 // reserved for known browsers
)

// Users authenticates built-in users. Its fields are set before first use and do
// not change; its methods are safe for concurrent use.
type Users struct {
	Realm string
	Store store.Store
	Ring  func() (*keys.Ring, error)
	Now   func() time.Time
	Log   *slog.Logger
	// Guard is shared by Users that replace one another. Nil: New makes one.
	*Guard
}

// A Guard limits how many passwords are checked at once, and counts failures of
// logins. It is safe for concurrent use.
type Guard struct {
	dummy     string // hash to compare with for an unknown user
	pool      *keys.SlowPool
	match     func(ctx context.Context, phc string, spellings []oauth.Secret, shares ...keys.Share) (int, error)
	passwords *throttle
	codes     *throttle
}

// DefaultFailures is how many failures one network may have at one account before it must
// wait.
const DefaultFailures = 5

// NewGuard makes a Guard with limits that derive from failures: how often one network may
// fail at one account before it must wait.
func NewGuard(failures int) *Guard {
	// Use at most half of the processors to hash passwords.
	pool := keys.NewSlowPool(max(1, runtime.GOMAXPROCS(0)/2), hashersWaiting)
	return &Guard{
		dummy: keys.UnmatchableHash(), pool: pool, match: pool.Match,
		passwords: newThrottle(passwordLimits(failures)), codes: newThrottle(codeLimits(failures)),
	}
}

// SetFailures changes the limits, and keeps the counts.
func (g *Guard) SetFailures(n int) {
	g.passwords.limit(passwordLimits(n))
	g.codes.limit(codeLimits(n))
}

// New returns u, with a new Guard if u has none.
func New(u Users) *Users {
	if u.Guard == nil {
		u.Guard = NewGuard(DefaultFailures)
	}
	return &u
}

// A Visitor is the origin of a login attempt.
type Visitor struct {
	// Address is the address of the caller; zero if callers cannot be distinguished
	// by theirs.
	Address netip.Addr
	// Known is the value of the browser's cookie that KnownBrowser made; nil
	// without one.
	Known []byte
}

// An Account is an authenticated user.
type Account struct {
	Username string
	Name     string // what people call the user; the username if nothing else
	Subject  string // what tokens call the user
	// SecondFactor is set if the user has a second factor, which Password does not check.
	SecondFactor bool
	At           grant.Instant // when the user was authenticated
	// Epoch is the epoch of the record that was read: a later change of the password
	// ends the session.
	Epoch int64
}

// ErrWrong is the only error for an unknown or disabled user, and a wrong password or
// code.
var ErrWrong = errors.New("wrong username, password or code")

// ErrNoFactor is ErrWrong for a code of an enabled user who has no second factor any more.
var ErrNoFactor = fmt.Errorf("no second factor: %w", ErrWrong)

func (u *Users) now() grant.Instant { return grant.At(u.Now()) }

// Password checks a username and password. For any mistake in them it returns
// ErrWrong after the same amount of work, and with it, for the audit log only, the
// Subject of an existing user. It returns *Throttled before any work, or an error
// that wraps store.ErrUnavailable.
func (u *Users) Password(ctx context.Context, username, password string, v Visitor) (Account, error) {
	now := u.now()
	name := bounded(username)
	nonce, err := u.nonce(name, v.Known, knownLabel, knownByCode)
	if err != nil {
		return Account{}, err
	}
	giveBack, err := u.passwords.take(keyOf(u.Realm, name), v.Address, nonce, now)
	if err != nil {
		return Account{}, err
	}
	user, ok, err := u.find(ctx, name)
	if err != nil {
		giveBack()
		return Account{}, err
	}
	hash := user.Password
	if !ok || len(password) > maxPassword {
		hash, password, ok = u.dummy, "", false
	}
	var shares []keys.Share
	if nonce == nil {
		shares = []keys.Share{{Name: "strangers", Most: hashersWaiting + 1 - hashersSpared}}
		if v.Address.IsValid() {
			shares = append(shares, keys.Share{Name: overload.Party(v.Address).String()})
		}
	}
	match, err := u.match(ctx, hash, []oauth.Secret{oauth.Secret(password)}, shares...)
	switch {
	case errors.Is(err, keys.ErrPoolFull) || err != nil && ctx.Err() != nil:
		giveBack()
		return Account{}, &store.ExternalFault{Cause: err}
	case err != nil:
		giveBack()
		return Account{}, fmt.Errorf("the password of %q: %w", name, err)
	case match < 0 || !ok || user.State != Enabled:
		if ok {
			u.Log.Info("wrong password, or a disabled user", "username", name, "address", v.Address)
		}
		return Account{Subject: user.Subject}, ErrWrong
	}
	giveBack()
	return user.account(now), nil
}

// SecondFactor checks the one-time code of a user whose password was correct. A
// code is valid once. Its errors, and the Subject with them, are those of Password.
func (u *Users) SecondFactor(ctx context.Context, username, code string, v Visitor) (Account, error) {
	now := u.now()
	name := bounded(username)
	nonce, err := u.nonce(name, v.Known, knownByCode)
	if err != nil {
		return Account{}, err
	}
	ring, err := u.Ring()
	if err != nil {
		return Account{}, store.Unavailable(err)
	}
	giveBack, err := u.codes.take(keyOf(u.Realm, name), v.Address, nonce, now)
	if err != nil {
		return Account{}, err
	}
	a, err := u.spend(ctx, ring, name, plainCode(code), now)
	if !errors.Is(err, ErrWrong) {
		giveBack()
		return a, err
	}
	// An attacker may have the password: warn, because it should be changed.
	u.Log.Warn("wrong one-time code after the right password", "username", name, "address", v.Address)
	return a, err
}

// spend records that the code was used. If another request changes the user at the
// same time, it reads again: that request may have used this code.
func (u *Users) spend(ctx context.Context, ring *keys.Ring, name, code string, now grant.Instant) (Account, error) {
	const tries = 3
	for range tries {
		user, ok, err := u.find(ctx, name)
		if err != nil {
			return Account{}, err
		}
		switch {
		case !ok || user.State != Enabled:
			return Account{Subject: user.Subject}, ErrWrong
		case user.TOTP == nil:
			return Account{Subject: user.Subject}, ErrNoFactor
		}
		secret, err := ring.OpenBox(user.boxLabel(), user.TOTP)
		if err != nil {
			return Account{}, fmt.Errorf("the second factor of %q: %w", name, err)
		}
		step, ok := stepOf(secret, code, now, user.TOTPStep)
		if !ok {
			return Account{Subject: user.Subject}, ErrWrong
		}
		user = user.next()
		user.TOTPStep = step
		err = Put(ctx, u.Store, user, store.Change{})
		if err == nil {
			return user.account(now), nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return Account{}, store.Unavailable(err)
		}
	}
	return Account{}, store.Unavailable(store.ErrConflict)
}

// Alive reports whether a user's session that began in an epoch is valid. It is invalid if
// the user is deleted or disabled, or if the user's sessions were ended since. Alive uses
// only the store and the realm of u.
func (u *Users) Alive(ctx context.Context, username string, epoch int64) (bool, error) {
	user, ok, err := u.find(ctx, bounded(username))
	return ok && user.State == Enabled && epoch == user.Epoch, err
}

func (u *Users) find(ctx context.Context, name string) (user User, ok bool, err error) {
	d, found, err := store.FindDocument(ctx, u.Store, keyOf(u.Realm, name))
	if err != nil || !found {
		return User{}, false, err
	}
	user, err = read(d)
	return user, err == nil, err
}

// Standing reports whether a user with this subject exists, and whether the user is
// enabled.
func (u *Users) Standing(ctx context.Context, subject string) (known, enabled bool, err error) {
	found, err := u.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Owner: store.OwnerOf(u.Realm, subject), Limit: 1})
	if err != nil || len(found) == 0 {
		return false, false, err
	}
	user, err := read(found[0])
	return true, user.State == Enabled, err
}

// Claims returns the claims that clients may receive about the user with a subject, or
// store.ErrNotFound if there is no such user.
func (u *Users) Claims(ctx context.Context, subject string) (claims.Claims, error) {
	// The subject is the username, unless another one was chosen.
	user, ok, err := u.find(ctx, bounded(subject))
	if err != nil {
		return nil, err
	}
	if ok && user.Subject == subject {
		return user.StandardClaims(), nil
	}
	list, err := u.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Owner: store.OwnerOf(u.Realm, subject), Limit: 1})
	if err != nil {
		return nil, store.Unavailable(err)
	}
	if len(list) == 0 {
		return nil, store.ErrNotFound
	}
	user, err = read(list[0])
	return user.StandardClaims(), err
}

func (u User) account(at grant.Instant) Account {
	return Account{Username: u.Username, Name: cmp.Or(u.Name, u.Username), Subject: u.Subject, SecondFactor: u.TOTP != nil, At: at, Epoch: u.Epoch}
}

// bounded returns a username for a look-up; an overlong one matches no user.
func bounded(username string) string {
	if name := Fold(username); len(name) <= MaxUsername {
		return name
	}
	return ""
}

// A browser becomes known under another label once the user has a second factor. An
// attacker who had only the password may hold many known browsers from before: they must
// not give extra guesses of the second factor.
const (
	knownLabel  = "known browser"
	knownByCode = "known browser of a second factor"
	nonceSize   = 16
)

// KnownFor is how long a browser is known, in seconds.
const KnownFor = 365 * 24 * 60 * 60

// KnownBrowser returns the value of a cookie for a browser in which a user has logged in,
// with a second factor or without. Failures of other browsers at the account do not
// throttle a browser with this cookie. The cookie does not authenticate the user.
func (u *Users) KnownBrowser(username string, secondFactor bool) ([]byte, error) {
	ring, err := u.Ring()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	label := knownLabel
	if secondFactor {
		label = knownByCode
	}
	cookie := make([]byte, nonceSize, nonceSize+keys.TagSize)
	rand.Read(cookie)
	return append(cookie, u.mark(ring, label, bounded(username), cookie)...), nil
}

// nonce returns the nonce of a cookie that KnownBrowser made for this user under one of
// the labels, or nil for any other cookie.
func (u *Users) nonce(name string, cookie []byte, labels ...string) ([]byte, error) {
	if len(cookie) != nonceSize+keys.TagSize {
		return nil, nil
	}
	ring, err := u.Ring()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	nonce := cookie[:nonceSize]
	for _, label := range labels {
		if subtle.ConstantTimeCompare(u.mark(ring, label, name, nonce), cookie[nonceSize:]) == 1 {
			return nonce, nil
		}
	}
	return nil, nil
}

func (u *Users) mark(ring *keys.Ring, label, name string, nonce []byte) []byte {
	return ring.Tag(label, []byte(u.Realm), []byte(name), nonce)
}
