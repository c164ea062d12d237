package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// ViewUser returns the view of a user.
func ViewUser(u account.User) adminapi.User {
	return adminapi.User{
		Username: u.Username, Name: u.Name, Subject: u.Subject, Claims: u.Claims, State: string(u.State), SecondFactor: u.TOTP != nil,
		SessionsEnded: show.JSONInstant(u.SessionsEnd), CreatedAt: show.JSONInstant(u.CreatedAt), UpdatedAt: show.JSONInstant(u.UpdatedAt),
	}
}

// UserETag identifies what an operator can change of a user. It does not use the version
// of the document, which each login with a one-time code changes. The epoch covers the
// password and the second factor: a new one begins another epoch.
func UserETag(u account.User) string {
	return etagOf(fmt.Appendf(nil, "%q %q %q %q %s %d %t", u.Username, u.Name, u.Subject, u.Claims, u.State, u.Epoch, u.TOTP != nil))
}

// Create creates a user and returns it with its password, if one had to be
// generated.
func (a Users) Create(ctx context.Context, r account.Registration) (u account.User, generated string, err error) {
	if r.Password == "" && r.PasswordHash == "" {
		generated = account.GeneratePassword()
		r.Password = generated
	}
	r.Realm = a.Realm
	now := a.now()
	if u, err = account.NewUser(r, now); err != nil {
		return u, "", err
	}
	if err := a.isNoClient(ctx, u.Subject); err != nil {
		return u, "", err
	}
	err = account.Create(ctx, a.Store, u, a.userEvent(now, store.EventUserCreated, u, ""))
	if errors.Is(err, account.ErrTaken) {
		err = cmp.Or(a.isNoClient(ctx, u.Subject), error(&Error{Taken, "user", u.Username, fmt.Sprintf("there is a user %q already", u.Username)}))
	}
	return u, generated, err
}

// isNoClient returns an error if a subject is the id of a client, also of a deleted one.
func (a Users) isNoClient(ctx context.Context, subject string) error {
	_, err := a.Store.Client(ctx, subject)
	switch {
	case err == nil:
		return &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("%q is the id of a client: its own tokens would seem to be the user's", subject)}
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return err
}

// An ImportError is what is wrong with one user of a list.
type ImportError struct {
	Index int // in the list
	Err   error
}

func (e *ImportError) Error() string { return e.Err.Error() }
func (e *ImportError) Unwrap() error { return e.Err }

// Import creates the users of a list whose usernames are free, in one commit,
// and returns how many those are. It leaves users that exist as they are, so that it
// can be repeated. A user without a hash cannot log in until a password is set.
func (a Users) Import(ctx context.Context, list []account.Registration) (created int, err error) {
	now := a.now()
	users := make([]account.User, len(list))
	for i, r := range list {
		if r.Realm = a.Realm; r.PasswordHash == "" {
			r.PasswordHash = keys.UnmatchableHash()
		}
		if users[i], err = account.NewUser(r, now); err != nil {
			return 0, &ImportError{i, err}
		}
	}
	done, err := account.CreateAll(ctx, a.Store, a.Realm, users, a.DryRun, func(u account.User) (store.Event, error) {
		if err := a.isNoClient(ctx, u.Subject); err != nil {
			i := slices.IndexFunc(users, func(other account.User) bool { return other.Username == u.Username })
			return store.Event{}, &ImportError{i, err}
		}
		return a.userEvent(now, store.EventUserCreated, u, "imported"), nil
	})
	return len(done), err
}

// Read returns a user.
func (a Users) Read(ctx context.Context, username string) (account.User, error) {
	u, err := account.Find(ctx, a.Store, a.Realm, username)
	if errors.Is(err, store.ErrNotFound) {
		err = &Error{NotFound, "user", username, fmt.Sprintf("there is no user %q", username)}
	}
	return u, err
}

// Update changes the display name of a user, unless name is nil, and the claims that the
// patch names; a null value removes a claim (claims.Merge). It can be repeated.
func (a Users) Update(ctx context.Context, username, etag string, name *string, patch claims.Claims) (account.User, error) {
	return a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		next, err := u.SetProfile(name, patch, now)
		var changed []string
		if next.Name != u.Name {
			changed = append(changed, "name")
		}
		for _, claim := range claims.Names() {
			if !bytes.Equal(next.Claims[claim], u.Claims[claim]) {
				changed = append(changed, claim)
			}
		}
		return next, changeRecord{name: store.EventUserChanged, detail: strings.Join(changed, ", "), none: len(changed) == 0}, err
	})
}

