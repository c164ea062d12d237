package admin

import (
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
)

const tokensPath = "/admin/v1/admin-tokens"

func listTokens(x *call, u *admin.Admin) (any, error) {
	views, err := u.Tokens().List(x.Context())
	return list{name: "admin_tokens", items: views}, err
}

func createToken(x *call, u *admin.Admin, in adminapi.TokenRequest) (any, error) {
	return u.Tokens().Create(x.Context(), in)
}

func revokeToken(x *call, u *admin.Admin) (any, error) {
	return nil, u.Tokens().Revoke(x.Context(), x.names[0])
}
