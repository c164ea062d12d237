package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
)

// clientPages are the pages about clients.
type clientPages struct{ *Console }

// A clientsPage lists clients.
type clientsPage struct {
	Match, State string
	Own          bool // those that registered themselves
	Clients      []adminapi.Client
	pager
	view
}

func (c clientPages) clients(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := clientsPage{Match: strings.TrimSpace(q.Get("match")), State: q.Get("state"), Own: q.Get("own") != "", view: r.view(r.mintage("client list"))}
	query, flags := filtered(q.Get("after"), p.Match, p.State)
	if p.Own {
		query.Set("self_registered", "true")
		p.Command += " --self-registered"
	}
	p.Command += flags
	err := c.get(ctx, r, &p, query, "clients")
	p.pager = r.pages("/clients", p.Next)
	return reply{page: p}, err
}

// A clientKind is a kind of client that the registration form offers, with its settings.
type clientKind struct {
	Name     string
	Redirect bool // it has redirect URIs
	Scope    string
	flags    string
	set      func(*client.Registration)
}

var clientKinds = []clientKind{
	{"web", true, "openid profile", "", func(*client.Registration) {}},
	{"browser", true, "openid profile", " --public", func(r *client.Registration) { r.Auth = store.AuthNone }},
	{"native", true, "openid profile", " --public --native", func(r *client.Registration) { r.Auth, r.Native = store.AuthNone, true }},
	{"service", false, "", " --grant-types client_credentials", func(r *client.Registration) { r.GrantTypes = []string{store.GrantClientCredentials} }},
	{"device", false, "openid profile", " --public --grant-types device_code,refresh_token", func(r *client.Registration) {
		r.Auth, r.GrantTypes = store.AuthNone, []string{store.GrantDeviceCode, store.GrantRefreshToken}
	}},
	{"api", false, "", " --introspect", func(r *client.Registration) { r.Introspect = true }},
}

// A newClientPage is the form that registers a client of a kind. Without a kind, the page
// offers the kinds.
type newClientPage struct {
	form
	Kinds     []clientKind // to choose from; nil: Kind is chosen
	Kind      clientKind
	Name, ID  string
	Redirects string
	Scope     string
	Command   string
}

func (c clientPages) newClient(_ context.Context, r *request) (reply, error) {
	p := newClientPage{form: newForm(), Command: r.mintage("client create") + " --name NAME --redirect-uri URI --scope \"A B\""}
	i := slices.IndexFunc(clientKinds, func(k clientKind) bool { return k.Name == r.URL.Query().Get("kind") })
	if i < 0 {
		p.Kinds = clientKinds
		return reply{page: p}, nil
	}
	p.Kind = clientKinds[i]
	p.Scope, p.Command = p.Kind.Scope, p.command(r)
	return reply{page: p}, nil
}

// command returns the command that registers the client of the form.
func (p *newClientPage) command(r *request) string {
	orName := func(text, name string) string {
		if text == "" {
			return name
		}
		return quoteValue(text)
	}
	text := r.mintage("client create") + " --name " + orName(p.Name, "NAME")
	if p.ID != "" {
		text += " --id " + quoteValue(p.ID)
	}
	text += p.Kind.flags
	if p.Kind.Redirect && p.Redirects == "" {
		text += " --redirect-uri URI"
	}
	for _, uri := range lines(p.Redirects) {
		text += " --redirect-uri " + quoteValue(uri)
	}
	if p.Scope != "" || p.Kind.Name != "api" {
		text += " --scope " + orName(p.Scope, `"A B"`)
	}
	return text
}

// A secretPage answers the POST that created a secret. No other page shows the secret.
type secretPage struct {
	Client  adminapi.Client
	Secret  string // "": the client has none
	New     bool   // the client was created with it
	Overlap bool   // the client has another valid secret
	Kind    string
	Command string

	Programs []program // ready to run, for a new client
}

