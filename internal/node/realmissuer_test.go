package node

import (
	"net/url"
	"testing"
)

// Metadata is at the address that a realm's issuer determines, and also where clients that
// have only the host look for the first realm's. A proxy at another host forwards such
// requests.
func TestMetadataIsAtTheAddressOfTheRealmsIssuer(t *testing.T) {
	const main, first = "https://" + defaultHost, "https://" + defaultHost + "/oauth2/api"
	for _, issuer := range []string{main, main + "/oauth2", main + "/near", "https://issuer.example"} {
		s := newRealms(t)
		cfg := s.n.cfg
		cfg.Realms[0].Issuer = issuer
		if err := cfg.Check(); err != nil {
			t.Fatal(err)
		}
		list, err := s.n.answer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.n.use(cfg, list)
		u, err := url.Parse(issuer)
		if err != nil {
			t.Fatal(err)
		}
		host := "https://" + u.Host
		for _, name := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
			for address, want := range map[string]string{
				host + name + u.Path: issuer, host + u.Path + name: issuer, main + name + "/oauth2/api": first, first + name: first,
				"https://" + otherHost + name: "https://" + otherHost + "/oauth2/far",
			} {
				if _, answer, _ := s.send(address, nil, ""); answer["issuer"] != want {
					t.Errorf("with the issuer %s, the metadata at %s has the issuer %v, want %s", issuer, address, answer["issuer"], want)
				}
			}
		}
	}
}
