package oauth_test

import (
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

// Credentials are not stored, however their names are encoded.
func TestPushedForm(t *testing.T) {
	got := oauth.PushedForm("scope=a+b&client_secret=s&client%5Fsecret=s&client_assertion=x&client_assertion_type=y&client_id=other&realm=/api&&state=%26&resource=1&resource=2", "a&b")
	if want := "client_id=a%26b&scope=a+b&state=%26&resource=1&resource=2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A parameter without a value counts as omitted (RFC 6749 section 3.1), so the server may
// set it.
func TestPushedFormWithoutWhatIsEmpty(t *testing.T) {
	form := oauth.PushedForm("redirect_uri=https://shop.example/cb&response_type=code&dpop_jkt=&state", "shop")
	jkt := oauth.JKT{1}
	r, _, err := oauth.ParseAuthorization(form+"&dpop_jkt="+jkt.String(), "")
	if err != nil || r.Defect != nil || r.JKT != jkt || r.State != nil {
		t.Errorf("%s: %+v, %v", form, r, err)
	}
}

func TestARequestThatWasPushedIsItsReference(t *testing.T) {
	r, realm, err := oauth.ParseAuthorization("", "realm=/api&client_id=shop&request_uri="+oauth.PushedPrefix+"id&state=x&response_type=token")
	if err != nil || realm != "/api" || r.ClientID != "shop" || r.Pushed != "id" || r.State != nil || r.Defect != nil {
		t.Errorf("%+v, %q, %v", r, realm, err)
	}
	if _, _, err := oauth.ParseAuthorization("", "request_uri="+oauth.PushedPrefix+"id"); err != oauth.ErrAuthorizationClient {
		t.Errorf("without a client: %v", err)
	}
	if r, _, err := oauth.ParseAuthorization("", "client_id=shop&request_uri="+oauth.PushedPrefix); err != oauth.ErrPushed || r.ClientID != "shop" {
		t.Errorf("without an id: %+v, %v", r, err)
	}
}
