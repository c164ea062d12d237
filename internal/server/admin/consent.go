package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
)

// previewConsent answers with the texts of the consent page for an application that
// requests all scopes of an API.
func (a *API) previewConsent(x *call, u *admin.Admin) (any, error) {
	api, err := u.APIs().Read(x.Context(), x.names[0])
	if err != nil {
		return nil, err
	}
	if a.Pages == nil {
		return nil, &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:no-consent-page", Title: "no consent page", Status: http.StatusConflict,
			Detail: "no server runs here, or its login.mode is off", Advice: "start the server, or set login.mode"}}
	}
	v := adminapi.ConsentPreview{Locale: cmp.Or(x.params.Get("locale"), pages.Locales[0])}
	if !slices.Contains(pages.Locales, v.Locale) {
		return nil, &oauth.Invalid{Field: "locale", Message: "must be one of " + strings.Join(pages.Locales, ", ")}
	}
	page := pages.Consent{Client: "Example", Host: "client.example", Username: "alice"}
	for _, s := range api.Scopes {
		page.Scopes = append(page.Scopes, pages.Scope{Name: s.Name, Texts: s.Texts})
	}
	words, err := a.Pages.Words(v.Locale, page)
	for _, w := range words {
		v.Words = append(v.Words, adminapi.Word(w))
	}
	return v, err
}

// usage answers with a summary of what users have allowed a client.
func usage(x *call, u *admin.Admin) (any, error) { return u.Grants().Usage(x.Context(), x.names[0]) }
