package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
)

const tokensPath = "/admin/v1/admin-tokens"

// hasRealm returns an error if name is not empty and no realm has it.
func (a *API) hasRealm(name string) error {
	if name == "" || slices.ContainsFunc(a.realms, func(r adminapi.Realm) bool { return r.Name == strings.TrimPrefix(name, "/") }) {
		return nil
	}
	return &oauth.Invalid{Field: "realm", Message: fmt.Sprintf("there is no realm %q (see: mintage realm list)", name)}
}

func (a *API) createToken(x *call, u *admin.Admin, in adminapi.TokenRequest) (any, error) {
	if err := a.hasRealm(in.Realm); err != nil {
		return nil, err
	}
	return u.Tokens().Create(x.Context(), in)
}
