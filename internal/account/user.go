// Package account holds the built-in users: their records, passwords and second
// factors, and the limits of guessing. It does not depend on HTTP or SQL.
package account

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
)

// Bounds of a user's record.
const (
	MaxUsername = 64
	// MaxUsers is the maximum number of users in a realm. Beyond it, a deployment needs a
	// login system of its own.
	MaxUsers = 10_000
)

// A State says whether a user may log in.
type State string

const (
	Enabled  State = "enabled"
	Disabled State = "disabled"
)

// A User is the stored record of a user. Its methods return a changed copy with the
// next version.
type User struct {
	Realm    string `json:"realm"`
	Username string `json:"username"`
	Name     string `json:"name,omitempty"` // what people call the user
	Subject  string `json:"subject"`        // what tokens call the user
	// Claims are the claims that clients may receive about the user, except for the names.
	Claims    claims.Claims `json:"claims,omitempty"`
	ProfileAt grant.Instant `json:"profile_at,omitempty"` // when the name or a claim was last changed
	State     State         `json:"state"`
	Password  string        `json:"password"` // argon2id, PHC text
	// TOTP is the sealed secret of the second factor, or nil.
	TOTP []byte `json:"totp,omitempty"`
	// TOTPStep is the time step of the last code that was used. Its codes, and
	// earlier ones, are no longer valid.
	TOTPStep int64 `json:"totp_step,omitempty"`
	// Epoch is incremented by each change that ends all sessions: a session is valid in the
	// epoch in which it began. An instant in its place would not end the session of a login
	// that runs while the change is written.
	Epoch       int64         `json:"epoch,omitempty"`
	SessionsEnd grant.Instant `json:"sessions_end,omitempty"` // when the epoch began, for people
	CreatedAt   grant.Instant `json:"created_at"`
	UpdatedAt   grant.Instant `json:"updated_at"` // by an administrator
	// Attempt distinguishes writes: without it, two requests that spend the same code
	// would store equal documents, and both would succeed.
	Attempt uint64 `json:"attempt"`
	Version int64  `json:"-"` // of the document

}

// userMembers are the members of a user in the order of the fields, without the claims.
var userMembers = []plain.Member[User]{
	plain.At("realm", func(p *plain.Reader, u *User) { u.Realm = p.Text() }),
	plain.At("username", func(p *plain.Reader, u *User) { u.Username = p.Text() }),
	plain.At("name", func(p *plain.Reader, u *User) { u.Name = p.Text() }),
	plain.At("subject", func(p *plain.Reader, u *User) { u.Subject = p.Text() }),
	plain.At("profile_at", func(p *plain.Reader, u *User) { u.ProfileAt = grant.Instant(p.Number()) }),
	plain.At("state", func(p *plain.Reader, u *User) { u.State = State(p.Text()) }),
	plain.At("password", func(p *plain.Reader, u *User) { u.Password = p.Text() }),
	plain.At("totp", func(p *plain.Reader, u *User) { u.TOTP = p.Bytes() }),
	plain.At("totp_step", func(p *plain.Reader, u *User) { u.TOTPStep = p.Number() }),
	plain.At("epoch", func(p *plain.Reader, u *User) { u.Epoch = p.Number() }),
	plain.At("sessions_end", func(p *plain.Reader, u *User) { u.SessionsEnd = grant.Instant(p.Number()) }),
	plain.At("created_at", func(p *plain.Reader, u *User) { u.CreatedAt = grant.Instant(p.Number()) }),
	plain.At("updated_at", func(p *plain.Reader, u *User) { u.UpdatedAt = grant.Instant(p.Number()) }),
	plain.At("attempt", func(p *plain.Reader, u *User) { u.Attempt = plain.Unsigned[uint64](p) }),
}

// A Registration holds the properties of a new user.
type Registration struct {
	Realm    string
	Username string
	Name     string
	Subject  string // "": the username
	Claims   claims.Claims
	Password string
	// PasswordHash is a hash made by another system, argon2id in PHC text, instead of
	// Password.
	PasswordHash string
}

