package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/show"
)

// quote returns a text for a POSIX shell, as an argument that is not the value of a flag.
func quote(text string) string {
	if strings.HasPrefix(text, "-") {
		return "-- " + quoteValue(text) // it is no flag
	}
	return quoteValue(text)
}

// quoteValue returns a text for a POSIX shell, as the value of a flag. Characters that a terminal
// or a page would act on, or would not show, are escaped.
func quoteValue(text string) string {
	if text == "" {
		return "''"
	}
	hidden := func(c rune) bool {
		return unicode.IsControl(c) || unicode.Is(unicode.C, c) || unicode.Is(unicode.Z, c) && c != ' '
	}
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return show.Quote(text)
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError || hidden(c):
			for _, octet := range []byte(text[i : i+n]) {
				fmt.Fprintf(&b, `\%03o`, octet)
			}
		case c == '\'':
			b.WriteString(`\047`)
		case c == '\\':
			b.WriteString(`\\`)
		case c == '%':
			b.WriteString("%%")
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return `"$(printf '` + b.String() + `')"`
}
