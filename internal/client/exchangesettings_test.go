package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const stock = "https://api.example/stock"

// many returns n strings of a format with a number.
func many(n int, form string) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(form, i))
	}
	return list
}

// The settings of a registration about token exchange, and about reading tokens of other
// clients.
func TestSettingsAboutTokensOfOtherClients(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*client.Registration)
		field  string // that is refused; "": none
	}{
		"nothing":        {func(r *client.Registration) { r.ExchangeFrom, r.ExchangeAPIs = nil, nil }, ""},
		"of one client":  {func(*client.Registration) {}, ""},
		"of every one":   {func(r *client.Registration) { r.ExchangeFrom = []string{"*"} }, ""},
		"of fifty":       {func(r *client.Registration) { r.ExchangeFrom = many(50, "client%d") }, ""},
		"of more":        {func(r *client.Registration) { r.ExchangeFrom = many(51, "client%d") }, "exchange-from"},
		"of * and one":   {func(r *client.Registration) { r.ExchangeFrom = []string{"shop", "*"} }, "exchange-from"},
		"of no id":       {func(r *client.Registration) { r.ExchangeFrom = []string{""} }, "exchange-from"},
		"of a long id":   {func(r *client.Registration) { r.ExchangeFrom = []string{strings.Repeat("x", 256)} }, "exchange-from"},
		"for no API":     {func(r *client.Registration) { r.ExchangeAPIs = nil }, "exchange-from"},
		"of no client":   {func(r *client.Registration) { r.ExchangeFrom = nil }, "exchange-from"},
		"public":         {func(r *client.Registration) { r.Auth = store.AuthNone }, "exchange-from"},
		"serves a space": {func(r *client.Registration) { r.ServesAPIs = []string{"a b"} }, "serves-api"},
		"API twice":      {func(r *client.Registration) { r.ExchangeAPIs = []string{stock, stock + " stock:read"} }, "exchange-api"},
		"no API":         {func(r *client.Registration) { r.ExchangeAPIs = []string{"stock"} }, "exchange-api"},
		"mode":           {func(r *client.Registration) { r.ExchangeMode = "act" }, "exchange-mode"},
		"impersonates":   {func(r *client.Registration) { r.ExchangeMode = store.Impersonate }, ""},

		"beyond":              {func(r *client.Registration) { r.ExchangeBeyond = []string{stock + " stock:read"} }, ""},
		"beyond, all scopes":  {func(r *client.Registration) { r.ExchangeBeyond = []string{stock} }, "exchange-beyond"},
		"beyond, another API": {func(r *client.Registration) { r.ExchangeBeyond = []string{"https://api.example/orders stock:read"} }, "exchange-beyond"},
		"beyond what it may":  {func(r *client.Registration) { r.ExchangeBeyond = []string{stock + " stock:write"} }, "exchange-beyond"},
		"beyond, of all": {func(r *client.Registration) {
			r.ExchangeAPIs, r.ExchangeBeyond = []string{stock}, []string{stock + " stock:write"}
		}, ""},
		"beyond, an API twice": {func(r *client.Registration) { r.ExchangeBeyond = slices.Repeat([]string{stock + " stock:read"}, 2) }, "exchange-beyond"},

		"may act":         {func(r *client.Registration) { r.MayAct = "gateway" }, ""},
		"a space may act": {func(r *client.Registration) { r.MayAct = "a b" }, "may-act"},

		"id-jag": {func(r *client.Registration) { r.IDJAGs = []string{"https://other.example client=a"} }, ""},
		"id-jags of one server": {func(r *client.Registration) {
			r.IDJAGs = []string{"https://other.example client=a", "https://other.example client=b"}
		}, "id-jag"},
		"id-jag of nobody": {func(r *client.Registration) { r.IDJAGs = []string{"https://other.example"} }, "id-jag"},
		"id-jag, public":   {func(r *client.Registration) { r.IDJAGs = []string{"https://other.example client=a public"} }, "id-jag"},
		"twenty id-jags":   {func(r *client.Registration) { r.IDJAGs = many(20, "https://other%d.example client=a") }, ""},
		"more id-jags":     {func(r *client.Registration) { r.IDJAGs = many(21, "https://other%d.example client=a") }, "id-jag"},
		"a long id-jag": {func(r *client.Registration) {
			r.IDJAGs = []string{"https://other.example client=" + strings.Repeat("x", 1000)}
		}, "id-jag"},
		"id-jag, not as public": {func(r *client.Registration) {
			r.Auth, r.ExchangeFrom, r.ExchangeAPIs, r.IDJAGs = store.AuthNone, nil, nil, []string{"https://other.example client=a"}
		}, "id-jag"},

		"introspects": {func(r *client.Registration) { r.Introspect = true }, ""},
		"introspects, public": {func(r *client.Registration) {
			r.Auth, r.ExchangeFrom, r.ExchangeAPIs, r.Introspect = store.AuthNone, nil, nil, true
		}, "introspect"},
		"of no API":       {func(r *client.Registration) { r.APIs = []string{"stock"} }, "api"},
		"profile":         {func(r *client.Registration) { r.Profile = store.ProfileFAPI2 }, "auth-method"},
		"another profile": {func(r *client.Registration) { r.Profile = "fapi1" }, "profile"},
		"no JWT type":     {func(r *client.Registration) { r.JWTType = "jwt" }, "jwt-type"},
	} {
		r := client.Registration{ID: "gateway", Settings: store.Settings{
			Name: "Gateway", Auth: store.AuthEither, GrantTypes: []string{}, ExchangeFrom: []string{"shop"}, ExchangeAPIs: []string{stock + " stock:read"},
		}}
		c.change(&r)
		err, field := r.Check(), ""
		var invalid *oauth.Invalid
		if errors.As(err, &invalid) {
			field = invalid.Field
		}
		if field != c.field || (err == nil) != (c.field == "") {
			t.Errorf("%s: refused %q, not %q: %v", name, field, c.field, err)
		}
	}
}
