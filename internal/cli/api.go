package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/show"
)

func newAPI(s *settings) *cobra.Command {
	return parent("api", "Register and manage APIs", `Register and manage APIs (resources, RFC 8707): what access tokens are for. A
scope belongs to one API. Clients that are allowed an API (mintage client update
ID --add-api) name it by their scope, or by the parameter resource to get a token
for it alone. The commands call the server, or open the store if no server runs. A
change applies within two seconds.`,
		newAPICreate(s), newAPIList(s), newAPIShow(s), newAPIConsent(s), newAPIUpdate(s), newAPIDelete(s))
}

// apiFlags holds the values of the flags for an API's settings.
type apiFlags struct {
	name, format, lifetime, defaults string
	scopes, texts                    []string
	open                             bool
	lists                            listFlags // of an update
}

func (f *apiFlags) register(set *pflag.FlagSet, scope string) {
	set.StringVar(&f.name, "name", "", "what people call it")
	set.StringArrayVar(&f.scopes, "scope", nil, scope)
	set.StringArrayVar(&f.texts, "scope-text", nil, "text of a scope in another language of the pages: \"LANGUAGE SCOPE=TEXT\", without TEXT to remove it; repeatable")
	set.StringVar(&f.format, "token-format", "", "opaque, jwt, or \"\" for what each client is registered for")
	set.StringVar(&f.lifetime, "access-token-lifetime", "", "how long its access tokens live; \"default\": the server's access_token_lifetime")
	set.BoolVar(&f.open, "self-registered-clients", false, "let clients that registered themselves ask for it")
	set.StringVar(&f.defaults, "default-scope", "", "scopes that such a client gets if it requests none, separated by spaces")
}

// apply changes the settings of v whose flags were given.
func (f *apiFlags) apply(cmd *cobra.Command, v *adminapi.API) error {
	set := cmd.Flags()
	f.lists.lost = nil // of an earlier attempt
	if set.Changed("name") {
		v.Name = f.name
	}
	f.applyScopes(cmd, v)
	for _, typed := range f.texts {
		language, text, ok := strings.Cut(typed, " ")
		name, text, ok2 := strings.Cut(text, "=")
		i := slices.IndexFunc(v.Scopes, func(s adminapi.APIScope) bool { return s.Name == name })
		if !ok || !ok2 || i < 0 {
			return &oauth.Invalid{Field: "scope-text", Message: fmt.Sprintf("%q is not LANGUAGE SCOPE=TEXT with a scope of the API", typed)}
		}
		setText(&v.Scopes[i], language, text)
	}
	if set.Changed("token-format") {
		v.TokenFormat = f.format
	}
	if set.Changed("access-token-lifetime") {
		if v.AccessTokenLifetime = &f.lifetime; isDefault(f.lifetime) {
			v.AccessTokenLifetime = nil
		}
	}
	if set.Changed("self-registered-clients") {
		v.SelfRegistered = f.open
	}
	return nil
}

// applyScopes changes the scopes and the default scope of v.
func (f *apiFlags) applyScopes(cmd *cobra.Command, v *adminapi.API) {
	set, old, defaults := cmd.Flags(), v.Scopes, oauth.Scope(v.DefaultScope)
	if set.Changed("scope") {
		v.Scopes = []adminapi.APIScope{}
		for _, text := range f.scopes {
			v.Scopes = withText(v.Scopes, text, old)
		}
	}
	if set.Changed("default-scope") {
		v.DefaultScope = f.defaults
	}
	if f.lists.add == nil {
		return
	}
	fewer := *f.lists.remove["scope"]
	for _, name := range fewer {
		if !slices.ContainsFunc(old, func(was adminapi.APIScope) bool { return was.Name == name }) {
			f.lists.missing(cmd, "scope", name)
		}
	}
	v.Scopes = slices.DeleteFunc(slices.Clone(v.Scopes), func(s adminapi.APIScope) bool { return slices.Contains(fewer, s.Name) })
	for _, text := range *f.lists.add["scope"] {
		v.Scopes = withText(v.Scopes, text, old)
	}
	removed := oauth.Scope(strings.Join(*f.lists.remove["default-scope"], " "))
	for _, name := range removed.Without(defaults).Tokens() {
		f.lists.missing(cmd, "default-scope", name)
	}
	v.DefaultScope = string(oauth.Scope(v.DefaultScope).Without(removed).Union(oauth.Scope(strings.Join(*f.lists.add["default-scope"], " "))))
	var lost []string
	for _, s := range old {
		if !slices.Contains(fewer, s.Name) && !slices.ContainsFunc(v.Scopes, func(is adminapi.APIScope) bool { return is.Name == s.Name }) {
			lost = append(lost, s.Name)
		}
	}
	f.lists.drops("scope", lost)
	f.lists.drops("default-scope", defaults.Without(removed).Without(oauth.Scope(v.DefaultScope)).Tokens())
}

