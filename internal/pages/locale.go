package pages

import (
	"slices"
	"strconv"
	"strings"
)

// Locales are the languages of the pages.
var Locales = []string{"en", "de", "es", "fr", "ja"}

// Locale returns the first supported language of ui_locales (OpenID Connect Core 1.0
// section 3.1.2.1), or else of Accept-Language, or else the default. It compares only
// primary subtags.
func (s *Set) Locale(uiLocales, acceptLanguage string) string {
	for tag := range strings.FieldsSeq(uiLocales) {
		if locale := supported(tag); locale != "" {
			return locale
		}
	}
	if locale := s.accepted(acceptLanguage); locale != "" {
		return locale
	}
	return s.locale
}

// maxRanges bounds the members of Accept-Language that are read. No browser sends as many.
const maxRanges = 50

// accepted returns the supported language of the highest quality in an Accept-Language
// field (RFC 9110 section 12.5.4), the first one if several have it. It skips malformed
// members.
func (s *Set) accepted(field string) (locale string) {
	best := 0.0
	for i, member := range strings.SplitN(field, ",", maxRanges+1) {
		if i == maxRanges {
			break
		}
		tag, weight, weighted := strings.Cut(member, ";")
		quality := 1.0
		if weighted {
			name, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
			q, err := strconv.ParseFloat(value, 64)
			if !strings.EqualFold(name, "q") || err != nil || !(q >= 0 && q <= 1) {
				continue
			}
			quality = q
		}
		tag = strings.TrimSpace(tag)
		candidate := supported(tag)
		if tag == "*" {
			candidate = s.locale
		}
		if candidate != "" && quality > best {
			best, locale = quality, candidate
		}
	}
	return locale
}

// supported returns the locale of a language tag by its primary subtag, or "".
func supported(tag string) string {
	primary, _, _ := strings.Cut(strings.ToLower(tag), "-")
	if slices.Contains(Locales, primary) {
		return primary
	}
	return ""
}
