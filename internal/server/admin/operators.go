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

func listOperators(x *call, u *admin.Admin) (any, error) {
	views, err := u.Console().Operators(x.Context())
	return list{name: "operators", items: views}, err
}

func (a *API) addOperator(x *call, u *admin.Admin, in adminapi.OperatorRequest) (any, error) {
	if err := a.hasRealm(in.Realm); err != nil {
		return nil, err
	}
	return u.Console().AddOperator(x.Context(), in)
}

func removeOperator(x *call, u *admin.Admin) (any, error) {
	return nil, u.Console().RemoveOperator(x.Context(), x.names[0])
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

func listConsoleSessions(x *call, u *admin.Admin) (any, error) {
	views, err := u.Console().ConsoleSessions(x.Context())
	return list{name: "sessions", items: views}, err
}

func endConsoleSession(x *call, u *admin.Admin) (any, error) {
	return nil, u.Console().EndConsoleSession(x.Context(), x.names[0])
}
