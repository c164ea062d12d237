package oauth

import "strings"

// UserLetters are those of user codes: no vowels, which would make words, and no digits
// (RFC 8628 section 6.1).
const UserLetters = "BCDFGHJKLMNPQRSTVWXZ"

// Lengths of user codes, in letters.
const (
	MinUserCode = 8
	MaxUserCode = 12
)

// ShowUserCode writes the letters of a user code in groups of four.
func ShowUserCode(letters string) string {
	var groups []string
	for ; len(letters) > 4; letters = letters[4:] {
		groups = append(groups, letters[:4])
	}
	return strings.Join(append(groups, letters), "-")
}

// ReadUserCode returns a user code as it was shown, of what a user has typed: in any
// case, with or without hyphens, also in the full-width forms that a Japanese keyboard
// types. It reports whether the text has the form of one.
func ReadUserCode(text string) (string, bool) {
	letters := strings.ToUpper(strings.Map(func(r rune) rune {
		if '\uff01' <= r && r <= '\uff5e' { // full-width ASCII
			r -= '\uff01' - '!'
		}
		// U+30FC is on the key of the hyphen.
		if strings.ContainsRune("- \t\u2010\u2011\u2013\u2212\u3000\u30fc", r) {
			return -1
		}
		return r
	}, text))
	if len(letters) < MinUserCode || len(letters) > MaxUserCode || strings.Trim(letters, UserLetters) != "" {
		return "", false
	}
	return ShowUserCode(letters), true
}
