package oauth

import (
	"strings"
	"unicode/utf8"
)

// Limits of a user's names, in bytes.
const (
	MaxSubject = 255
	MaxName    = 100 // by which a user is greeted
)

// IsText reports whether s is UTF-8 without control characters, and its length in
// bytes is at most most.
func IsText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, IsControl)
}

// IsSubject reports whether s can name a subject.
func IsSubject(s string) bool { return s != "" && IsText(s, MaxSubject) }

// InSmallLetters returns s with its ASCII letters in lower case. It leaves other letters
// alone: Unicode maps some to ASCII, such as the Kelvin sign to k, and two names would be one.
func InSmallLetters(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}
