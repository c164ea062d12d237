package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
)

const usersPath = "/admin/v1/users"

// viewUser returns the answer about a user, and err.
func viewUser(user account.User, err error) (any, error) {
	return tagged{body: admin.ViewUser(user), etag: admin.UserETag(user)}, err
}

func listUsers(x *call, u *admin.Admin) (any, error) {
	read := func(p adminapi.Page) ([]account.User, bool, error) { return u.Users().List(x.Context(), p) }
	return pageOf(x, "users", read, func(user account.User) string { return user.Username }, admin.ViewUser)
}

func createUser(x *call, u *admin.Admin, d adminapi.UserDocument) (any, error) {
	user, password, err := u.Users().Create(x.Context(), account.Registration{Username: d.Username, Name: d.Name, Subject: d.Subject, Claims: d.Claims, Password: d.Password, PasswordHash: d.PasswordHash})
	return tagged{body: adminapi.NewPassword{Password: password, User: admin.ViewUser(user)}, etag: admin.UserETag(user), location: usersPath + "/" + url.PathEscape(user.Username)}, err
}

// importUsers creates the users of a list that do not exist. If one of the list is not
// valid, it creates none, and the answer names the invalid one.
func importUsers(x *call, u *admin.Admin, in adminapi.ImportRequest) (any, error) {
	if len(in.Users) > adminapi.MaxImport {
		return nil, &oauth.Invalid{Field: "users", Message: fmt.Sprintf("are more than %d", adminapi.MaxImport)}
	}
	var list []account.Registration
	for _, d := range in.Users {
		list = append(list, account.Registration{Username: d.Username, Name: d.Name, Subject: d.Subject, Claims: d.Claims, PasswordHash: d.PasswordHash})
	}
	u.DryRun = in.DryRun
	created, err := u.Users().Import(x.Context(), list)
	if wrong := (*admin.ImportError)(nil); errors.As(err, &wrong) {
		p := x.problem(wrong.Err)
		if p.Field != "" {
			p.Field = fmt.Sprintf("users.%d.%s", wrong.Index, p.Field)
		}
		return nil, p
	}
	return adminapi.Imported{Created: created, Existing: len(list) - created}, err
}

func updateUser(x *call, u *admin.Admin, patch adminapi.UserPatch) (any, error) {
	// Decoding would ignore a null, but RFC 7396 section 2 removes the claims: refuse it.
	if given := map[string]json.RawMessage{}; json.Unmarshal(x.text, &given) == nil && string(given["claims"]) == "null" {
		return nil, &oauth.Invalid{Field: "claims", Message: "is null: name each claim that is to be removed, and set it to null"}
	}
	var name *string
	if patch.Name != nil {
		name = new(string)
		if err := json.Unmarshal(patch.Name, name); err != nil {
			return nil, &oauth.Invalid{Field: "name", Message: "is not a string"}
		}
	}
	return viewUser(u.Users().Update(x.Context(), x.names[0], x.ifMatch(), name, patch.Claims))
}

func setPassword(x *call, u *admin.Admin, in adminapi.PasswordRequest) (any, error) {
	user, password, err := u.Users().SetPassword(x.Context(), x.names[0], x.ifMatch(), in.Password, in.EndGrants)
	return tagged{body: adminapi.NewPassword{Password: password, User: admin.ViewUser(user)}, etag: admin.UserETag(user)}, err
}

func (a *API) setTOTP(x *call, u *admin.Admin) (any, error) {
	user, secret, err := u.Users().SetTOTP(x.Context(), x.names[0], x.ifMatch())
	service := a.Service
	if "/"+a.Realm.Name != oauth.DefaultRealm { // the default realm may have a user of that name
		service += " " + a.Realm.Name
	}
	return tagged{body: adminapi.NewSecondFactor{Secret: account.TOTPText(secret), URI: user.TOTPURI(service, secret), User: admin.ViewUser(user)}, etag: admin.UserETag(user)}, err
}