// NewUser makes an enabled user. It hashes the password, which is slow by design.
func NewUser(r Registration, now grant.Instant) (User, error) {
	u := User{Realm: r.Realm, Username: Fold(r.Username), Name: r.Name, State: Enabled, CreatedAt: now, ProfileAt: now}
	u.Subject = cmp.Or(r.Subject, u.Username)
	switch {
	case !validUsername(u.Username):
		return u, &oauth.Invalid{Field: "username", Message: fmt.Sprintf("1 to %d ASCII letters, digits and . _ - @ +, and neither . nor .. (RFC 3986 section 5.2.4); capitals and small letters are the same", MaxUsername)}
	case !oauth.IsText(u.Name, oauth.MaxName):
		return u, &oauth.Invalid{Field: "name", Message: fmt.Sprintf("at most %d bytes of UTF-8 without control characters", oauth.MaxName)}
	case !openid.IsSubject(u.Subject):
		return u, &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("at most %d ASCII characters without control characters: it is the sub of id_tokens (OpenID Connect Core section 2)", openid.MaxSubject)}
	}
	if len(r.Claims) > 0 {
		var err error
		if u.Claims, err = u.mergeClaims(r.Claims); err != nil {
			return u, err
		}
	}
	if r.PasswordHash == "" {
		return u.withPassword(r.Password, now)
	}
	if err := keys.CheckSlow(r.PasswordHash); err != nil || r.Password != "" {
		return u, &oauth.Invalid{Field: "password_hash", Message: "a hash by argon2id in PHC text ($argon2id$v=19$m=...,t=...,p=...$SALT$HASH), of at most 64 MiB, and of at most 256 MiB times passes, and no password beside it"}
	}
	u = u.changed(now)
	u.Password = r.PasswordHash
	return u, nil
}

// SetProfile changes the user's name, unless name is nil, and the claims in patch
// (claims.Merge).
func (u User) SetProfile(name *string, patch claims.Claims, now grant.Instant) (User, error) {
	next := u.changed(now)
	next.ProfileAt = now
	if name != nil {
		next.Name = *name
	}
	if !oauth.IsText(next.Name, oauth.MaxName) {
		return u, &oauth.Invalid{Field: "name", Message: fmt.Sprintf("at most %d bytes of UTF-8 without control characters", oauth.MaxName)}
	}
	var err error
	if next.Claims, err = u.mergeClaims(patch); err != nil {
		return u, err
	}
	return next, nil
}

// ofRecord maps claims that other fields of the record hold to the reason why they cannot
// be set.
var ofRecord = map[string]string{
	"name": "set the name of the user (--name) instead", "preferred_username": "it is the username", "updated_at": "the server sets it",
}

func (u User) mergeClaims(patch claims.Claims) (claims.Claims, error) {
	for name := range patch {
		if why := ofRecord[name]; why != "" {
			return nil, &oauth.Invalid{Field: "claims", Message: fmt.Sprintf("%s cannot be set: %s", name, why)}
		}
	}
	merged, err := u.Claims.Merge(patch)
	if err != nil {
		return nil, &oauth.Invalid{Field: "claims", Message: err.Error()}
	}
	return merged, nil
}

// StandardClaims returns all claims about the user.
func (u User) StandardClaims() claims.Claims {
	all := claims.Claims{}
	maps.Copy(all, u.Claims)
	for name, text := range map[string]string{"name": u.Name, "preferred_username": u.Username} {
		if value, err := json.Marshal(text); err == nil && text != "" {
			all[name] = value
		}
	}
	if u.ProfileAt != 0 {
		all["updated_at"] = strconv.AppendInt(nil, int64(u.ProfileAt)/1000, 10)
	}
	return all
}

// Fold returns a username as it is stored and compared: in lower case, and without spaces
// around, which keyboards of telephones add.
func Fold(username string) string {
	return oauth.InSmallLetters(strings.Trim(username, " "))
}

func validUsername(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= MaxUsername && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._-@+", c)
	})
}

// SetPassword replaces the password and ends the user's sessions.
func (u User) SetPassword(password string, now grant.Instant) (User, error) {
	next, err := u.withPassword(password, now)
	next.Epoch++
	next.SessionsEnd = now
	return next, err
}

