package client

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// IsSelfRegisteredID reports whether an id has the form of one of a client that registered
// itself.
func IsSelfRegisteredID(id string) bool { return keys.IsRegistration(id) || oauth.IsClientAddress(id) }

// ownClient returns a client that registered itself, with one redirect URI or, for the
// device grant alone, none.
func ownClient(realm, id, name, redirectURI string, grantTypes []string, now grant.Instant) *store.Client {
	c := &store.Client{
		ID: id, Realm: realm, State: store.ClientEnabled, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now,
		Settings: store.Settings{Name: name, Native: true, GrantTypes: grantTypes, RedirectURIs: []string{}},
	}
	if redirectURI != "" {
		c.RedirectURIs = []string{redirectURI}
	}
	return c
}

// ownGrantTypes returns the grant types of a client that registered itself: the default
// ones and, with device, the device grant.
func ownGrantTypes(device bool) []string {
	types := slices.Clone(store.DefaultGrantTypes)
	if device {
		types = append(types, store.GrantDeviceCode)
	}
	return types
}

// maxOwnName is the longest name that a client may give itself, in characters: more is
// a message, and no name.
const maxOwnName = 60

// OwnName returns the name that a client gives itself, or the host of its address
// if that is no short text of visible characters. Pages put it in quotation marks,
// which the name must not close; an apostrophe does not close them.
func OwnName(name any, address string) string {
	text, _ := name.(string)
	text = strings.TrimSpace(text)
	// Some format characters reverse the direction of the text around them. Some letters
	// and symbols are blank, so that a name of nothing else could not be seen.
	invisible := func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == '\u2800'
	}
	quote := func(r rune) bool {
		return unicode.Is(unicode.Quotation_Mark, r) && r != '\'' && r != '’' || strings.ContainsRune("ʺˮ״″‶〃˝˵˶‴‷⁗❛❜❝❞🙶🙷🙸", r)
	}
	if text == "" || !oauth.IsText(text, 4*maxOwnName) || utf8.RuneCountInString(text) > maxOwnName ||
		strings.ContainsFunc(text, invisible) || strings.ContainsFunc(text, quote) || strings.Contains(text, "''") || strings.Contains(text, "’’") || piled(text) {
		return oauth.Host(address)
	}
	return text
}

// piled reports whether a text has marks on marks as no language does: they would cover the
// words around it, or make it wider than its page. The rules are those of UTS #39 section
// 5.4: not the same nonspacing mark twice in a row, and not more than four.
func piled(text string) bool {
	n, last := 0, rune(-1)
	for _, r := range text {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			n, last = 0, -1
			continue
		}
		if n++; n > 4 || r == last {
			return true
		}
		last = r
	}
	return false
}

// OwnRedirectURIs returns the redirect URIs that are accepted of those that a client
// gives itself, at most as many as an operator may register.
func OwnRedirectURIs(given []any, schemes []string) (list []string) {
	for _, v := range given {
		uri, ok := v.(string)
		if ok && oauth.CheckOwnRedirectURI(uri, schemes...) == nil && len(list) < maxRedirectURIs {
			list = append(list, uri)
		}
	}
	return list
}
