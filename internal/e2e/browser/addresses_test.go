//go:build e2e

package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/testkit"
)

// TestRedirectURIsAreWhatABrowserMakesOfThem: the browser must parse each allowed
// redirect URI as the address that the pages show to the user. The other URIs show why
// none of them may be registered.
func TestRedirectURIsAreWhatABrowserMakesOfThem(t *testing.T) {
	t.Parallel()
	var sent []string
	for _, a := range testkit.Addresses {
		sent = append(sent, a.URI)
	}
	list, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	made := evaluate[[]string](start(t), t, fmt.Sprintf(`%s.map(a => { try { const u = new URL(a); return u.protocol + u.host } catch { return "" } })`, list))
	if len(made) != len(sent) || len(sent) < 60 {
		t.Fatalf("%d of %d", len(made), len(sent))
	}
	for i, a := range testkit.Addresses {
		if made[i] != a.Browser {
			t.Errorf("%q is %q to the browser, and not %q", a.URI, made[i], a.Browser)
		}
		if !a.Operator && !a.Own {
			continue
		}
		protocol, host, _ := strings.Cut(made[i], ":")
		shown := oauth.Host(a.URI)
		if program := protocol != "https" && protocol != "http"; shown != a.Shown || program && shown != protocol+":" || !program && shown != host {
			t.Errorf("%q is shown as %q, and the browser goes to %q", a.URI, shown, made[i])
		}
		if oauth.IsRemote(a.URI) != (protocol == "https") {
			t.Errorf("%q: remote %t, and its protocol is %s", a.URI, oauth.IsRemote(a.URI), protocol)
		}
	}
}
