package admin

import (
	"cmp"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
)

// noServer returns the problem of a command that needs a running server.
func noServer(advice string) *Problem {
	return &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:no-server", Title: "no server", Status: 409, Detail: "no server runs here", Advice: advice}}
}

// traffic answers with the numbers of requests that all nodes have answered in a period.
func (a *API) traffic(x *call, _ *admin.Admin) (any, error) {
	p, ok := adminapi.Periods[cmp.Or(x.params.Get("period"), "day")]
	switch {
	case !ok:
		return nil, &oauth.Invalid{Field: "period", Message: "must be hour, day or week"}
	case a.Traffic == nil:
		return nil, noServer("start the server")
	}
	return a.Traffic(x.Context(), p[0], p[1])
}

// checkup answers with the last checkup of this server, and begins another one if start is
// set. It changes nothing, so that auditors may use it.
func (a *API) checkup(start bool) action {
	return func(*call, *admin.Admin) (any, error) {
		if a.Checkup == nil {
			return nil, noServer("use: mintage doctor")
		}
		v := a.Checkup(start)
		v.Findings = append([]adminapi.Finding{}, v.Findings...)
		return v, nil
	}
}

// watchClient answers with the requests of a client to this server since an operator
// began to watch it.
func (a *API) watchClient(x *call, u *admin.Admin) (any, error) {
	c, err := u.Clients().Read(x.Context(), x.names[0])
	switch {
	case err != nil:
		return nil, err
	case a.Watch == nil:
		return nil, noServer("start the server")
	}
	v, ok := a.Watch(c)
	if !ok {
		return nil, &Problem{Problem: adminapi.Problem{Title: "too many clients are watched", Status: 429, Detail: "others watch 20 clients", Advice: "try again in ten minutes"}}
	}
	return v, nil
}

func (a *API) showSettings(*call, *admin.Admin) (any, error) {
	if a.Settings == nil {
		return nil, noServer("use: mintage config show")
	}
	return a.Settings(), nil
}
