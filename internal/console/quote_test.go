package console

import (
	"os/exec"
	"strings"
	"testing"
)

// A shell parses the output of quote as the original text, and the output contains no
// character that a terminal acts on.
func TestAShellParsesQuotedArgumentsAsTheOriginal(t *testing.T) {
	for _, text := range []string{
		"shop", "a b", "it's", "$(touch /tmp/x)", "`id`", `a"b\c`, "50%", "\x1b[31mred", "safe\u202eelbat", "zero\u200bwidth", "new\nline", "\x00"[:0], "-rf", "日本語", "%s\x07", `\033\x1b`, "a\u00a0b", "tab\t'q'",
	} {
		quoted := quote(text)
		if strings.ContainsAny(quoted, "\x1b\x07\n\t\u202e\u200b") {
			t.Errorf("%q is quoted with a character that a terminal acts on: %q", text, quoted)
		}
		out, err := exec.Command("sh", "-c", "printf '%s' "+strings.TrimPrefix(quoted, "-- ")).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is quoted as %s, which a shell reads as %q (%v)", text, quoted, out, err)
		}
	}
	if got := quote("-rf"); !strings.HasPrefix(got, "-- ") {
		t.Errorf("an argument that begins with a hyphen is quoted as %s", got)
	}
}
