package pages_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/pages"
)

// A self-registered client's own texts come after what is certain, and in quotation
// marks.
func TestConsentOfAClientThatDescribesItself(t *testing.T) {
	s := newSet(t, pages.Options{})
	const id = "https://agent.example/oauth/client.json"
	for name, c := range map[string]struct {
		host      string
		local     pages.Local
		says, not []string
	}{
		"its own host":            {"agent.example", "", []string{"Your answer goes to agent.example.", "Allow access only if you know agent.example and trust it."}, []string{"not an address of", "claim to be this one"}},
		"another host":            {"evil.example", "", []string{"Your answer goes to evil.example.", "This is not an address of agent.example."}, []string{"claim to be this one"}},
		"a host in other letters": {"xn--gent-2ta.example", "", []string{"Your answer goes to xn--gent-2ta.example.", "This is not an address of agent.example."}, nil},
		"a program":               {"127.0.0.1:3118", pages.LocalProgram, []string{"Your answer goes to a program on this device, where any program can claim to be this one: allow access only if you have just started this sign-in yourself. This is not an address of agent.example."}, []string{"trust it"}},
		"an app":                  {"cursor:", pages.LocalApp, []string{"the app on this device that opens cursor: links, and any app can claim to be it: allow access only if you have just started this sign-in yourself. This is not an address of agent.example."}, []string{"trust it"}},
	} {
		root := render(t, s, "en", pages.Consent{Client: "Your Bank", Own: true, Address: id, AddressHost: "agent.example", Host: c.host, Local: c.local, Name: "Alice", Username: "alice"})
		text := strings.NewReplacer("“ ", "“", " ”", "”", " .", ".").Replace(textOf(elements(root, "main")[0]))
		at := 0
		for _, want := range []string{"Allow agent.example to access", id, "Your answer goes to", "calls itself “Your Bank”. Nobody has checked this name."} {
			i := strings.Index(text, want)
			if i < at {
				t.Errorf("%s: %q is missing, or comes too early: %s", name, want, text)
			}
			at = i
		}
		if strings.Count(text, "Your Bank") != 1 || len(elements(root, "img")) > 0 {
			t.Errorf("%s: %s", name, text)
		}
		if n := strings.Count(text, "this device"); c.local != "" && n != 1 {
			t.Errorf("%s: the page speaks of this device %d times", name, n)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page does not say %q: %s", name, want, text)
			}
		}
		for _, other := range c.not {
			if strings.Contains(text, other) {
				t.Errorf("%s: the page says %q: %s", name, other, text)
			}
		}
	}
}