func (c clientPages) createClient(ctx context.Context, r *request) (reply, error) {
	i := slices.IndexFunc(clientKinds, func(k clientKind) bool { return k.Name == r.PostFormValue("kind") })
	if i < 0 {
		return reply{}, errNotFound
	}
	p := newClientPage{form: sentForm(r), Kind: clientKinds[i], Name: r.PostFormValue("name"), ID: strings.TrimSpace(r.PostFormValue("id")), Redirects: r.PostFormValue("redirect_uris"), Scope: strings.TrimSpace(r.PostFormValue("scope"))}
	if p.Command = p.command(r); p.Shown {
		return reply{page: p}, nil
	}
	in := adminapi.Client{State: store.ClientEnabled, Registration: client.Registration{ID: p.ID, Settings: store.Settings{Name: p.Name, Auth: store.AuthEither, RedirectURIs: lines(p.Redirects)}}}
	in.Scope = oauth.Scope(strings.Join(strings.Fields(p.Scope), " "))
	p.Kind.set(&in.Registration)
	var made adminapi.NewClient
	if again, err := p.refused(c.post(ctx, r, in, &made, "clients")); again || err != nil {
		return reply{status: http.StatusUnprocessableEntity, page: p}, err
	}
	// The secret is shown once: no failure after this may hide it.
	issuer, err := c.issuer(ctx, r)
	s := secretPage{Client: made.Client, Secret: made.Secret, New: true, Kind: p.Kind.Name, Command: p.Command}
	if err == nil {
		s.Programs = programsOf(made.Client, issuer)
	}
	return reply{page: s}, nil
}

// A clientPage shows a client.
type clientPage struct {
	adminapi.Client
	Rows   [][2]string     // settings
	Public bool            // it has no secret
	Usage  *adminapi.Usage // nil: the client did not register itself
	Uses   string          // the command that shows Usage
	Once   string
	view
}

func (c clientPages) client(ctx context.Context, r *request) (reply, error) {
	p := clientPage{Once: newForm().Once, view: r.view(r.mintage("client show", quote(r.PathValue("client"))))}
	if err := c.get(ctx, r, &p.Client, nil, "clients", r.PathValue("client")); err != nil {
		return reply{}, err
	}
	p.holds(string(p.State))
	if p.Done == "disabled" || p.Done == "enabled" {
		p.Command = r.mintage("client "+strings.TrimSuffix(p.Done, "d"), quote(p.ID))
	}
	if p.SelfRegistered != nil {
		p.Usage, p.Uses = &adminapi.Usage{}, r.mintage("client usage", quote(p.ID))
		if err := c.get(ctx, r, p.Usage, nil, "clients", p.ID, "usage"); err != nil {
			return reply{}, err
		}
	}
	p.Public = p.Auth == store.AuthNone || p.Auth.Asserts()
	for _, s := range client.Settings {
		if text := p.Text(s); s.Name != "" && s.Name != "name" && text != "" && text != "false" {
			p.Rows = append(p.Rows, [2]string{s.Name, text})
		}
	}
	return reply{page: p}, nil
}

// clientState disables or enables a client.
func (c clientPages) clientState(ctx context.Context, r *request) (to string, err error) {
	id, act, done := r.PathValue("client"), "enable", "enabled"
	if r.PostFormValue("state") == string(store.ClientDisabled) {
		act, done = "disable", "disabled"
	}
	return "/clients/" + url.PathEscape(id) + "?done=" + done, c.post(ctx, r, nil, nil, "clients", id, act)
}

// A settingField is a field of the form of a client's settings.
type settingField struct {
	client.Setting
	Kind  string // text, list, flag, json or file
	Value string
	On    bool // of a flag
	Wrong bool
}

// A settingGroup has the fields of one title.
type settingGroup struct {
	Title  string
	Fields []settingField
	Open   bool
}

// An editClientPage is the form of a client's settings.
type editClientPage struct {
	form
	ID      string
	ETag    string
	Name    string
	Groups  []settingGroup
	Command string
	sent    url.Values // nil: the form was not submitted yet
	wrong   []string   // fields that cannot be parsed
}

