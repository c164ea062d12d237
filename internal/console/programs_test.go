package console

import (
	"os"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// The console shows the programs of the page "Connect your application", which tests run.
// Each literal that must be replaced by the client's value occurs in them.
func TestProgramsAreThoseOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		text, err := programs.ReadFile("programs/" + s.file)
		if err != nil || !strings.Contains(string(page), "\n"+string(text)+"```\n") {
			t.Errorf("%s is not the program of connect.md, %v", s.file, err)
		}
		for _, literal := range []string{s.issuer, s.clientID, s.redirectURI} {
			if !strings.Contains(string(text), literal) {
				t.Errorf("%s has no %s", s.file, literal)
			}
		}
	}
}

func TestProgramsAreFilledIn(t *testing.T) {
	const issuer = "https://auth.example/oauth2/api"
	for kind, want := range map[string][]string{
		"web":     {"CLIENT_ID='it'\\''s' node connect.mjs", `"https://shop.example/cb?a=\u003cb\u003e"`, `"` + issuer + `"`},
		"native":  {`CLIENT_ID = "it's"`, `"` + issuer + `"`},
		"browser": {`clientId = "it's"`},
		"service": {`curl ` + issuer + `/access_token -d grant_type=client_credentials -u 'it'\''s':"$CLIENT_SECRET"`},
		"device":  nil,
		"api":     nil,
	} {
		c := adminapi.Client{Registration: client.Registration{ID: "it's", Settings: store.Settings{Auth: store.AuthEither, RedirectURIs: []string{"https://shop.example/cb?a=<b>"}, GrantTypes: store.DefaultGrantTypes}}}
		for _, k := range clientKinds {
			if k.Name == kind {
				if !k.Redirect {
					c.RedirectURIs = nil
				}
				k.set(&c.Registration)
			}
		}
		if got := kindOf(c); got != kind {
			t.Errorf("%s is taken for %s", kind, got)
		}
		var all strings.Builder
		for _, p := range programsOf(c, issuer) {
			all.WriteString(p.Run + "\n" + p.Text)
		}
		for _, text := range want {
			if !strings.Contains(all.String(), text) {
				t.Errorf("%s lacks %s\n%s", kind, text, all.String())
			}
		}
		if want == nil && all.Len() > 0 || strings.Contains(all.String(), docsIssuer) {
			t.Errorf("%s has\n%s", kind, all.String())
		}
	}
}
