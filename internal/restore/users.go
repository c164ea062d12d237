package restore

import (
	"bytes"
	"reflect"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/store"
)

// ofUser compares a built-in user in the backup and in the present store. It ignores the
// changes that a login makes to the record.
func (s *Since) ofUser(c UserChange) {
	was, now := c.Was, c.Is
	name, realm := now.Username, now.Realm
	switch {
	case was == nil:
		s.miss(realm, "user %s was made: make it anew, with --subject %s", name, now.Subject)
		return
	case now.State == account.Enabled && was.State != account.Enabled:
		s.miss(realm, "user %s was enabled: mintage user enable %s", name, name)
	}
	if was.Name != now.Name || !reflect.DeepEqual(was.Claims, now.Claims) {
		s.miss(realm, "the name or the claims of user %s were changed: mintage user update %s", name, name)
	}
	otherFactor := !bytes.Equal(was.TOTP, now.TOTP)
	if otherFactor {
		s.miss(realm, "the second factor of user %s was changed; look whether it works, or: mintage user totp %s", name, name)
	}
	disabled := was.State != account.Disabled && now.State == account.Disabled
	if disabled || otherFactor || was.Password != now.Password || was.Epoch != now.Epoch {
		s.Ended.Users = append(s.Ended.Users, admin.EndedUser{Realm: store.OtherRealm(realm), Username: name, Disabled: disabled, Now: now})
	}
}