func (p *editClientPage) fill(v *adminapi.Client) {
	for _, s := range client.Settings {
		if s.Fixed {
			continue
		}
		f := settingField{Setting: s, Kind: "text", Wrong: p.Field == s.Member || slices.Contains(p.wrong, s.Member)}
		switch field := s.Field(&v.Registration).(type) {
		case *bool:
			f.Kind, f.On = "flag", *field
		case *[]string:
			f.Kind, f.Value = "list", strings.Join(*field, "\n")
		case *string:
			if f.Value = *field; s.File {
				f.Kind = "file" // PEM has lines
			}
		case **store.Milliseconds:
			if *field != nil {
				f.Value = config.Duration((*field).Duration()).String()
			}
		case *json.RawMessage:
			f.Kind, f.Value = "json", string(*field)
		}
		if p.sent != nil {
			f.Value = p.sent.Get(s.Member) // also text that cannot be parsed
		}
		i := slices.IndexFunc(p.Groups, func(g settingGroup) bool { return g.Title == s.Group })
		if i < 0 {
			p.Groups = append(p.Groups, settingGroup{Title: s.Group, Open: s.Group == "Client"})
			i = len(p.Groups) - 1
		}
		p.Groups[i].Fields = append(p.Groups[i].Fields, f)
		p.Groups[i].Open = p.Groups[i].Open || f.Wrong
	}
}

// readSettings copies the settings of a submitted form into v. It skips fields that it
// cannot parse, and returns them and their problems. In why, the first problem is without
// its field: the caller shows form.Field before it.
func readSettings(form url.Values, v *adminapi.Client) (wrong []string, why string) {
	unread := func(field, text string) {
		if wrong != nil {
			text = "; " + field + " " + text
		}
		wrong, why = append(wrong, field), why+text
	}
	for _, s := range client.Settings {
		if s.Fixed {
			continue
		}
		text := strings.TrimSpace(form.Get(s.Member))
		switch field := s.Field(&v.Registration).(type) {
		case *bool:
			*field = form.Get(s.Member) != ""
		case *[]string:
			*field = lines(text)
		case *string:
			// Browsers change line ends: keep a file that differs only in white space.
			if !s.File || !slices.Equal(strings.Fields(text), strings.Fields(*field)) {
				*field = text
			}
		case **store.Milliseconds:
			switch d, err := config.ParseDuration(text); {
			case text == "":
				*field = nil
			case err != nil:
				unread(s.Member, err.Error())
			default:
				*field = store.InMilliseconds(d.Std())
			}
		case *json.RawMessage:
			switch {
			case text == "":
				*field = nil
			case !json.Valid([]byte(text)):
				unread(s.Member, "is not valid JSON")
			default:
				*field = json.RawMessage(text)
			}
		}
	}
	return wrong, why
}

func (c clientPages) editClient(ctx context.Context, r *request) (reply, error) {
	p := editClientPage{form: newForm(), ID: r.PathValue("client")}
	var v adminapi.Client
	var err error
	if p.ETag, err = c.do(ctx, r, serveradmin.Ask{Method: http.MethodGet, Path: []string{"clients", p.ID}}, &v); err != nil {
		return reply{}, err
	}
	p.Name, p.Command = v.Name, r.updateCommand(p.ID, &client.Registration{}, &v.Registration)
	p.fill(&v)
	return reply{page: p}, nil
}

