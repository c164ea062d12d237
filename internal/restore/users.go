package restore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
)

// A userChange is a built-in user in the backup and in the present store.
type userChange struct{ was, is *account.User }

// disabled reports whether the user was disabled.
func (c userChange) disabled() bool {
	return c.was.State != account.Disabled && c.is.State == account.Disabled
}

// ended reports whether something ended: logins, sessions, a password or a second factor.
func (c userChange) ended() bool {
	return c.disabled() || c.was.Password != c.is.Password || c.was.Epoch != c.is.Epoch || !bytes.Equal(c.was.TOTP, c.is.TOTP)
}

// otherProfile reports whether the name or the claims were changed.
func (c userChange) otherProfile() bool {
	return c.was.Name != c.is.Name || !reflect.DeepEqual(c.was.Claims, c.is.Claims)
}

func userChanges(list []UserChange) (changes []userChange, err error) {
	for _, c := range list {
		u := userChange{is: &account.User{}}
		if err := json.Unmarshal(c.Is, u.is); err != nil {
			return nil, fmt.Errorf("a user's record: %w", err)
		}
		if c.Was != nil {
			u.was = &account.User{}
			if err := json.Unmarshal(c.Was, u.was); err != nil {
				return nil, fmt.Errorf("a user's record: %w", err)
			}
		}
		// A login also changes the record.
		if u.was == nil || u.otherProfile() || u.was.State != u.is.State || u.ended() {
			changes = append(changes, u)
		}
	}
	return changes, nil
}

func (s *Since) ofUser(c userChange) {
	user := c.is
	name, realm := user.Username, user.Realm
	switch {
	case c.was == nil:
		s.miss(realm, "user %s was made: make it anew, with --subject %s", name, c.is.Subject)
		return
	case c.is.State == account.Enabled && c.was.State != account.Enabled:
		s.miss(realm, "user %s was enabled: mintage user enable %s", name, name)
	}
	if c.otherProfile() {
		s.miss(realm, "the name or the claims of user %s were changed: mintage user update %s", name, name)
	}
	if !bytes.Equal(c.was.TOTP, c.is.TOTP) {
		s.miss(realm, "the second factor of user %s was changed; look whether it works, or: mintage user totp %s", name, name)
	}
	if c.ended() {
		s.Ended.Users = append(s.Ended.Users, admin.EndedUser{Realm: other(realm), Username: name, Disabled: c.disabled(), Now: c.is})
	}
}