// withText adds a scope as it is typed, NAME or NAME=TEXT, to a list or changes its
// English text. A scope that old has keeps its other texts.
func withText(list []adminapi.APIScope, typed string, old []adminapi.APIScope) []adminapi.APIScope {
	name, text, given := strings.Cut(typed, "=")
	i := slices.IndexFunc(list, func(s adminapi.APIScope) bool { return s.Name == name })
	if i < 0 {
		s := adminapi.APIScope{Name: name}
		if k := slices.IndexFunc(old, func(s adminapi.APIScope) bool { return s.Name == name }); k >= 0 {
			s = old[k]
		}
		list, i = append(list, s), len(list)
	}
	if given {
		setText(&list[i], pages.Locales[0], text)
	}
	return list
}

// setText sets the text of a scope in a language; "" removes it.
func setText(s *adminapi.APIScope, language, text string) {
	if s.Texts == nil {
		s.Texts = map[string]string{}
	}
	if s.Texts[language] = text; text == "" {
		delete(s.Texts, language)
	}
}

func newAPICreate(s *settings) *cobra.Command {
	var f apiFlags
	var id string
	cmd := &cobra.Command{
		Use:   "create --id URI --name NAME --scope \"SCOPE=TEXT\"",
		Short: "Register an API",
		Long: `Register an API with its scopes. Its id is an absolute URI: clients name it by the
parameter resource, and it is the audience (aud) of its access tokens. A trailing
slash and the case of the host make no other API.`,
		Example: `  mintage api create --id https://api.example.com/orders --name Orders \
    --scope "orders:read=Read your orders" --scope "orders:write=Place and cancel orders"

  # JWT access tokens that live ten minutes, also for clients that nobody registers
  mintage api create --id https://mcp.example.com/mcp --name "Tickets" --scope "tickets=Use your tickets" \
    --token-format jwt --access-token-lifetime 10m --self-registered-clients --default-scope tickets`,
	}
	cmd.Flags().StringVar(&id, "id", "", "absolute URI of the API (required)")
	f.register(cmd.Flags(), "scope, with a text in English for the consent page: \"SCOPE=TEXT\"; repeatable")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (string, error) {
		v := adminapi.API{ID: id}
		if err := f.apply(cmd, &v); err != nil {
			return "", err
		}
		err := a.Post(cmd.Context(), v, &v, "apis")
		return fmt.Sprintf("API %s is registered", v.ID), err
	})
}

func newAPIList(s *settings) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:     "list [--match TEXT]",
		Short:   "List APIs",
		Long:    "List APIs with their scopes and the form and lifetime of their access tokens.",
		Example: `  mintage api list --match orders`,
	}
	l.register(cmd, "id or name", "id", nil)
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, err := readList[adminapi.API](cmd, a, "apis", l, nil)
		return listed(cmd, list, err, "no API is found", "ID|NAME|TOKENS|LIFETIME|SCOPES", func(v adminapi.API) []string {
			var scopes []string
			for _, s := range v.Scopes {
				scopes = append(scopes, s.Name)
			}
			return []string{v.ID, v.Name, show.OrDash(v.TokenFormat), show.OrDash(lifetime(v)), strings.Join(scopes, " ")}
		})
	})
}

