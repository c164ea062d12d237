package admin

import (
	"errors"
	"net/url"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const trustsPath = "/admin/v1/trusts"

func viewTrust(t store.Trust, err error) (any, error) {
	return tagged{body: admin.ViewTrust(t), etag: admin.TrustETag(t)}, err
}

func listTrusts(x *call, u *admin.Admin) (any, error) {
	read := func(p adminapi.Page) ([]store.Trust, bool, error) { return u.Trusts().List(x.Context(), p) }
	return pageOf(x, "trusts", read, func(t store.Trust) string { return t.ID }, admin.ViewTrust)
}

func createTrust(x *call, u *admin.Admin, v adminapi.Trust) (any, error) {
	t, err := u.Trusts().Create(x.Context(), v)
	return tagged{body: admin.ViewTrust(t), etag: admin.TrustETag(t), location: trustsPath + "/" + url.PathEscape(t.ID)}, err
}

func changeTrust(x *call, u *admin.Admin, v adminapi.Trust) (any, error) {
	return viewTrust(u.Trusts().Change(x.Context(), x.names[0], x.ifMatch(), v))
}

func deleteTrust(x *call, u *admin.Admin) (any, error) {
	return nil, u.Trusts().Delete(x.Context(), x.names[0], x.ifMatch())
}

// judge reports whether the server would accept an assertion, and why not. It requires a
// running server, which has the keys of issuers.
func (a *API) judge(x *call, _ *admin.Admin, in adminapi.AssertionRequest) (any, error) {
	if a.Assertions == nil {
		return nil, noServer("start the server: it fetches the keys of issuers")
	}
	findings, out, err := a.Assertions.Findings(x.Context(), oauth.Secret(in.Assertion))
	if err != nil {
		return nil, err
	}
	j := adminapi.AssertionVerdict{Accepted: true, Findings: []adminapi.AssertionFinding{}}
	for _, f := range findings {
		j.Accepted = j.Accepted && f.Fault == ""
		j.Findings = append(j.Findings, adminapi.AssertionFinding(f))
	}
	if out.Trust != nil {
		v := admin.ViewTrust(*out.Trust)
		j.Trust, j.Subject = &v, out.Subject
	}
	if !j.Accepted {
		return j, nil
	}
	scope, err := issuer.Assertions{Issuer: a.issuer}.Foreseen(x.Context(), issuer.AssertionRequest{
		Trust: out.Trust, Subject: out.Subject, Named: out.Scope, NamesAny: out.Scoped, Resources: out.Resources,
	})
	granted := adminapi.AssertionFinding{Claim: "granted"}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return nil, err
	case err != nil:
		j.Accepted, granted.Fault = false, err.Error()
	}
	j.Scope, j.Findings = string(scope), append(j.Findings, granted)
	return j, nil
}
