package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Password checks wait for one another, so that logins cannot take the machine
// from the clients. Strangers leave places for browsers that are known, and one
// network leaves places for the others.
const (
	hashersWaiting = 31
	hashersSpared  = 8 // for known browsers
)

// Users checks who the built-in users are. Its fields are set before first use
// and do not change; its methods are safe for concurrent use.
type Users struct {
	Realm string
	Store store.Store
	Ring  func() (*keys.Ring, error)
	Now   func() time.Time
	Log   *slog.Logger
	// Failures is how often one network may fail at one account before it has
	// to wait; the other limits go by it. Zero means 5.
	Failures int

	dummy     string // what an unknown user's password is compared with
	pool      *keys.SlowPool
	match     func(ctx context.Context, phc string, spellings []oauth.Secret, shares ...keys.Share) (int, error)
	passwords *throttle
	codes     *throttle
}

// New completes Users.
func New(u Users) *Users {
	if u.Failures <= 0 {
		u.Failures = 5
	}
	// Half of the machine, at most, hashes passwords.
	u.pool = keys.NewSlowPool(max(1, runtime.GOMAXPROCS(0)/2), hashersWaiting)
	u.match = u.pool.Match
	u.dummy = keys.DummySlow()
	u.passwords = newThrottle(passwordLimits(u.Failures))
	u.codes = newThrottle(codeLimits(u.Failures))
	return &u
}

// Inherit has u, which is not in use yet, take the place of old: failures that
// old has counted go on counting, by the Failures of u, and both together check
// no more passwords at once than one.
func (u *Users) Inherit(old *Users) {
	u.pool, u.match, u.dummy, u.passwords, u.codes = old.pool, old.match, old.dummy, old.passwords, old.codes
	u.passwords.limit(passwordLimits(u.Failures))
	u.codes.limit(codeLimits(u.Failures))
}

// A Visitor is where an attempt comes from.
type Visitor struct {
	// Address is where it comes from; the zero address if strangers cannot be
	// told apart by theirs.
	Address netip.Addr
	// Known is the content of the cookie that KnownBrowser made for this
	// browser; nil if it has none.
	Known []byte
}

// An Account is a user who has proven to be one.
type Account struct {
	Username string
	Name     string // what people call the user; the username if nothing else
	Subject  string // what tokens call the user
	// SecondFactor says that the user has one. After Password, it is still to
	// be asked for.
	SecondFactor bool
	At           grant.Instant // when the user was authenticated
	// Epoch is that of the record that was read: a change of the password
	// meanwhile ends the session.
	Epoch int64
}

// ErrWrong is the one error for a user who does not exist or is disabled, a
// wrong password or code, and a session that has ended.
var ErrWrong = errors.New("wrong username, password or code")

// ErrUnavailable wraps every fault that passes. Nothing was counted.
var ErrUnavailable = errors.New("temporarily unavailable")

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

func (u *Users) now() grant.Instant { return grant.At(u.Now()) }

// Password checks a username and password. It returns ErrWrong, after the same
// work, whatever is wrong with them, and with it, for the record alone, the
// Subject of a user whom there is; *Throttled, after none; or an error that
// wraps ErrUnavailable.
func (u *Users) Password(ctx context.Context, username, password string, v Visitor) (Account, error) {
	now := u.now()
	name := bounded(username)
	nonce, err := u.nonce(name, v.Known)
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
		return Account{}, unavailable(err)
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

// SecondFactor checks the one-time code of a user whose password was right. A
// code is good once. The errors are those of Password, the Subject too.
func (u *Users) SecondFactor(ctx context.Context, username, code string, v Visitor) (Account, error) {
	now := u.now()
	name := bounded(username)
	nonce, err := u.nonce(name, v.Known)
	if err != nil {
		return Account{}, err
	}
	ring, err := u.Ring()
	if err != nil {
		return Account{}, unavailable(err)
	}
	giveBack, err := u.codes.take(keyOf(u.Realm, name), v.Address, nonce, now)
	if err != nil {
		return Account{}, err
	}
	a, err := u.spend(ctx, ring, name, plainCode(code), now)
	switch {
	case err == nil || !errors.Is(err, ErrWrong):
		giveBack()
	default:
		// Somebody has the password, and perhaps nothing else.
		u.Log.Warn("wrong one-time code after the right password", "username", name, "address", v.Address)
	}
	return a, err
}

// spend records that the code was used. If somebody else changes the user at
// this moment, it looks again: perhaps it was this very code.
func (u *Users) spend(ctx context.Context, ring *keys.Ring, name, code string, now grant.Instant) (Account, error) {
	const tries = 3
	for range tries {
		user, ok, err := u.find(ctx, name)
		if err != nil {
			return Account{}, err
		}
		if !ok || user.State != Enabled || user.TOTP == nil {
			return Account{Subject: user.Subject}, ErrWrong
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
		err = Put(ctx, u.Store, user, nil)
		if err == nil {
			return user.account(now), nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return Account{}, unavailable(err)
		}
	}
	return Account{}, unavailable(store.ErrConflict)
}

// Alive is nil if the session of a user, which began in an epoch, lives on. It
// returns ErrWrong if the user is gone or disabled, or if sessions were ended
// since.
func (u *Users) Alive(ctx context.Context, username string, epoch int64) error {
	user, ok, err := u.find(ctx, bounded(username))
	if err != nil {
		return err
	}
	if !ok || user.State != Enabled || epoch != user.Epoch {
		return ErrWrong
	}
	return nil
}

func (u *Users) find(ctx context.Context, name string) (user User, ok bool, err error) {
	d, err := u.Store.Document(ctx, keyOf(u.Realm, name))
	if errors.Is(err, store.ErrNotFound) {
		return User{}, false, nil
	}
	if err != nil {
		return User{}, false, unavailable(err)
	}
	user, err = read(d)
	return user, err == nil, err
}

func (u User) account(at grant.Instant) Account {
	a := Account{Username: u.Username, Name: u.Name, Subject: u.Subject, SecondFactor: u.TOTP != nil, At: at, Epoch: u.Epoch}
	if a.Name == "" {
		a.Name = u.Username
	}
	return a
}

// bounded is a username as it is looked up. One that is too long is nobody's.
func bounded(username string) string {
	if name := Fold(username); len(name) <= MaxUsername {
		return name
	}
	return ""
}

const (
	knownLabel = "known browser"
	nonceSize  = 16
)

// KnownBrowser is what a browser keeps after a user has logged in there. With
// it, others' failures at the account do not throttle this browser. It lets
// nobody in.
func (u *Users) KnownBrowser(username string) ([]byte, error) {
	ring, err := u.Ring()
	if err != nil {
		return nil, unavailable(err)
	}
	cookie := make([]byte, nonceSize, nonceSize+keys.MarkSize)
	rand.Read(cookie)
	return append(cookie, u.mark(ring, bounded(username), cookie)...), nil
}

// nonce is that of a cookie which KnownBrowser made for this user, or nil.
func (u *Users) nonce(name string, cookie []byte) ([]byte, error) {
	if len(cookie) != nonceSize+keys.MarkSize {
		return nil, nil
	}
	ring, err := u.Ring()
	if err != nil {
		return nil, unavailable(err)
	}
	nonce := cookie[:nonceSize]
	if subtle.ConstantTimeCompare(u.mark(ring, name, nonce), cookie[nonceSize:]) != 1 {
		return nil, nil
	}
	return nonce, nil
}

func (u *Users) mark(ring *keys.Ring, name string, nonce []byte) []byte {
	return ring.Mark(knownLabel, []byte(u.Realm), []byte(name), nonce)
}
