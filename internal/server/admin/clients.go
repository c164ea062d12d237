package admin

import (
	"net/url"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const clientsPath = "/admin/v1/clients"

// viewClient returns a function that makes the answer about a client, and returns err.
func viewClient(u *admin.Admin) func(store.Client, error) (any, error) {
	return func(c store.Client, err error) (any, error) {
		return tagged{body: admin.ViewClient(c, grant.At(u.Now())), etag: admin.ClientETag(c)}, err
	}
}

// viewNewClient returns a function that makes the answer to a registration, and returns err.
func viewNewClient(u *admin.Admin) func(store.Client, oauth.Secret, error) (any, error) {
	return func(c store.Client, secret oauth.Secret, err error) (any, error) {
		view := admin.ViewClient(c, grant.At(u.Now()))
		return tagged{body: adminapi.NewClient{ClientID: c.ID, Secret: string(secret), Client: view}, etag: admin.ClientETag(c), location: clientsPath + "/" + url.PathEscape(c.ID)}, err
	}
}

func listClients(x *call, u *admin.Admin) (any, error) {
	own, err := x.option("self_registered")
	if err != nil {
		return nil, err
	}
	all, err := x.option("deleted")
	if err != nil {
		return nil, err
	}
	read := func(p adminapi.Page) ([]store.Client, bool, error) {
		if own {
			return u.Clients().ListSelfRegistered(x.Context(), p, all)
		}
		return u.Clients().List(x.Context(), p, all)
	}
	return pageOf(x, "clients", read, func(c store.Client) string { return c.ID }, func(c store.Client) adminapi.Client { return admin.ViewClient(c, grant.At(u.Now())) })
}

func createClient(x *call, u *admin.Admin, d adminapi.Client) (any, error) {
	return viewNewClient(u)(u.Clients().Create(x.Context(), d.Registration, d.State))
}

func showClient(x *call, u *admin.Admin) (any, error) {
	return viewClient(u)(u.Clients().Read(x.Context(), x.names[0]))
}

// applyClient answers PUT: the same request again changes nothing.
func applyClient(x *call, u *admin.Admin, d adminapi.Client) (any, error) {
	c, secret, created, err := u.Clients().Apply(x.Context(), x.names[0], x.ifMatch(), d)
	if created {
		return viewNewClient(u)(c, secret, err)
	}
	return viewClient(u)(c, err)
}

func setClientState(state store.ClientState) action {
	return func(x *call, u *admin.Admin) (any, error) {
		return viewClient(u)(u.Clients().SetState(x.Context(), x.names[0], x.ifMatch(), state))
	}
}

func listSecrets(x *call, u *admin.Admin) (any, error) {
	c, err := u.Clients().InUse(x.Context(), x.names[0])
	return list{name: "secrets", items: admin.ViewSecrets(c, grant.At(u.Now()))}, err
}

func addSecret(x *call, u *admin.Admin, in adminapi.SecretRequest) (any, error) {
	expires, err := admin.Positive("expires_in", in.ExpiresIn)
	if err != nil {
		return nil, err
	}
	id, secret, err := u.Clients().AddSecret(x.Context(), x.names[0], expires)
	return adminapi.NewSecret{ClientID: x.names[0], SecretID: id, Secret: string(secret)}, err
}

func revokeSecret(x *call, u *admin.Admin) (any, error) {
	force, err := x.option("force")
	if err != nil {
		return nil, err
	}
	return nil, u.Clients().RevokeSecret(x.Context(), x.names[0], x.names[1], force)
}

const apisPath = "/admin/v1/apis"

// viewAPI returns the answer about an API, and err.
func viewAPI(api store.API, err error) (any, error) {
	return tagged{body: admin.ViewAPI(api), etag: admin.APIETag(api)}, err
}

// viewNewAPI returns the answer to the registration of an API, and err.
func viewNewAPI(api store.API, err error) (any, error) {
	return tagged{body: admin.ViewAPI(api), etag: admin.APIETag(api), location: apisPath + "/" + url.PathEscape(api.ID)}, err
}

func listAPIs(x *call, u *admin.Admin) (any, error) {
	read := func(p adminapi.Page) ([]store.API, bool, error) { return u.APIs().List(x.Context(), p) }
	return pageOf(x, "apis", read, func(api store.API) string { return api.ID }, admin.ViewAPI)
}

func createAPI(x *call, u *admin.Admin, v adminapi.API) (any, error) {
	return viewNewAPI(u.APIs().Create(x.Context(), v))
}

// applyAPI answers PUT: the same request again changes nothing. A program that leaves out
// the scopes must not remove all of them.
func applyAPI(x *call, u *admin.Admin, v adminapi.API) (any, error) {
	if v.Scopes == nil {
		return nil, &oauth.Invalid{Field: "scopes", Message: "is missing: send every scope of the API, or [] for none"}
	}
	api, created, err := u.APIs().Apply(x.Context(), x.names[0], x.ifMatch(), v)
	if created {
		return viewNewAPI(api, err)
	}
	return viewAPI(api, err)
}
