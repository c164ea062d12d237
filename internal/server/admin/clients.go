package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	clientsPath = "/admin/v1/clients"
	clientPage  = 100  // clients, unless limit says otherwise
	maxClients  = 1000 // in one page
)

// useCases returns the operator's use cases for callers of the API.
func (a *Admin) useCases() *admin.Admin {
	iss := a.issuer
	return &admin.Admin{
		Store: iss.Store, Realm: iss.Realm, Actor: "admin API", Policy: iss.Policy, Now: iss.Now,
		Ring: func(context.Context) (*keys.Ring, error) {
			view, err := iss.Directory.View()
			if err != nil {
				return nil, err
			}
			return view.Ring, nil
		},
		// A node that cannot poll now does so within a second.
		Changed: func(ctx context.Context) { _ = iss.Directory.Poll(ctx) },
	}
}

// A tagged body has the ETag of a client's registration.
type tagged struct {
	body     any // nil: there is none
	etag     string
	location string
}

// A newClient is the answer to the registration of a client.
type newClient struct {
	ClientID string           `json:"client_id"`
	Secret   oauth.Secret     `json:"client_secret,omitempty"` // generated, shown once
	Client   admin.ClientView `json:"client"`
}

// ClientList is a page of clients.
type ClientList struct {
	Clients []admin.ClientView `json:"clients"`
	// Next is the value of after for the next page; "" on the last one.
	Next string `json:"next,omitempty"`
}

func (a *Admin) listClients(x *call, _ string) (int, any, *Problem) {
	q := x.URL.Query()
	p := admin.Page{Match: q.Get("match"), State: q.Get("state"), After: q.Get("after"), Limit: clientPage}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxClients {
			return 0, nil, problem(&oauth.Invalid{Field: "limit", Message: "is not 1 to " + strconv.Itoa(maxClients)})
		}
		p.Limit = n
	}
	u := a.useCases()
	list, more, err := u.Clients(x.Context(), p, false)
	if err != nil {
		return 0, nil, clientProblem(x, err)
	}
	page := ClientList{Clients: []admin.ClientView{}}
	for _, c := range list {
		page.Clients = append(page.Clients, admin.ViewClient(c, grant.At(u.Now())))
	}
	if more {
		page.Next = list[len(list)-1].ID
	}
	return http.StatusOK, page, nil
}

func (a *Admin) createClient(x *call, _ string) (int, any, *Problem) {
	var d admin.ClientDocument
	if p := x.read(&d); p != nil {
		return 0, nil, p
	}
	u := a.useCases()
	c, secret, err := u.CreateClient(x.Context(), d.Registration, d.State)
	if err != nil {
		return 0, nil, clientProblem(x, err)
	}
	return a.registered(u, c, secret)
}

func (a *Admin) registered(u *admin.Admin, c store.Client, secret oauth.Secret) (int, any, *Problem) {
	return http.StatusCreated, tagged{
		body: newClient{c.ID, secret, admin.ViewClient(c, grant.At(u.Now()))}, etag: admin.ClientETag(c), location: clientsPath + "/" + c.ID,
	}, nil
}

func (a *Admin) showClient(x *call, id string) (int, any, *Problem) {
	u := a.useCases()
	c, err := u.Client(x.Context(), id)
	if err != nil {
		return 0, nil, clientProblem(x, err)
	}
	return http.StatusOK, tagged{body: admin.ViewClient(c, grant.At(u.Now())), etag: admin.ClientETag(c)}, nil
}

// applyClient answers PUT: the same request again changes nothing.
func (a *Admin) applyClient(x *call, id string) (int, any, *Problem) {
	var d admin.ClientDocument
	if p := x.read(&d); p != nil {
		return 0, nil, p
	}
	u := a.useCases()
	c, secret, created, err := u.ApplyClient(x.Context(), id, ifMatch(x.Request), d)
	switch {
	case err != nil:
		return 0, nil, clientProblem(x, err)
	case created:
		return a.registered(u, c, secret)
	}
	return http.StatusOK, tagged{body: admin.ViewClient(c, grant.At(u.Now())), etag: admin.ClientETag(c)}, nil
}

func (a *Admin) deleteClient(x *call, id string) (int, any, *Problem) {
	if _, err := a.useCases().DeleteClient(x.Context(), id, ifMatch(x.Request)); err != nil {
		return 0, nil, clientProblem(x, err)
	}
	return http.StatusNoContent, tagged{}, nil
}

// ifMatch returns the entity tag that the client must still have (RFC 9110 section
// 13.1.1); "" if any will do. What is no strong tag matches nothing.
func ifMatch(r *http.Request) string {
	return strings.Trim(strings.TrimSpace(strings.Join(r.Header.Values("If-Match"), ",")), `"`)
}

// clientProblem returns the problem of an error about a client.
func clientProblem(x *call, err error) *Problem {
	var failed *admin.Error
	if errors.As(err, &failed) {
		p := &Problem{Title: "no such client", Status: http.StatusNotFound, Detail: failed.Message}
		switch {
		case x.Header.Get("If-Match") != "" && (failed.Code == admin.Changed || failed.Code == admin.NotFound):
			p.Title, p.Status = "the client has changed", http.StatusPreconditionFailed
		case failed.Code == admin.Deleted && x.Method == http.MethodPut, failed.Code == admin.Taken:
			p.Title, p.Status = "the client id is taken", http.StatusConflict
		case failed.Code == admin.Changed:
			p.Title, p.Status = "the client has changed", http.StatusConflict
		}
		return p
	}
	p := problem(err)
	// Settings are named by their flags below.
	if i := slices.IndexFunc(client.Settings, func(s client.Setting) bool { return s.Flag == p.Field }); i >= 0 {
		p.Field = client.Settings[i].Member
	} else if strings.HasPrefix(p.Field, "secret") {
		p.Field = "client_secret"
	}
	return p
}
