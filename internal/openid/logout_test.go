package openid

import (
	"errors"
	"testing"
)

func TestClaimsOfALogoutToken(t *testing.T) {
	t.Parallel()
	token := LogoutToken{Issuer: issuerID, Subject: "alice", ClientID: "billing", SessionID: "c2lk", IssuedAt: 1_700_000_000_500, ID: "J1"}
	const head = `{"iss":"` + issuerID + `","sub":"alice","aud":"billing","iat":1700000000,"exp":1700000120,"jti":"J1",`
	const event = `"events":{"http://schemas.openid.net/event/backchannel-logout":{}}}`
	for sid, want := range map[string]string{"c2lk": head + `"sid":"c2lk",` + event, "": head + event} {
		token.SessionID = sid
		got, err := token.Claims()
		if err != nil || string(got) != want {
			t.Errorf("%s, %v\nwant %s", got, err, want)
		}
		// With any typ, a logout token is no valid hint.
		for _, typ := range []string{LogoutType, Type} {
			if _, err := ReadHint(typ, got, issuerID); !errors.Is(err, ErrHint) {
				t.Errorf("a logout token of type %q is a hint: %v", typ, err)
			}
		}
	}
}