// saveClient changes the settings of a client, unless somebody else has changed them since
// the form was opened.
func (c clientPages) saveClient(ctx context.Context, r *request) (reply, error) {
	id := r.PathValue("client")
	p := editClientPage{form: sentForm(r), ID: id, ETag: r.PostFormValue("etag"), sent: r.PostForm}
	var v adminapi.Client
	present, err := c.do(ctx, r, serveradmin.Ask{Method: http.MethodGet, Path: []string{"clients", id}}, &v)
	if err != nil {
		return reply{}, err
	}
	before := v.Registration
	p.Name = v.Name
	again := func(status int) (reply, error) {
		p.Command = r.updateCommand(id, &before, &v.Registration)
		p.fill(&v)
		return reply{status: status, page: p}, nil
	}
	if p.wrong, p.Problem = readSettings(r.PostForm, &v); p.wrong != nil {
		p.Field = p.wrong[0]
		return again(http.StatusUnprocessableEntity)
	}
	if p.Shown {
		return again(http.StatusOK)
	}
	in := v
	in.Secrets, in.SelfRegistered, in.CreatedAt, in.UpdatedAt = nil, nil, nil, nil
	_, err = c.do(ctx, r, serveradmin.Ask{Method: http.MethodPut, Path: []string{"clients", id}, In: in, IfMatch: p.ETag}, nil)
	if p.stale(err) {
		p.ETag = present
		return again(http.StatusPreconditionFailed)
	}
	refused, err := p.refused(err)
	if refused {
		return again(http.StatusUnprocessableEntity)
	}
	return reply{to: "/clients/" + url.PathEscape(id) + "?done=saved"}, err
}

// expiries are the lifetimes that the form for a new secret offers.
var expiries = []string{"30d", "90d", "365d"}

func (c clientPages) addSecret(ctx context.Context, r *request) (reply, error) {
	id := r.PathValue("client")
	p := secretPage{Command: r.mintage("client secret add") + " "}
	in := adminapi.SecretRequest{}
	if text := r.PostFormValue("expires"); slices.Contains(expiries, text) {
		in.ExpiresIn = text
		p.Command += "--expires-in " + text + " "
	}
	p.Command += quote(id)
	var made adminapi.NewSecret
	if err := c.post(ctx, r, in, &made, "clients", id, "secrets"); err != nil {
		return reply{}, err
	}
	// As with a new client, no failure after this may hide the secret.
	p.Secret, p.Client.ID = made.Secret, id
	_ = c.get(ctx, r, &p.Client, nil, "clients", id)
	p.Overlap = len(p.Client.Secrets) > 1
	return reply{page: p}, nil
}

// askRevokeSecret asks before a secret is revoked. If the secret may be in use, the
// operator must type the id of the client.
func (c clientPages) askRevokeSecret(ctx context.Context, r *request) (askPage, act, error) {
	var v adminapi.Client
	if err := c.get(ctx, r, &v, nil, "clients", r.PathValue("client")); err != nil {
		return askPage{}, nil, err
	}
	i := slices.IndexFunc(v.Secrets, func(s adminapi.Secret) bool { return s.ID == r.PathValue("secret") })
	if i < 0 {
		return askPage{}, nil, errNotFound
	}
	s, query := v.Secrets[i], url.Values{}
	p := askPage{question: revokeSecretQuestion, Back: "/clients/" + url.PathEscape(v.ID), Command: r.mintage("client secret revoke") + " ",
		Facts: []fact{{Name: "Client", Value: v.Name}, {Name: "Secret", Value: s.ID, Code: true}, {Name: "Last used", At: s.LastUsedAt}}}
	if s.Revocation != "safe" {
		p.Typed, p.Doubt = v.ID, s.Revocation
		p.Command += "--force "
		query.Set("force", "true")
	}
	p.Command += quote(v.ID) + " " + s.ID
	return p, func() (string, error) {
		return p.Back + "?done=revoked", c.remove(ctx, r, query, "clients", v.ID, "secrets", s.ID)
	}, nil
}

func (c clientPages) askDeleteClient(ctx context.Context, r *request) (askPage, act, error) {
	var v adminapi.Client
	if err := c.get(ctx, r, &v, nil, "clients", r.PathValue("client")); err != nil {
		return askPage{}, nil, err
	}
	n, err := c.countGrants(ctx, r, "", v.ID)
	return askPage{question: deleteClientQuestion, Typed: v.ID, N: &n, Facts: []fact{{Name: "Name", Value: v.Name}},
			Back: "/clients/" + url.PathEscape(v.ID), Command: r.mintage("client delete", "--yes", quote(v.ID))},
		func() (string, error) { return "/clients?done=deleted", c.remove(ctx, r, nil, "clients", v.ID) }, err
}