// lifetime returns the lifetime of an API's access tokens; "": the server's.
func lifetime(v adminapi.API) string {
	if v.AccessTokenLifetime == nil {
		return ""
	}
	return *v.AccessTokenLifetime
}

func newAPIShow(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "show ID",
		Short: "Show one API",
		Long:  "Show the registration of an API, its scopes with their texts, and its last events.",
		Args:  exactly(1, "one API's id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.API
		_, err := a.Get(cmd.Context(), &v, nil, "apis", args[0])
		if err != nil {
			return nil, nil, err
		}
		v.Events, err = eventsAbout(cmd.Context(), a, "api", v.ID)
		list := [][2]string{{"id", v.ID}, {"name", v.Name}, {"access tokens", v.TokenFormat}}
		if v.AccessTokenLifetime != nil {
			list = append(list, [2]string{"access token lifetime", lifetime(v)})
		}
		return v, fields(append(list, [2]string{"self-registered clients", fmt.Sprint(v.SelfRegistered)}, [2]string{"default scope", v.DefaultScope},
			[2]string{"created", instant(v.CreatedAt)}, [2]string{"updated", instant(v.UpdatedAt)}), func(w io.Writer) error {
			var rows [][]string
			for _, s := range v.Scopes {
				for _, language := range pages.Locales {
					if text := s.Texts[language]; text != "" {
						rows = append(rows, []string{s.Name, language, text})
					}
				}
				if len(s.Texts) == 0 {
					rows = append(rows, []string{s.Name, "-", "-"})
				}
			}
			fmt.Fprintln(w)
			return show.Table(w, "SCOPE|LANGUAGE|TEXT", rows)
		}, events(v.Events)), err
	})
}

func newAPIUpdate(s *settings) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use:   "update ID [--add-scope \"SCOPE=TEXT\"] [--name NAME]",
		Short: "Change an API's settings",
		Long: `Change settings of an API; the others stay. A scope that is removed leaves tokens
of existing grants with their next refresh.

Lists grow by --add-NAME and shrink by --remove-NAME. A plain --NAME sets all of a
list: if that would remove something, the command says what, and does it only with
--replace or after a yes at the terminal.`,
		Example: `  mintage api update https://api.example.com/orders --add-scope "orders:cancel=Cancel your orders"
  mintage api update https://api.example.com/orders --scope-text "ja orders:read=注文を見る"`,
		Args:    exactly(1, "one API's id"),
		PreRunE: requireFlag,
	}
	f.register(cmd.Flags(), "scope, instead of all that there were; one that stays keeps its texts: SCOPE= removes the English one; repeatable")
	for _, name := range []string{"scope", "default-scope"} {
		f.lists.register(cmd.Flags(), name, "", true)
	}
	cmd.Flags().Lookup("add-scope").Usage = "add a scope, or change its text: \"SCOPE=TEXT\", without TEXT to remove it; repeatable"
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		old, next, err := adminclient.Update(cmd.Context(), a, func(v *adminapi.API) error { return f.apply(cmd, v) },
			func() error { return f.lists.confirm(cmd) }, "apis", args[0])
		return updated("API "+next.ID, next.Changes(old)), err
	})
}

func newAPIDelete(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID --yes",
		Short: "Delete an API",
		Long: `Delete an API. Access tokens that name it are inactive at once, also if the API is
registered again. Grants go on for the other APIs that they have.`,
		Example: `  mintage api delete https://api.example.com/orders --yes`,
		Args:    exactly(1, "one API's id"),
	}
	requireYes(cmd)
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		var v adminapi.API
		if _, err := a.Get(cmd.Context(), &v, nil, "apis", args[0]); err != nil {
			return "", err
		}
		return fmt.Sprintf("API %s is deleted", v.ID), a.Delete(cmd.Context(), nil, "apis", v.ID)
	})
}
