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

// ReadUserCode returns the user code that a user has typed, in the form of ShowUserCode.
// It accepts any case, missing hyphens, and the full-width forms of a Japanese keyboard.
// It returns false if the text does not have the form of a user code.
func ReadUserCode(text string) (string, bool) {
	letters := strings.ToUpper(strings.Map(func(r rune) rune {
		if '\uff01' <= r && r <= '\uff5e' { // full-width ASCII
			r -= '\uff01' - '!'
		}
		// U+30FC is on the hyphen's key of a Japanese keyboard.
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
