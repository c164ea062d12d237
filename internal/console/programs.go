package console

import (
	"context"
	"embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/store"
)

// programs holds the programs of docs/how-to/connect.md, which tests run.
//
//go:embed programs
var programs embed.FS

// A program is ready to run for a client, except for its secret.
type program struct {
	File string
	Text string
	Run  string // the command that starts it
	Env  bool   // it reads CLIENT_SECRET
}

// A sample is a program of the documentation. It contains the issuer, the client id and
// the redirect URI of an example, which a copy for a client replaces.
type sample struct {
	kind, file, run               string
	issuer, clientID, redirectURI string // literals; "": it has none
}

const docsIssuer = "https://127.0.0.1:8443/oauth2/api"

var samples = []sample{
	{"web", "connect.mjs", "node connect.mjs", "'" + docsIssuer + "'", "", "'http://localhost:3000/callback'"},
	{"web", "Connect.java", "java Connect.java", `"` + docsIssuer + `"`, "", `"http://localhost:8080/callback"`},
	{"native", "connect.py", "python3 connect.py", `"` + docsIssuer + `"`, `"python-app"`, ""},
	{"browser", "index.html", "python3 -m http.server 5173", "'" + docsIssuer + "'", "'page'", ""},
}

// literal returns a text as a string literal of JavaScript, Java and Python. Ids and
// addresses have no control characters.
func literal(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // it is a string
	}
	return string(encoded)
}

// kindOf returns which kind of client c is.
func kindOf(c adminapi.Client) string {
	may := func(grantType string) bool { return slices.Contains(c.GrantTypes, grantType) }
	switch {
	case may(store.GrantDeviceCode):
		return "device"
	case may(store.GrantClientCredentials) && !may(store.GrantAuthorizationCode):
		return "service"
	case c.Introspect && len(c.RedirectURIs) == 0:
		return "api"
	case c.Auth == store.AuthNone && c.Native:
		return "native"
	case c.Auth == store.AuthNone:
		return "browser"
	}
	return "web"
}

// programsOf returns the programs for a client of the issuer.
func programsOf(c adminapi.Client, issuer string) (list []program) {
	kind := kindOf(c)
	if kind == "service" {
		return []program{{Text: "curl " + quoteValue(issuer+"/access_token") + " -d grant_type=client_credentials -u " + quoteValue(c.ID) + `:"$CLIENT_SECRET"`, Env: true}}
	}
	for _, s := range samples {
		if s.kind != kind {
			continue
		}
		text, err := programs.ReadFile("programs/" + s.file)
		if err != nil {
			panic(err) // it is part of this program
		}
		own := []string{s.issuer, literal(issuer)}
		if s.clientID != "" {
			own = append(own, s.clientID, literal(c.ID))
		}
		if s.redirectURI != "" && len(c.RedirectURIs) > 0 {
			own = append(own, s.redirectURI, literal(c.RedirectURIs[0]))
		}
		p := program{File: s.file, Text: strings.NewReplacer(own...).Replace(string(text)), Run: s.run, Env: kind == "web"}
		if p.Env {
			p.Run = "CLIENT_ID=" + quoteValue(c.ID) + " " + p.Run
		}
		list = append(list, p)
	}
	return list
}

// issuer returns the issuer identifier of the realm of r.
func (c *Console) issuer(ctx context.Context, r *request) (string, error) {
	var realms adminapi.Realms
	if err := c.get(ctx, r, &realms, nil, "realms"); err != nil {
		return "", err
	}
	i := slices.IndexFunc(realms.Realms, func(one adminapi.Realm) bool { return one.Name == r.realm() })
	return realms.Realms[max(i, 0)].Issuer, nil
}
