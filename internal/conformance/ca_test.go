package conformance_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const challengeHeader = `Basic realm="/api", charset="UTF-8"`

func TestCA01_AWrongSecretInTheBodyIs400WithoutAChallenge(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	a := d.post(with(good, "client_secret", "wrong"))
	want(t, a, 400, "invalid_client")
	compareHeader(t, a) // compares WWW-Authenticate, which must be absent
	d.mustIssue(d.post(good))
}

func TestCA03_CA04_CA05_WithoutACredential(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, c := range []struct {
		form url.Values
		code string
	}{
		{with(good, "client_secret", ""), "invalid_client"},
		{with(good, "client_secret", "", "client_id", ""), "invalid_request"},
		{with(good, "client_id", ""), "invalid_request"},
	} {
		want(t, d.post(c.form), 400, c.code)
	}
	empty := with(good)
	empty["client_secret"] = []string{""}
	want(t, d.post(empty), 400, "invalid_client")
	d.mustIssue(d.post(good))
}

func TestCA06_OnlyTheSecretItselfIsTheSecret(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	secret := d.a.secret
	for _, near := range []string{
		secret + " ", " " + secret, secret[:len(secret)-1], secret[1:], secret + "a", secret + secret, strings.ToUpper(secret), strings.ToLower(secret),
		secret[:len(secret)-1] + "-", d.b.secret,
	} {
		want(t, d.post(with(good, "client_secret", near)), 400, "invalid_client")
		basic := newRequest(good)
		basic.basic(d.a.ID, near)
		want(t, d.send(basic), 401, "invalid_client")
	}
	for _, tail := range []string{"\n", "\x00", "\r\n", strings.Repeat("\x00", 100)} {
		want(t, d.post(with(good, "client_secret", secret+tail)), 400, "invalid_request")
		basic := newRequest(good)
		basic.basic("", "")
		basic.set("Authorization", basicHeader(d.a.ID, secret+tail))
		want(t, d.send(basic), 401, "invalid_client")
	}
	want(t, d.post(with(good, "client_secret", secret+strings.Repeat("\x00", 64<<10))), 413, "invalid_request")
	d.mustIssue(d.post(good))
}

func TestCA07_CA12_BasicAuthenticates(t *testing.T) {
	d := start(t)
	for _, scheme := range []string{"Basic", "basic", "BASIC"} {
		r := newRequest(with(d.a.redeem(d.code(d.a).Code), "client_id", "", "client_secret", ""))
		r.set("Authorization", scheme+" "+base64.StdEncoding.EncodeToString([]byte(d.a.ID+":"+d.a.secret)))
		d.mustIssue(d.send(r))
	}
}

func TestCA08_AFailedHeaderIs401WithAChallenge(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	r := newRequest(good)
	r.basic(d.a.ID, "wrong")
	a := d.send(r)
	want(t, a, 401, "invalid_client")
	compareHeader(t, a, "Www-Authenticate: "+challengeHeader)
	d.mustIssue(d.post(good))
}

// errors.basic_auth_status 400 is for an acceptance test that takes "400 for every
// defect" literally. It changes nothing else.
func TestCA08_TheStatusOfAFailedHeaderCanBe400(t *testing.T) {
	d := start(t, func(o *options) { o.BasicAuthStatus = 400 })
	r := newRequest(d.a.redeem(d.code(d.a).Code))
	r.basic(d.a.ID, "wrong")
	a := d.send(r)
	want(t, a, 400, "invalid_client")
	compareHeader(t, a)
}

func TestCA09_BasicCredentialsAreFormEncoded(t *testing.T) {
	d := start(t)
	for _, secret := range []string{"p:ss%word+/\u00fc&=", "plain-but-long", "with space"} {
		c := d.client(client.Registration{ID: "id:%+/&=" + base64.RawURLEncoding.EncodeToString([]byte(secret))[:8], Secret: oauth.Secret(secret)})
		for range 2 { // the second time against the upgraded, fast hash
			r := newRequest(c.redeem(d.code(c).Code))
			r.basic(c.ID, secret)
			d.mustIssue(d.send(r))
		}
		// Encoding twice makes another secret.
		r := newRequest(c.redeem(d.code(c).Code))
		r.basic(c.ID, url.QueryEscape(secret))
		if a := d.send(r); (a.status == 200) != (url.QueryEscape(secret) == secret) {
			t.Errorf("%q encoded twice: %v", secret, a)
		}
	}
	// A colon in the secret is not a separator.
	c := d.client(client.Registration{Secret: "half:and:half"})
	r := newRequest(with(c.redeem(d.code(c).Code), "client_id", "", "client_secret", ""))
	r.set("Authorization", basicHeader(c.ID, "half:and:half"))
	d.mustIssue(d.send(r))
}