func (u User) withPassword(password string, now grant.Instant) (User, error) {
	if err := checkPassword(password, u.Username); err != nil {
		return u, err
	}
	u = u.changed(now)
	u.Password = keys.HashSlow(oauth.Secret(password))
	return u, nil
}

// Disable ends the user's sessions, and keeps the user from logging in.
func (u User) Disable(now grant.Instant) User {
	u = u.changed(now)
	u.State, u.SessionsEnd = Disabled, now
	u.Epoch++
	return u
}

// Enable lets the user log in again. Sessions and grants that Disable ended stay ended.
func (u User) Enable(now grant.Instant) User {
	u = u.changed(now)
	u.State = Enabled
	return u
}

// Superseded returns u, a record of a backup, with the password, the second factor and the
// later session epoch of present, so that a restore does not revive what has ended since.
// It keeps the second factor of u if present has none, or one that the ring cannot open. A
// nil present changes nothing.
func (u User) Superseded(present *User, ring *keys.Ring, now grant.Instant) User {
	if present == nil {
		return u
	}
	next := u
	next.Password = present.Password
	if present.Epoch > u.Epoch {
		next.Epoch, next.SessionsEnd = present.Epoch, present.SessionsEnd
	}
	if _, err := ring.OpenBox(u.boxLabel(), present.TOTP); err == nil {
		next.TOTP, next.TOTPStep = present.TOTP, present.TOTPStep
	}
	if next.Password == u.Password && next.Epoch == u.Epoch && bytes.Equal(next.TOTP, u.TOTP) {
		return u
	}
	return next.changed(now)
}

// Cutoff returns the cutoff that revokes all that the user granted until an instant.
func (u User) Cutoff(at grant.Instant) store.Cutoff {
	return store.Cutoff{Realm: u.Realm, Subject: u.Subject, At: at}
}

// changed returns u for a change by an administrator.
func (u User) changed(now grant.Instant) User {
	u = u.next()
	u.UpdatedAt = now
	return u
}

// next returns u for the next write: with the next version and a new Attempt.
func (u User) next() User {
	u.Version++
	u.Attempt = rand.Uint64()
	return u
}

// Document returns u as it is stored.
func (u User) Document() (store.Document, error) {
	body, err := json.Marshal(u)
	return store.Document{
		Kind: store.DocumentUser, Key: keyOf(u.Realm, u.Username), Version: u.Version, Owner: store.OwnerOf(u.Realm, u.Subject), Body: body,
	}, err
}

// keyOf returns the key of a user's document. The username must be folded.
func keyOf(realm, username string) store.DocumentKey {
	return store.KeyOf(store.DocumentUser, realm, username)
}

func read(d store.Document) (User, error) {
	var u User
	if err := plain.Unmarshal(userMembers, d.Body, &u); err != nil {
		return u, fmt.Errorf("a stored user is damaged: %w", err)
	}
	u.Version = d.Version
	return u, nil
}

// Find reads a user, or returns store.ErrNotFound.
func Find(ctx context.Context, st store.Store, realm, username string) (User, error) {
	d, err := st.Document(ctx, keyOf(realm, Fold(username)))
	if err != nil {
		return User{}, err
	}
	return read(d)
}

// List reads the users of a realm, by name.
func List(ctx context.Context, st store.Store, realm string) ([]User, error) {
	var list []User
	for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: store.DocumentUser}) {
		var u User
		if err == nil {
			u, err = read(d)
		}
		if err != nil {
			return nil, err
		}
		if u.Realm == realm {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b User) int { return strings.Compare(a.Username, b.Username) })
	return list, nil
}

// ErrTaken means that the username exists.
var ErrTaken = errors.New("the username is taken")

// Claim returns a document to be stored in the commit that creates a subject. It prevents
// write skew: of two concurrent commits that have both found the subject free, the second
// conflicts in this document. It may expire once the first commit can be read.
func Claim(realm, subject string, now grant.Instant) store.Document {
	return store.Document{
		Kind: store.DocumentSubject, Key: store.KeyOf(store.DocumentSubject, realm, subject), Version: 1, ExpiresAt: now.Add(time.Hour), Body: []byte("{}"),
	}
}

