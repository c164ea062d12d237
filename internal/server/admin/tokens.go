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

func listTokens(x *call, u *admin.Admin) (any, error) {
	views, err := u.Tokens().List(x.Context())
	return list{name: "admin_tokens", items: views}, err
}

func (a *Admin) createToken(x *call, u *admin.Admin, in adminapi.TokenRequest) (any, error) {
	if in.Realm != "" && !slices.ContainsFunc(a.realms, func(r adminapi.Realm) bool { return r.Name == strings.TrimPrefix(in.Realm, "/") }) {
		return nil, &oauth.Invalid{Field: "realm", Message: fmt.Sprintf("there is no realm %q (see: mintage realm list)", in.Realm)}
	}
	return u.Tokens().Create(x.Context(), in)
}

func revokeToken(x *call, u *admin.Admin) (any, error) {
	return nil, u.Tokens().Revoke(x.Context(), x.names[0])
}