func TestCA10_CA11_MalformedBasicIs401(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a).Code), "client_id", "", "client_secret", "")
	exact := base64.StdEncoding.EncodeToString([]byte(d.a.ID + ":" + d.a.secret))
	for _, value := range []string{
		"Basic", "Basic ", "Basic  " + exact, "Basic\t" + exact, "Basic " + exact + " x", "Basic " + exact[:20] + " " + exact[20:],
		"Basic YWJj", "Basic " + base64.StdEncoding.EncodeToString([]byte(d.a.ID+d.a.secret)), "Basic Og==", "Basic OnNlY3JldA==",
		"Basic " + base64.RawURLEncoding.EncodeToString([]byte("??>>:~~~~")), "Basic YTpiYw", "Basic ====", basicHeader(d.a.ID, "%zz"), basicHeader("%", d.a.secret),
		basicHeader(d.a.ID+"%00", d.a.secret), basicHeader(d.a.ID, d.a.secret+"%ff"), basicHeader(strings.Repeat("x", 5000), "y"),
	} {
		r := newRequest(good)
		r.header = append(r.header, "Authorization: "+value)
		a := d.send(r)
		want(t, a, 401, "invalid_client")
		compareHeader(t, a, "Www-Authenticate: "+challengeHeader)
	}
	// Valid form credentials do not replace a malformed header.
	r := newRequest(d.a.redeem(good.Get("code")))
	r.form.Del("client_secret")
	r.set("Authorization", "Basic ====")
	want(t, d.send(r), 401, "invalid_client")
}

// A secret that cannot be form-decoded is compared as it stands. The id is always
// decoded, so that one header cannot name two clients.
func TestCA10_ASecretThatIsNotEncodedProvesItsOwnClientAlone(t *testing.T) {
	d := start(t)
	c := d.client(client.Registration{Secret: "100%sure-secret"})
	send := func(c oauthClient, header string) answer {
		t.Helper()
		r := newRequest(with(c.redeem(d.code(c).Code), "client_id", "", "client_secret", ""))
		r.set("Authorization", header)
		return d.send(r)
	}
	for range 2 { // the second time against the upgraded, fast hash
		d.mustIssue(send(c, basicHeader(c.ID, "100%sure-secret")))
		d.mustIssue(send(c, basicHeader(c.ID, "100%25sure-secret")))
	}
	for _, header := range []string{
		basicHeader(c.ID, "100%sure-secreT"), basicHeader(c.ID, "100%2525sure-secret"), basicHeader(d.b.ID, "100%sure-secret"),
		basicHeader("%"+c.ID, "100%sure-secret"), basicHeader(c.ID+"%", "100%sure-secret"),
	} {
		want(t, send(c, header), 401, "invalid_client")
	}

	plain := d.client(client.Registration{ID: "shopA", Secret: "the secret of shopA"})
	escaped := d.client(client.Registration{ID: "shop%41", Secret: "the secret of shop41"})
	d.mustIssue(send(plain, basicHeader("shop%41", plain.secret)))
	d.mustIssue(send(escaped, basicHeader("shop%2541", escaped.secret)))
	want(t, send(escaped, basicHeader("shop%41", escaped.secret)), 401, "invalid_client")
}

func TestCA13_CA15_TwoMethodsAreRefused(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, secret := range []string{d.a.secret, "wrong"} {
		for _, inHeader := range []string{d.a.secret, "wrong"} {
			r := newRequest(good)
			r.basic(d.a.ID, inHeader)
			r.form.Set("client_secret", secret)
			a := d.send(r)
			want(t, a, 400, "invalid_request")
			compareHeader(t, a)
		}
	}
	assertion := []string{"client_assertion", "e30.e30.e30", "client_assertion_type", jwtBearer}
	want(t, d.post(with(good, assertion...)), 400, "invalid_request")
	r := newRequest(with(good, assertion...))
	r.basic(d.a.ID, d.a.secret)
	want(t, d.send(r), 400, "invalid_request")
	d.mustIssue(d.post(good))
}