// Create stores a new user. It rejects a subject of another user: each could use
// the other's grants.
func Create(ctx context.Context, st store.Store, u User, events ...store.Event) error {
	err := free(ctx, st, u)
	if err == nil {
		err = haveRoom(ctx, st, u.Realm, 1)
	}
	if err != nil {
		return err
	}
	err = Put(ctx, st, u, store.Change{Documents: []store.Document{Claim(u.Realm, u.Subject, u.UpdatedAt)}, Events: events})
	if errors.Is(err, store.ErrConflict) {
		return cmp.Or(free(ctx, st, u), ErrTaken)
	}
	return err
}

// free returns ErrTaken if the name of a new user is taken, and an oauth.Invalid if its
// subject is. It makes one look-up for each, however many users there are.
func free(ctx context.Context, st store.Store, u User) error {
	switch _, err := st.Document(ctx, keyOf(u.Realm, u.Username)); {
	case err == nil:
		return ErrTaken
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	found, err := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Owner: store.OwnerOf(u.Realm, u.Subject), Limit: 1})
	if err != nil || len(found) == 0 {
		return err
	}
	other, err := read(found[0])
	if err != nil {
		return err
	}
	return &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("%q is the subject of the user %q already", u.Subject, other.Username)}
}

// haveRoom returns an error if n more users of a realm would be too many.
func haveRoom(ctx context.Context, st store.Store, realm string, n int) error {
	present, err := st.CountDocuments(ctx, store.DocumentUser)
	if err == nil && present+n > MaxUsers { // of all realms
		var list []User
		list, err = List(ctx, st, realm)
		present = len(list)
	}
	if err == nil && present+n > MaxUsers {
		err = fmt.Errorf("there are %d users, and %d are possible", present, MaxUsers)
	}
	return err
}

// CreateAll stores the new users whose usernames are free, in one commit with an event for
// each, and returns them. If admit refuses one, or dry is set, it stores nothing.
func CreateAll(ctx context.Context, st store.Store, realm string, users []User, dry bool, admit func(User) (store.Event, error)) (created []User, err error) {
	for range 4 {
		names, subjects := map[string]bool{}, map[string]string{}
		created = nil
		var c store.Change
		for _, u := range users {
			if names[u.Username] {
				continue
			}
			other, taken := subjects[u.Subject]
			err := free(ctx, st, u)
			var invalid *oauth.Invalid
			switch {
			case errors.Is(err, ErrTaken):
				names[u.Username] = true
				continue
			case errors.As(err, &invalid):
				return nil, &oauth.Invalid{Field: invalid.Field, Message: fmt.Sprintf("%s, and cannot be that of %q", invalid.Message, u.Username)}
			case err != nil:
				return nil, err
			case taken:
				return nil, &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("%q is the subject of the user %q already, and cannot be that of %q", u.Subject, other, u.Username)}
			}
			names[u.Username], subjects[u.Subject] = true, u.Username
			event, err := admit(u)
			if err != nil {
				return nil, err
			}
			d, err := u.Document()
			if err != nil {
				return nil, err
			}
			created = append(created, u)
			c.Documents, c.Events = append(c.Documents, d, Claim(realm, u.Subject, u.UpdatedAt)), append(c.Events, event)
		}
		if err := haveRoom(ctx, st, realm, len(created)); err != nil {
			return nil, err
		}
		if dry || len(created) == 0 {
			return created, nil
		}
		if err := st.Commit(ctx, c); !errors.Is(err, store.ErrConflict) {
			return created, err
		}
	}
	return nil, store.Unavailable(store.ErrConflict)
}

// Put stores a user whose version is one more than the stored one, in one commit with the
// change with. It returns store.ErrConflict if somebody else has changed the user
// meanwhile.
func Put(ctx context.Context, st store.Store, u User, with store.Change) error {
	d, err := u.Document()
	if err != nil {
		return err
	}
	with.Documents = append(slices.Clip(with.Documents), d)
	return st.Commit(ctx, with)
}
