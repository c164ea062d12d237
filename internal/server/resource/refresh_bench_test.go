package resource_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/issuer"
)

// BenchmarkRefresh is a refresh with signed access tokens, from the parsed headers to the
// written response. Its allocations are more meaningful than its time, most of which is
// one fsync.
func BenchmarkRefresh(b *testing.B) {
	p := newPublicSide(b)
	code, err := p.kit.Codes().Issue(b.Context(), issuer.Authorization{ClientID: "billing", RedirectURI: callback, Subject: "alice"})
	if err != nil {
		b.Fatal(err)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code.Code}, "redirect_uri": {callback}}
	h, w := p.Handler(), httptest.NewRecorder()
	for b.Loop() {
		form.Set("client_id", "billing")
		form.Set("client_secret", string(p.secret))
		r := httptest.NewRequest(http.MethodPost, "/oauth2/api/access_token", strings.NewReader(form.Encode()))
		r.TLS = &tls.ConnectionState{}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
		form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {read[struct {
			Token string `json:"refresh_token"`
		}](b, w.Body.String()).Token}}
	}
}
