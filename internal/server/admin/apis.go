package admin

import (
	"net/url"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/store"
)

const apisPath = "/admin/v1/apis"

// viewAPI returns the answer about an API, unless there is an error.
func viewAPI(api store.API, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return tagged{body: admin.ViewAPI(api), etag: admin.APIETag(api)}, nil
}

// viewNewAPI returns the answer to a registration.
func viewNewAPI(api store.API, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return tagged{body: admin.ViewAPI(api), etag: admin.APIETag(api), location: apisPath + "/" + url.PathEscape(api.ID)}, nil
}

func listAPIs(x *call, u *admin.Admin) (any, error) {
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	page, more, err := u.APIs(x.Context(), p)
	if err != nil {
		return nil, err
	}
	return listOf("apis", page, more, func(api store.API) string { return api.ID }, admin.ViewAPI), nil
}

func createAPI(x *call, u *admin.Admin, v admin.APIView) (any, error) {
	return viewNewAPI(u.CreateAPI(x.Context(), v))
}

func showAPI(x *call, u *admin.Admin) (any, error) { return viewAPI(u.API(x.Context(), x.names[0])) }

// applyAPI answers PUT: the same request again changes nothing.
func applyAPI(x *call, u *admin.Admin, v admin.APIView) (any, error) {
	api, created, err := u.ApplyAPI(x.Context(), x.names[0], x.ifMatch(), v)
	if created {
		return viewNewAPI(api, err)
	}
	return viewAPI(api, err)
}

func deleteAPI(x *call, u *admin.Admin) (any, error) {
	_, err := u.DeleteAPI(x.Context(), x.names[0], x.ifMatch())
	return nil, err
}
