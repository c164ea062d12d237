package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/pages"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
)

// apiPages are the pages about APIs.
type apiPages struct{ *Console }

// An apisPage lists APIs.
type apisPage struct {
	Match string
	APIs  []adminapi.API
	pager
	view
}

func (c apiPages) apis(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := apisPage{Match: strings.TrimSpace(q.Get("match")), view: r.view(r.mintage("api list"))}
	query, flags := filtered(q.Get("after"), p.Match, "")
	p.Command += flags
	err := c.get(ctx, r, &p, query, "apis")
	p.pager = r.pages("/apis", p.Next)
	return reply{page: p}, err
}

// An apiPage shows an API.
type apiPage struct {
	adminapi.API
	view
}

func (c apiPages) api(ctx context.Context, r *request) (reply, error) {
	p := apiPage{view: r.view(r.mintage("api show", quote(r.PathValue("api"))))}
	err := c.get(ctx, r, &p.API, nil, "apis", r.PathValue("api"))
	if p.Done == "created" {
		p.Command = r.apiCommand("", adminapi.API{}, p.API)
	}
	return reply{page: p}, err
}

// A consentPage previews the consent page of an API. It has no form: nobody can consent
// there.
type consentPage struct {
	adminapi.API
	Preview *adminapi.ConsentPreview // nil: this deployment has no consent page
	Locales []string
	Command string
}

func (c apiPages) consent(ctx context.Context, r *request) (reply, error) {
	locale := r.URL.Query().Get("locale")
	if !slices.Contains(pages.Locales, locale) {
		locale = r.locale
	}
	p := consentPage{Preview: &adminapi.ConsentPreview{}, Locales: pages.Locales, Command: r.mintage("api consent") + " --locale " + locale + " " + quote(r.PathValue("api"))}
	if err := c.get(ctx, r, &p.API, nil, "apis", r.PathValue("api")); err != nil {
		return reply{}, err
	}
	err := c.get(ctx, r, p.Preview, url.Values{"locale": {locale}}, "apis", r.PathValue("api"), "consent")
	if isKind(err, "no-consent-page") {
		p.Preview, err = nil, nil
	}
	return reply{page: p}, err
}

// An editAPIPage is the form of an API. Without an ETag, the API is new.
type editAPIPage struct {
	form
	ETag, ID, Name string
	Scopes         string // one SCOPE=TEXT a line, as in the flag --scope
	Command        string
}

func (c apiPages) newAPI(_ context.Context, r *request) (reply, error) {
	return reply{page: editAPIPage{form: newForm(), Command: r.mintage("api create") + ` --id URI --name NAME --scope "SCOPE=TEXT"`}}, nil
}

func (c apiPages) editAPI(ctx context.Context, r *request) (reply, error) {
	p := editAPIPage{form: newForm()}
	var api adminapi.API
	var err error
	if p.ETag, err = c.do(ctx, r, serveradmin.Ask{Method: http.MethodGet, Path: []string{"apis", r.PathValue("api")}}, &api); err != nil {
		return reply{}, err
	}
	p.ID, p.Name, p.Command = api.ID, api.Name, r.apiCommand(api.ID, adminapi.API{}, api)
	for _, s := range api.Scopes {
		p.Scopes += s.Name
		if text := s.Texts["en"]; text != "" {
			p.Scopes += "=" + text
		}
		p.Scopes += "\n"
	}
	return reply{page: p}, nil
}

// scopes returns the scopes of the form. It keeps the texts of old in languages other than
// English.
func (p *editAPIPage) scopes(old []adminapi.APIScope) []adminapi.APIScope {
	list := []adminapi.APIScope{}
	for _, line := range lines(p.Scopes) {
		name, text, _ := strings.Cut(line, "=")
		s := adminapi.APIScope{Name: strings.TrimSpace(name), Texts: map[string]string{}}
		for _, o := range old {
			if o.Name == s.Name {
				maps.Copy(s.Texts, o.Texts)
			}
		}
		if delete(s.Texts, "en"); strings.TrimSpace(text) != "" {
			s.Texts["en"] = strings.TrimSpace(text)
		}
		list = append(list, s)
	}
	return list
}

