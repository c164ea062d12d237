package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/store"
)

// flagOf returns the flag of mintage client update that sets s to its value in r.
func flagOf(s client.Setting, r *client.Registration) (text string) {
	flag := func(value string) string { return " --" + s.Flag + " " + value }
	switch field := s.Field(r).(type) {
	case *bool:
		if *field {
			return " --" + s.Flag
		}
		return " --" + s.Flag + "=false"
	case *string:
		if s.File && *field != "" {
			return flag("FILE")
		}
		return flag(quoteValue(*field))
	case *[]string:
		for _, item := range *field {
			text += flag(quoteValue(item))
		}
		return cmp.Or(text, flag(quoteValue("")))
	case **store.Milliseconds:
		if *field == nil {
			return flag("default")
		}
		return flag(quoteValue(config.Duration((*field).Duration()).String()))
	case *json.RawMessage:
		if len(*field) > 0 {
			return flag("FILE")
		}
	}
	return flag(quoteValue(""))
}

// updateCommand returns the command that changes a client's settings from before to next.
// If they are equal, the command sets all that next has.
func (r *request) updateCommand(id string, before, next *client.Registration) string {
	text, replaces := "", false
	for _, s := range client.Settings {
		if s.Fixed || fmt.Sprint(s.Value(before)) == fmt.Sprint(s.Value(next)) {
			continue
		}
		text += flagOf(s, next)
		if was, ok := s.List(before); ok {
			is, _ := s.List(next)
			replaces = replaces || len(s.Lost(was, is)) > 0
		}
	}
	if replaces {
		text += " --replace"
	}
	if text == "" {
		return r.updateCommand(id, &client.Registration{}, next)
	}
	return r.mintage("client update") + text + " " + quote(id)
}

// apiCommand returns the command that registers an API if id is "", or else changes one
// from before to next. If they are equal, the command sets all that next has.
func (r *request) apiCommand(id string, before, next adminapi.API) string {
	flags := func(list []adminapi.APIScope) (text string) {
		for _, s := range list {
			// Without "=", an update leaves the text as it is.
			if id != "" || s.Texts["en"] != "" {
				s.Name += "=" + s.Texts["en"]
			}
			text += " --scope " + quoteValue(s.Name)
		}
		return text
	}
	text := ""
	if next.Name != before.Name {
		text += " --name " + quoteValue(next.Name)
	}
	if scopes := flags(next.Scopes); scopes != flags(before.Scopes) {
		text += scopes
	}
	if slices.ContainsFunc(before.Scopes, func(s adminapi.APIScope) bool {
		return !slices.ContainsFunc(next.Scopes, func(n adminapi.APIScope) bool { return n.Name == s.Name })
	}) {
		text += " --replace"
	}
	switch {
	case id == "":
		return r.mintage("api create") + " --id " + quoteValue(next.ID) + text
	case text == "":
		return r.apiCommand(id, adminapi.API{}, next)
	}
	return r.mintage("api update") + text + " " + quote(id)
}

// tokenCommand returns the command that creates a token like t.
func tokenCommand(t adminapi.Token) string {
	command := "mintage admin token create NAME --role " + t.Role
	if t.Realm != "" {
		command += " --realm " + t.Realm
	}
	return command
}