func TestCA14_TheClientIDMayBeRepeatedInTheBodyIfItIsTheSame(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	r := newRequest(good)
	r.basic(d.a.ID, d.a.secret)
	r.form.Set("client_id", d.b.ID)
	if a := d.send(r); a.body != errorBody("invalid_request", "client_id mismatch") {
		t.Errorf("got %v", a)
	}
	r.form.Set("client_id", d.a.ID)
	d.mustIssue(d.send(r))
}

func TestCA16_OtherSchemesGetTheChallengeOfBasic(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, value := range []string{"Bearer x", "Digest username=\"x\"", "Negotiate", "DPoP x", "", "Basicx"} {
		r := newRequest(good)
		r.header = append(r.header, "Authorization: "+value)
		a := d.send(r)
		want(t, a, 401, "invalid_client")
		compareHeader(t, a, "Www-Authenticate: "+challengeHeader)
	}
	d.mustIssue(d.post(good))
}

func TestCA17_CredentialsInTheURLAreRefusedAndNotLogged(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	r := newRequest(with(good, "client_id", "", "client_secret", ""))
	r.target += "&client_id=" + d.a.ID + "&client_secret=" + d.a.secret
	want(t, d.send(r), 400, "invalid_request")
	if strings.Contains(d.log.String(), d.a.secret) {
		t.Error("the log holds the secret")
	}
	d.mustIssue(d.post(good))
}

func TestCA18_CA19_TheMethodIsTheRegisteredOne(t *testing.T) {
	d := start(t)
	for rule, good := range map[store.AuthRule][3]bool{ // allowed by form, by Basic, without credentials
		store.AuthEither: {true, true, false}, store.AuthPost: {true, false, false}, store.AuthBasic: {false, true, false}, store.AuthNone: {false, false, true},
	} {
		c := d.client(client.Registration{Settings: store.Settings{Auth: rule}})
		secret := c.secret
		if secret == "" {
			secret = d.a.secret
		}
		for method, accepted := range good {
			r := newRequest(with(c.redeem(d.code(c, pkce).Code), "code_verifier", verifier))
			status := 400
			switch method {
			case 0:
				r.form.Set("client_secret", secret)
			case 1:
				r.basic(c.ID, secret)
				status = 401
			case 2:
				r.form.Del("client_secret")
			}
			if a := d.send(r); accepted {
				d.mustIssue(a)
			} else {
				want(t, a, status, "invalid_client")
			}
		}
	}
}

func TestCA20_TwoSecretsOverlapUntilTheOldOneExpires(t *testing.T) {
	d := start(t)
	second := d.addSecret(d.a, time.Hour)
	refresh := func(secret string) answer {
		return d.post(with(d.a.redeem(d.code(d.a).Code), "client_secret", secret))
	}
	d.mustIssue(refresh(d.a.secret))
	d.mustIssue(refresh(second))
	d.step(time.Hour - time.Millisecond)
	d.mustIssue(refresh(second))
	d.step(time.Millisecond)
	want(t, refresh(second), 400, "invalid_client")
	d.mustIssue(refresh(d.a.secret))
}

func TestCA21_ADisabledOrForeignClientIsAnUnknownOne(t *testing.T) {
	d := start(t)
	unknown := d.post(with(d.a.redeem("x"), "client_id", "nobody")).body
	for name, alter := range map[string]func(*store.Client){
		"disabled": func(c *store.Client) { c.State = store.ClientDisabled },
		"deleted":  func(c *store.Client) { c.State = store.ClientDeleted },
		"foreign":  func(c *store.Client) { c.ID, c.Realm, c.Version = c.ID+"-elsewhere", "/other", 0 },
	} {
		c := d.client(client.Registration{})
		c = d.change(c, alter)
		if a := d.post(c.redeem("x")); a.status != 400 || a.body != unknown {
			t.Errorf("%s: %v", name, a)
		}
	}
}