// saveAPI registers an API, or updates one (with If-Match: it fails if somebody else has
// changed the API since the form was opened).
func (c apiPages) saveAPI(ctx context.Context, r *request) (reply, error) {
	p := editAPIPage{form: sentForm(r), ETag: r.PostFormValue("etag"), ID: strings.TrimSpace(r.PostFormValue("id")), Name: strings.TrimSpace(r.PostFormValue("name")), Scopes: r.PostFormValue("scopes")}
	done, made := "created", serveradmin.Ask{Method: http.MethodPost, Path: []string{"apis"}}
	api, present := adminapi.API{ID: p.ID}, ""
	if id := r.PathValue("api"); id != "" {
		var err error
		if present, err = c.do(ctx, r, serveradmin.Ask{Method: http.MethodGet, Path: []string{"apis", id}}, &api); err != nil {
			return reply{}, err
		}
		p.ID, api.CreatedAt, api.UpdatedAt = id, nil, nil
		done, made = "saved", serveradmin.Ask{Method: http.MethodPut, Path: []string{"apis", id}, IfMatch: p.ETag}
	}
	before := api
	api.Name, api.Scopes = p.Name, p.scopes(api.Scopes)
	if p.Command = r.apiCommand(r.PathValue("api"), before, api); p.Shown {
		return reply{page: p}, nil
	}
	made.In = api
	_, err := c.do(ctx, r, made, nil)
	if p.stale(err) {
		p.ETag = present
		return reply{status: http.StatusPreconditionFailed, page: p}, nil
	}
	if again, err := p.refused(err); again || err != nil {
		return reply{status: http.StatusUnprocessableEntity, page: p}, err
	}
	return reply{to: "/apis/" + url.PathEscape(p.ID) + "?done=" + done}, nil
}

func (c apiPages) askDeleteAPI(ctx context.Context, r *request) (askPage, act, error) {
	var api adminapi.API
	err := c.get(ctx, r, &api, nil, "apis", r.PathValue("api"))
	return askPage{question: deleteAPIQuestion, Typed: api.ID, Facts: []fact{{Name: "Name", Value: api.Name}},
			Back: "/apis/" + url.PathEscape(api.ID), Command: r.mintage("api delete", "--yes", quote(api.ID))},
		func() (string, error) { return "/apis?done=deleted", c.remove(ctx, r, nil, "apis", api.ID) }, err
}

// A restoresPage lists declared restores.
type restoresPage struct {
	Restores []adminapi.Restore
	view
}

func (c *Console) restores(ctx context.Context, r *request) (reply, error) {
	p := restoresPage{view: r.view("")}
	err := c.get(ctx, r, &p, nil, "restores")
	return reply{page: p}, err
}

// A newRestorePage asks for the time of the backup from which a store was restored.
type newRestorePage struct {
	form
	Backup  string
	Command string
}

const declareCommand = "mintage restore --declare --yes --backup-time "

func (c *Console) newRestore(context.Context, *request) (reply, error) {
	return reply{page: newRestorePage{form: newForm(), Command: declareCommand + "INSTANT"}}, nil
}

// declareRestore declares that the store was restored by other means than the restore
// command. Nobody can undo that, but it affects only tokens that are newer than the
// store's state.
func (c *Console) declareRestore(ctx context.Context, r *request) (reply, error) {
	p := newRestorePage{form: sentForm(r), Backup: strings.TrimSpace(r.PostFormValue("backup_time"))}
	if p.Command = declareCommand + quoteValue(p.Backup); p.Shown {
		return reply{page: p}, nil
	}
	at, err := time.Parse(time.RFC3339, p.Backup)
	if err != nil {
		p.Field, p.Problem = "backup_time", "is not a time in RFC 3339, such as 2026-11-21T03:00:00Z"
		return reply{status: http.StatusUnprocessableEntity, page: p}, nil
	}
	if again, err := p.refused(c.post(ctx, r, adminapi.RestoreRequest{BackupTime: at}, nil, "restores")); again || err != nil {
		return reply{status: http.StatusUnprocessableEntity, page: p}, err
	}
	return reply{to: "/restores?done=declared"}, nil
}
