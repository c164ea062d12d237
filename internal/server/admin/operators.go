package admin

import (
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
)

const (
	operatorsPath = "/admin/v1/operators"
	consolePath   = "/admin/v1/console"
)

func (a *API) addOperator(x *call, u *admin.Admin, in adminapi.OperatorRequest) (any, error) {
	if err := a.hasRealm(in.Realm); err != nil {
		return nil, err
	}
	return u.Console().AddOperator(x.Context(), in)
}

// inviteOperator answers with the link of an invitation, if there is a console.
func (a *API) inviteOperator(x *call, u *admin.Admin, in adminapi.InvitationRequest) (any, error) {
	if a.ConsoleURL == "" {
		return nil, &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:no-console", Title: "no console", Status: http.StatusConflict,
			Detail: "the server has no console", Advice: "set console.listen, and restart the server"}}
	}
	v, text, err := u.Console().InviteOperator(x.Context(), in)
	v.URL = strings.TrimSuffix(a.ConsoleURL, "/") + "/invitation/" + text
	return v, err
}
