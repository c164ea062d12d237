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

func listOperators(x *call, a *admin.Admin) (any, error) {
	u := admin.Console{Admin: a}
	views, err := u.Operators(x.Context())
	return list{name: "operators", items: views}, err
}

func addOperator(x *call, a *admin.Admin, in adminapi.OperatorRequest) (any, error) {
	u := admin.Console{Admin: a}
	return u.AddOperator(x.Context(), in)
}

func removeOperator(x *call, a *admin.Admin) (any, error) {
	u := admin.Console{Admin: a}
	return nil, u.RemoveOperator(x.Context(), x.names[0])
}

// inviteOperator answers with the link of an invitation, if there is a console.
func (a *Admin) inviteOperator(x *call, of *admin.Admin, in adminapi.InvitationRequest) (any, error) {
	u := admin.Console{Admin: of}
	if a.ConsoleURL == "" {
		return nil, &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:no-console", Title: "no console", Status: http.StatusConflict,
			Detail: "the server has no console", Advice: "set console.listen, and restart the server"}}
	}
	v, text, err := u.InviteOperator(x.Context(), in)
	v.URL = strings.TrimSuffix(a.ConsoleURL, "/") + "/invitation/" + text
	return v, err
}

func listConsoleSessions(x *call, a *admin.Admin) (any, error) {
	u := admin.Console{Admin: a}
	views, err := u.ConsoleSessions(x.Context())
	return list{name: "sessions", items: views}, err
}

func endConsoleSession(x *call, a *admin.Admin) (any, error) {
	u := admin.Console{Admin: a}
	return nil, u.EndConsoleSession(x.Context(), x.names[0])
}
