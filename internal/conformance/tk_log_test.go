package conformance_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store/storetest"
)

// Tokens are sent to the resource servers' endpoints in every part of a request, valid
// and invalid, with faults and panics.
func TestTK13_NoTokenIsLoggedWhereItIsChecked(t *testing.T) {
	d := start(t, func(o *options) { o.TokenInfoQuery = true })
	rs := d.resourceServer()
	jwt := d.jwtClient()
	opaquePair, _ := d.tokens(d.a)
	jwtPair, _ := d.tokens(jwt)
	revokedPair, _ := d.tokens(d.a)
	d.revoke(d.a, revokedPair.AccessToken)
	code := d.code(d.a).Code
	secrets := []string{
		opaquePair.AccessToken, opaquePair.RefreshToken, jwtPair.AccessToken, jwtPair.RefreshToken, revokedPair.AccessToken, code,
		d.a.secret, rs.secret, jwt.secret,
	}
	for _, fault := range []storetest.Hook{
		nil, failing(storetest.Grant, storetest.UpdateGrant), panicking("a bug"),
	} {
		d.faulty.Heal()
		if fault != nil {
			d.faulty.Before(fault)
		}
		for _, token := range secrets {
			for _, accept := range []string{"*/*", "application/jwt", signedIntrospection} {
				a := d.introspect(rs, token, "Accept: "+accept)
				if a.header["Content-Type"][0] != "application/json" {
					secrets = append(secrets, a.body)
				}
			}
			d.revoke(d.b, token)
			d.verify(token)
			d.verify(token, "X-Required-Scope: z")
			d.verify(token, bearer(token))
			d.tokenInfo(token)
			d.sendInfo(ask("GET", infoPath+"?access_token="+token))
			d.send(ask("GET", verifyPath+"/"+token+"?access_token="+token))
			d.send(ask("GET", "/oauth2/"+token+"?token="+token))
			d.send(ask("GET", introspectPath+"?token="+token))
			swapped := rs.about(introspectPath, "x")
			swapped.form.Set("token_type_hint", token)
			d.send(swapped)
		}
	}
	d.faulty.Heal()
	log := d.log.String()
	for _, wanted := range []string{"introspection answered", "revocation refused", "verification refused", "token info answered", "introspection failed", "bug"} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log has no %q: the search searched nothing", wanted)
		}
	}
	for _, secret := range secrets {
		// Without its signature, a JWT is useless: search for that part.
		if i := strings.LastIndexByte(secret, '.'); i >= 0 {
			secret = secret[i+1:]
		}
		if strings.Contains(log, secret) {
			t.Errorf("the log holds a secret of %d characters, beginning with %q", len(secret), secret[:6])
		}
	}
	if len(secrets) < 12 {
		t.Errorf("only %d secrets were searched for", len(secrets))
	}
}