// List returns users sorted by username, and whether more follow.
func (a Users) List(ctx context.Context, p adminapi.Page) ([]account.User, bool, error) {
	if err := p.Check(adminapi.UserStates...); err != nil {
		return nil, false, err
	}
	list, err := a.UserCache.List(ctx, a.Store, a.Realm)
	if err != nil {
		return nil, false, err
	}
	return pick(p, after(p, list, func(u account.User) string { return u.Username }), func(u account.User) bool {
		return matchesPage(p, u.Username, u.Name, u.Subject) && (p.State == "" || p.State == string(u.State))
	})
}

// Disable locks a user out and ends everything that the user has granted, unless it is the
// last admin of the console. It can be repeated.
func (a Users) Disable(ctx context.Context, username, etag string) (account.User, error) {
	return a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		held, err := a.Console().keepsAdmin(ctx, u)
		return u.Disable(now), changeRecord{name: store.EventUserDisabled, detail: "grants ended", cutoffs: []store.Cutoff{u.Cutoff(a.cutoffAt())}, held: held}, err
	})
}

// Enable lets a disabled user log in again.
func (a Users) Enable(ctx context.Context, username, etag string) (account.User, error) {
	return a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		return u.Enable(now), changeRecord{name: store.EventUserEnabled, none: u.State == account.Enabled}, nil
	})
}

// SetPassword gives a user another password, "" for a generated one, which is
// returned. It ends the user's sessions and, if endGrants is set, everything
// that the user has granted.
func (a Users) SetPassword(ctx context.Context, username, etag, password string, endGrants bool) (u account.User, generated string, err error) {
	if password == "" {
		generated = account.GeneratePassword()
		password = generated
	}
	u, err = a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		next, err := u.SetPassword(password, now)
		how := changeRecord{name: store.EventPasswordChanged, detail: "sessions ended"}
		if endGrants {
			how.detail, how.cutoffs = "sessions and grants ended", []store.Cutoff{u.Cutoff(a.cutoffAt())}
		}
		return next, how, err
	})
	return u, generated, err
}

// SetTOTP gives a user a new second factor and returns its secret.
func (a Users) SetTOTP(ctx context.Context, username, etag string) (u account.User, secret []byte, err error) {
	if _, err := a.Read(ctx, username); err != nil {
		return u, nil, err
	}
	ring, err := a.Ring(ctx)
	if err != nil {
		return u, nil, err
	}
	u, err = a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		u, secret = u.SetTOTP(ring, now)
		return u, changeRecord{name: store.EventTOTPSet}, nil
	})
	return u, secret, err
}

// Enrolled returns the change that is committed when a user enrols a second factor: the
// end of all earlier sessions, and an event.
func (a Users) Enrolled(u account.User, at grant.Instant) store.Change {
	return store.Change{
		Documents: []store.Document{a.Grants().endOfAll(u.Subject, at)},
		Events:    []store.Event{a.userEvent(at, store.EventTOTPSet, u, "enrolled with an invitation")},
	}
}

// RemoveTOTP takes a user's second factor away.
func (a Users) RemoveTOTP(ctx context.Context, username, etag string) (account.User, error) {
	return a.change(ctx, username, etag, func(u account.User, now grant.Instant) (account.User, changeRecord, error) {
		return u.RemoveTOTP(now), changeRecord{name: store.EventTOTPRemoved, none: u.TOTP == nil}, nil
	})
}

// change reads a user, changes it and writes it back. With an ETag, the user must not have
// changed since the ETag was made.
func (a Users) change(ctx context.Context, username, etag string, apply func(u account.User, now grant.Instant) (account.User, changeRecord, error)) (account.User, error) {
	u, err := a.Read(ctx, username)
	if err != nil {
		return u, err
	}
	if !matches(etag, UserETag(u)) {
		return u, changed("user", username)
	}
	now := a.now()
	next, how, err := apply(u, now)
	switch {
	case err != nil:
		return next, err
	case how.none:
		return u, nil
	}
	change := store.Change{Cutoffs: how.cutoffs, Documents: how.held, Events: []store.Event{a.userEvent(now, how.name, next, how.detail)}}
	if next.Epoch != u.Epoch { // its sessions end
		ended := now
		for _, cut := range how.cutoffs {
			ended = cut.At
		}
		change.Documents = append(change.Documents, a.Grants().endOfAll(next.Subject, ended))
	}
	err = account.Put(ctx, a.Store, next, change)
	if errors.Is(err, store.ErrConflict) {
		return next, changed("user", username)
	}
	if len(how.cutoffs) > 0 { // the directory does not hold users
		err = a.announce(ctx, err)
	}
	return next, err
}

// userEvent records a change of a user as an event about the subject.
func (a Users) userEvent(at grant.Instant, name store.EventName, u account.User, detail string) store.Event {
	text := fmt.Sprintf("user %q", u.Username)
	if detail != "" {
		text += ": " + detail
	}
	return a.event(at, name, store.AboutSubject(u.Subject), text)
}
