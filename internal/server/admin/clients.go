package admin

import (
	"net/url"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const clientsPath = "/admin/v1/clients"

// A newClient is the answer to the registration of a client.
type newClient struct {
	ClientID string           `json:"client_id"`
	Secret   string           `json:"client_secret,omitempty"` // generated, shown once
	Client   admin.ClientView `json:"client"`
}

func viewClient(u *admin.Admin, c store.Client) tagged {
	return tagged{body: admin.ViewClient(c, grant.At(u.Now())), etag: admin.ClientETag(c)}
}

func viewNewClient(u *admin.Admin, c store.Client, secret oauth.Secret) tagged {
	view := admin.ViewClient(c, grant.At(u.Now()))
	return tagged{body: newClient{c.ID, string(secret), view}, etag: admin.ClientETag(c), location: clientsPath + "/" + url.PathEscape(c.ID)}
}

func listClients(x *call, u *admin.Admin) (any, error) {
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	page, more, err := u.Clients(x.Context(), p, false)
	if err != nil {
		return nil, err
	}
	return listOf("clients", page, more, func(c store.Client) string { return c.ID }, func(c store.Client) any { return viewClient(u, c).body }), nil
}

func createClient(x *call, u *admin.Admin, d admin.ClientDocument) (any, error) {
	c, secret, err := u.CreateClient(x.Context(), d.Registration, d.State)
	if err != nil {
		return nil, err
	}
	return viewNewClient(u, c, secret), nil
}

func showClient(x *call, u *admin.Admin) (any, error) {
	c, err := u.Client(x.Context(), x.names[0])
	if err != nil {
		return nil, err
	}
	return viewClient(u, c), nil
}

// applyClient answers PUT: the same request again changes nothing.
func applyClient(x *call, u *admin.Admin, d admin.ClientDocument) (any, error) {
	c, secret, created, err := u.ApplyClient(x.Context(), x.names[0], x.ifMatch(), d)
	switch {
	case err != nil:
		return nil, err
	case created:
		return viewNewClient(u, c, secret), nil
	}
	return viewClient(u, c), nil
}

func deleteClient(x *call, u *admin.Admin) (any, error) {
	_, err := u.DeleteClient(x.Context(), x.names[0], x.ifMatch())
	return nil, err
}
