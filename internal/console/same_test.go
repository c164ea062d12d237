package console_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/cli"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/operator"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A furnished fixture has one thing of each kind, and an admin's browser.
type furnished struct {
	*fixture
	alice *browser
	names *strings.Replacer // of the paths of its pages
	ids   []string          // pairs of a random id and a name that replaces it
}

func furnish(t *testing.T) *furnished {
	t.Helper()
	f := &furnished{fixture: open(t)}
	f.alice = f.operator("alice", operator.Admin)
	c := f.shop("Shop", "shop")
	if _, _, err := f.cases.Users().Create(t.Context(), account.Registration{Username: "erin", PasswordHash: keys.UnmatchableHash()}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.cases.Users().SetTOTP(t.Context(), "erin", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.cases.APIs().Create(t.Context(), adminapi.API{ID: "https://orders.example", Name: "Orders", Scopes: []adminapi.APIScope{
		{Name: "a", Texts: map[string]string{"en": "See a", "ja": "aを見る"}}, {Name: "b"}}}); err != nil {
		t.Fatal(err)
	}
	g := storetest.Everyday(1)
	now := grant.At(f.now)
	g.ClientID, g.AuthorizedAt, g.RotatedAt, g.ExpiresAt, g.DeleteAfter = c.ID, now.Add(-time.Hour), now.Add(-time.Hour), now.Add(time.Hour), now.Add(2*time.Hour)
	if err := f.store.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	f.ids = []string{c.Secrets[0].ID, "FIRST", g.ID.String(), "GRANT"}
	f.names = strings.NewReplacer("{secret}", c.Secrets[0].ID, "{grant}", g.ID.String(), "{subject}", url.QueryEscape(g.Subject))
	l, err := net.Listen("unix", filepath.Join(f.data, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(f.answer)}}
	server.Start()
	t.Cleanup(server.Close)
	return f
}

// answer answers the request of a command like the server. The actor has the admin's name,
// so that the audit records are equal.
func (f *furnished) answer(w http.ResponseWriter, r *http.Request) {
	f.console.API.ServeHTTP(w, r.WithContext(serveradmin.WithActor(r.Context(), admin.Actor{Via: admin.ViaConsole, Name: "alice", Role: operator.Admin})))
}

// run runs a command as a shell would.
func (f *furnished) run(command string) {
	f.t.Helper()
	words := wordsOf(f.t, command)
	flags := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") })
	if flags < 0 {
		flags = len(words)
	}
	var out bytes.Buffer
	root := cli.Root("test")
	root.SetArgs(slices.Insert(words, flags, "--data", f.data))
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.ExecuteContext(f.t.Context()); err != nil {
		f.t.Errorf("%s: %v\n%s", command, err, out.Bytes())
	}
}

// state returns everything that the admin API lists, including events, as one line each,
// without random ids.
func (f *furnished) state() []string {
	f.t.Helper()
	var all []string
	ids := f.ids
	for _, path := range []string{"clients", "apis", "users", "restores", "grants?subject={subject}", "cutoffs?subject={subject}", "events?client_id=shop", "events?client_id=new",
		"events?subject=erin", "events?subject=mallory", "events?subject={subject}", "events?grant_id={grant}", "events?api=https://orders.example", "events?api=https://new.example"} {
		w := httptest.NewRecorder()
		f.answer(w, httptest.NewRequest(http.MethodGet, "/admin/v1/"+f.names.Replace(path), nil))
		var answer map[string]json.RawMessage
		var items []json.RawMessage
		noun, _, _ := strings.Cut(path, "?")
		if err := errors.Join(json.Unmarshal(w.Body.Bytes(), &answer), json.Unmarshal(answer[noun], &items)); err != nil || w.Code != http.StatusOK {
			f.t.Fatalf("%s: %d, %v\n%s", path, w.Code, err, w.Body)
		}
		for _, item := range items {
			if noun == "restores" { // its command opens the store, and has a clock of its own
				var made adminapi.Restore
				if err := json.Unmarshal(item, &made); err != nil {
					f.t.Fatal(err)
				}
				item = fmt.Appendf(nil, "%s %t", made.Backup, made.InForce)
			}
			all = append(all, path+" "+string(item))
			var c adminapi.Client
			if err := json.Unmarshal(item, &c); err == nil && noun == "clients" {
				for i, s := range c.Secrets {
					ids = append(ids, s.ID, fmt.Sprint("SECRET ", i))
				}
			}
		}
	}
	stored, err := f.cases.Keys().List(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, k := range stored {
		all = append(all, fmt.Sprintf("%s key %s, used from %s", k.Purpose, k.Phase, k.ActiveAt))
	}
	replacer := strings.NewReplacer(ids...)
	for i, line := range all {
		all[i] = replacer.Replace(line)
	}
	slices.Sort(all)
	return all
}

// without returns the lines of list that other lacks.
func without(list, other []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(list), func(line string) bool { return slices.Contains(other, line) }), "\n")
}

// last returns the last command on a page.
func (f *furnished) last(w *httptest.ResponseRecorder) string {
	f.t.Helper()
	m := command.FindAllStringSubmatch(w.Body.String(), -1)
	if m == nil {
		f.t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	return html.UnescapeString(m[len(m)-1][1])
}

// settled returns a form with a value for each setting of a client that a form can change,
// and with each flag set. It omits what a command reads from a file, and what contradicts the
// rest: an audience, a profile, assertions and token exchange.
func settled(t *testing.T) url.Values {
	t.Helper()
	form := url.Values{
		"name": {"It's $(id), 50%"}, "auth_method": {"post"}, "dpop": {"required"}, "retry_window": {"30s"}, "reuse_grace": {"1h"},
		"redirect_uris": {"https://shop.example/cb\nhttps://shop.example/two?a=1,2"}, "scope": {"openid read write"}, "access_token_format": {"jwt"}, "signing_alg": {"EdDSA"}, "jwt_type": {"JWT"},
		"id_token_signing_alg": {"ES256"}, "id_token_lifetime": {"10m"}, "userinfo_signed_response_alg": {"RS256"}, "post_logout_redirect_uris": {"https://shop.example/bye"},
		"backchannel_logout_uri": {"https://shop.example/out"}, "apis": {"https://orders.example a"}, "introspect_audience": {"https://a.example\nb"},
	}
	for _, s := range client.Settings {
		if s.Fixed || s.File || s.Group == "Client assertions" || s.Group == "Token exchange" || s.Member == "audience" || s.Member == "profile" {
			continue
		}
		if _, flag := s.Field(new(client.Registration)).(*bool); flag {
			form.Set(s.Member, "1")
		}
		if !form.Has(s.Member) {
			t.Errorf("no form sets %s", s.Member)
		}
	}
	return form
}

// plain is the form of a client with only the required fields.
var plain = url.Values{"name": {"Shop"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}, "auth_method": {"either"}}

// A form and the command that its page shows have the same effect: the test sends one to a
// store, and runs the other on an equal store.
func TestAFormDoesWhatItsCommandDoes(t *testing.T) {
	kind := func(name string, more url.Values) url.Values {
		form := url.Values{"kind": {name}, "id": {"new"}, "name": {"It's new"}}
		for name, value := range more {
			form[name] = value
		}
		return form
	}
	redirect := url.Values{"redirect_uris": {"https://new.example/cb\nhttps://new.example/a,b"}, "scope": {"openid profile"}}
	type change struct {
		path string
		form url.Values
	}
	shop, orders, all := "/clients/shop/edit", "/apis/https:%2F%2Forders.example/edit", settled(t)
	for name, changes := range map[string][]change{
		"a web client":          {{"/new/client", kind("web", redirect)}},
		"a page in the browser": {{"/new/client", kind("browser", redirect)}},
		"a native client":       {{"/new/client", kind("native", url.Values{"redirect_uris": {"http://127.0.0.1/cb"}, "scope": {"read"}})}},
		"a service":             {{"/new/client", kind("service", url.Values{"scope": {"read"}})}},
		"a device":              {{"/new/client", kind("device", url.Values{"scope": {"openid"}})}},
		"a resource server":     {{"/new/client", kind("api", nil)}},
		"settings":              {{shop, all}},
		"no settings":           {{shop, all}, {shop, plain}},
		"the same settings":     {{shop, plain}},
		"a client is disabled":  {{"/clients/shop/state", url.Values{"state": {"disabled"}}}},
		"a client is enabled":   {{"/clients/shop/state", url.Values{"state": {"disabled"}}}, {"/clients/shop/state", url.Values{"state": {"enabled"}}}},
		"a secret":              {{"/clients/shop/secrets", nil}},
		"a secret that expires": {{"/clients/shop/secrets", url.Values{"expires": {"90d"}}}},
		"a secret is revoked":   {{"/clients/shop/secrets/{secret}/revoke", url.Values{"typed": {"shop"}}}},
		"a client is deleted":   {{"/clients/shop/delete", url.Values{"typed": {"shop"}, "counted": {"9"}}}},
		"a user":                {{"/new/user", url.Values{"username": {"mallory"}, "name": {"It's Mallory"}}}},
		"a password":            {{"/users/erin/password", nil}},
		"a lost password":       {{"/users/erin/password", url.Values{"grants": {"1"}}}},
		"a user is disabled":    {{"/users/erin/disable", url.Values{"counted": {"9"}}}},
		"a user is enabled":     {{"/users/erin/disable", url.Values{"counted": {"9"}}}, {"/users/erin/enable", nil}},
		"a factor":              {{"/users/erin/factor", nil}},
		"an API":                {{"/new/api", url.Values{"id": {"https://new.example"}, "name": {"It's new"}, "scopes": {"n:a=A, b = c\nn:b"}}}},
		"texts of scopes":       {{orders, url.Values{"name": {"Orders"}, "scopes": {"a=Look at a\nb=See b"}}}},
		"a text is cleared":     {{orders, url.Values{"name": {"Orders"}, "scopes": {"a\nb"}}}},
		"other scopes":          {{orders, url.Values{"name": {"The orders"}, "scopes": {"c=See c\na=See a"}}}},
		"the same API":          {{orders, url.Values{"name": {"Orders"}, "scopes": {"a=See a\nb"}}}},
		"an API is deleted":     {{"/apis/https:%2F%2Forders.example/delete", url.Values{"typed": {"https://orders.example"}}}},
		"a restore":             {{"/new/restore", url.Values{"backup_time": {"2026-11-25T03:00:00Z"}}}},
		"keys":                  {{"/keys/rotate", nil}},
		"a grant":               {{"/grants/{grant}/end", nil}},
		"grants of a user":      {{"/grants/end?subject={subject}", url.Values{"counted": {"9"}}}},
		"grants of a client":    {{"/grants/end?client=shop", url.Values{"counted": {"9"}}}},
		"some grants":           {{"/grants/end?client=shop&subject={subject}", url.Values{"counted": {"9"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			byForm, byCommand := furnish(t), furnish(t)
			for _, c := range changes {
				path := byForm.names.Replace(c.path)
				// The page shows its command before the change, unless the change takes
				// one click.
				form, command := url.Values{"show": {"1"}}, ""
				for name, value := range c.form {
					form[name] = value
				}
				question := byForm.alice.get(path)
				switch body := question.Body.String(); {
				case strings.Contains(body, `name="show"`) || strings.HasPrefix(path, "/new/"):
					command = byForm.last(byForm.alice.post(path, form))
				case question.Code == http.StatusOK:
					command = byForm.last(question)
				}
				form.Del("show")
				form.Set("once", operator.NewForm())
				before := byForm.state()
				w := byForm.alice.post(path, form)
				if w.Code != http.StatusOK && w.Code != http.StatusSeeOther || !strings.Contains(name, "same") && slices.Equal(byForm.state(), before) {
					t.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
				}
				if command == "" && w.Code == http.StatusSeeOther {
					w = byForm.alice.get(w.Header().Get("Location"))
				}
				if command == "" {
					command = byForm.last(w)
				}
				for i := 0; i < len(byForm.ids); i += 2 {
					command = strings.ReplaceAll(command, byForm.ids[i], byCommand.ids[i])
				}
				byCommand.run(command)
				if form, state := byForm.state(), byCommand.state(); !slices.Equal(form, state) {
					t.Errorf("%s\nthe form has made\n%s\nand the command\n%s", command, without(form, state), without(state, form))
				}
			}
		})
	}
}
