//go:build e2e

package resource

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The challenges for refused tokens, of Mintage and of HAProxy (RFC 6750 section 3).
const (
	noToken    = `Bearer realm="/api"`
	badToken   = `Bearer realm="/api", error="invalid_token", error_description="token is invalid"`
	narrowText = `Bearer realm="/api", error="insufficient_scope", error_description="token lacks a scope", scope="write"`
)

// checkTokens sends every kind of token of one client to a front.
func (f *front) checkTokens(t *testing.T, w *world, c client) {
	both, reading := w.pair(t, c, "read write"), w.pair(t, c, "read")

	t.Run("a good token is let in", func(t *testing.T) {
		f.wantGood(t, f.ask(t, "GET", "/reports/7?month=5&month=6", "", bearer(reading.AccessToken)...), c, "read")
		o := f.ask(t, "POST", "/reports", "total=12", bearer(both.AccessToken)...)
		f.wantGood(t, o, c, "read write")
		if o.seen != nil && o.seen.Body != "total=12" {
			t.Errorf("the body arrives as %q", o.seen.Body)
		}
	})
	t.Run("HEAD is reading", func(t *testing.T) {
		if o := f.ask(t, "HEAD", "/reports", "", bearer(reading.AccessToken)...); o.status != http.StatusOK || o.seen == nil {
			t.Errorf("status %d", o.status)
		}
	})
	t.Run("the request arrives as it was sent", func(t *testing.T) {
		for _, path := range []string{"/reports/7?month=5&month=6", "/reports/", "/a%20b?scope=write&aud=x&realm=y&scope=z"} {
			o := f.ask(t, "PUT", path, "", bearer(both.AccessToken)...)
			if f.wantGood(t, o, c, "read write"); o.seen != nil && (o.seen.URI != path || o.seen.Method != "PUT") {
				t.Errorf("PUT %s arrives as %s %s", path, o.seen.Method, o.seen.URI)
			}
		}
	})
	t.Run("a token without the scope is refused", func(t *testing.T) {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			f.ask(t, method, "/reports", "", bearer(reading.AccessToken)...).wantRefused(t, http.StatusForbidden, narrowText)
		}
	})
	t.Run("reading takes its own scope", func(t *testing.T) {
		writing := w.pair(t, c, "write").AccessToken
		want := strings.Replace(narrowText, `"write"`, `"read"`, 1)
		for _, method := range []string{"GET", "HEAD"} {
			f.ask(t, method, "/reports", "", bearer(writing)...).wantRefused(t, http.StatusForbidden, want)
		}
	})
	t.Run("a forged token is refused", func(t *testing.T) {
		forged := []string{forge(both.AccessToken), both.AccessToken + "A", both.AccessToken[:len(both.AccessToken)-1], both.RefreshToken, "x"}
		if strings.Count(both.AccessToken, ".") == 2 {
			forged = append(forged, unsigned(both.AccessToken))
		}
		for _, token := range forged {
			f.ask(t, "GET", "/reports", "", bearer(token)...).wantRefused(t, http.StatusUnauthorized, badToken)
		}
	})
	if f.offline {
		return
	}
	t.Run("a revoked token is refused", func(t *testing.T) {
		doomed := w.pair(t, c, "read write")
		w.revoke(t, c, doomed.AccessToken)
		f.ask(t, "GET", "/reports", "", bearer(doomed.AccessToken)...).wantRefused(t, http.StatusUnauthorized, badToken)
	})
	t.Run("a token of a revoked grant is refused", func(t *testing.T) {
		doomed := w.pair(t, c, "read write")
		w.revoke(t, c, doomed.RefreshToken)
		f.ask(t, "GET", "/reports", "", bearer(doomed.AccessToken)...).wantRefused(t, http.StatusUnauthorized, badToken)
	})
}

// checkMetadata checks what a client can discover that knows only the API's address (RFC
// 9728).
func (f *front) checkMetadata(t *testing.T, w *world) {
	t.Run("whoever is refused finds the metadata", func(t *testing.T) {
		o := f.ask(t, "GET", "/reports", "")
		want := []string{noToken, `Bearer resource_metadata="` + audience + metadataPath + `"`}
		if got := o.header.Values("WWW-Authenticate"); o.status != http.StatusUnauthorized || !slices.Equal(got, want) {
			t.Errorf("status %d, challenges %q, want %q", o.status, got, want)
		}
		f.checkDocument(t)
		// Only this exact path is open, and authorized requests get no challenge.
		f.ask(t, "GET", metadataPath+"/x", "").wantRefused(t, http.StatusUnauthorized, noToken)
		if o := f.ask(t, "GET", "/reports", "", bearer(w.pair(t, w.jwt, "read").AccessToken)...); o.status != http.StatusOK || o.challenge != "" {
			t.Errorf("with a good token: status %d, challenge %q", o.status, o.challenge)
		}
	})
}

// checkHeaders checks that clients cannot deceive the proxy or the API with headers.
func (f *front) checkHeaders(t *testing.T, w *world) {
	both, reading := w.pair(t, w.jwt, "read write"), w.pair(t, w.jwt, "read")

	t.Run("no token is refused", func(t *testing.T) {
		f.ask(t, "GET", "/reports", "").wantRefused(t, http.StatusUnauthorized, noToken)
		f.ask(t, "GET", "/reports?access_token="+both.AccessToken, "").wantRefused(t, http.StatusUnauthorized, noToken)
		f.ask(t, "GET", "/reports", "", "Authorization", "Basic "+both.AccessToken).wantRefused(t, http.StatusUnauthorized, noToken)
	})
	t.Run("a token for another API is refused", func(t *testing.T) {
		for _, c := range w.others {
			f.ask(t, "GET", "/reports", "", bearer(w.pair(t, c, "read").AccessToken)...).wantRefused(t, http.StatusUnauthorized, badToken)
		}
	})
	t.Run("a malformed header is refused", func(t *testing.T) {
		for _, value := range []string{"Bearer", "Bearer a b", "Bearer " + both.AccessToken + " x"} {
			if o := f.ask(t, "GET", "/reports", "", "Authorization", value); o.seen != nil || o.status != http.StatusBadRequest && o.status != http.StatusUnauthorized || o.header.Get("Retry-After") != "" {
				t.Errorf("%d characters: status %d, API reached: %t", len(value), o.status, o.seen != nil)
			}
		}
	})
	t.Run("of two tokens none is smuggled in", func(t *testing.T) {
		o := f.ask(t, "POST", "/reports", "", append(bearer(reading.AccessToken), bearer(both.AccessToken)...)...)
		if o.seen != nil || o.status < 400 || o.status >= 500 {
			t.Errorf("status %d, API reached: %t", o.status, o.seen != nil)
		}
	})
	t.Run("a client cannot say who it is", func(t *testing.T) {
		lies := []string{"X-Auth-Subject", "admin", "x-auth-client", "admin", "X-AUTH-SCOPE", "admin", "X-Auth-Expires", "9999999999", "X-Auth-Actor", "admin",
			"X_Auth_Subject", "admin", "x_auth_client", "admin"}
		if f.name != "nginx" { // nginx removes headers only by their full names
			lies = append(lies, "X-Auth-Admin", "1")
		}
		f.wantGood(t, f.ask(t, "GET", "/reports", "", append(lies, bearer(reading.AccessToken)...)...), w.jwt, "read")
		f.ask(t, "GET", "/reports", "", lies...).wantRefused(t, http.StatusUnauthorized, noToken)
	})
	t.Run("a client cannot say what is required", func(t *testing.T) {
		wish := []string{"X-Required-Scope", "read", "x-required-scope", "", "X-Required-Audience", "https://other.example.com"}
		f.ask(t, "POST", "/reports?scope=read", "", append(wish, bearer(reading.AccessToken)...)...).wantRefused(t, http.StatusForbidden, narrowText)
		f.wantGood(t, f.ask(t, "GET", "/reports", "", append(wish, bearer(reading.AccessToken)...)...), w.jwt, "read")
	})
	// RFC 9110 section 7.6.1: a proxy removes the headers that Connection names.
	t.Run("a client cannot have the proxy's headers removed", func(t *testing.T) {
		for _, name := range []string{"X-Auth-Subject", "close, x-auth-subject, x-auth-client, x-auth-scope, x-auth-expires"} {
			f.wantGood(t, f.ask(t, "GET", "/reports", "", append([]string{"Connection", name}, bearer(reading.AccessToken)...)...), w.jwt, "read")
		}
		f.ask(t, "POST", "/reports", "", append([]string{"Connection", "close, x-required-scope, x-required-audience"}, bearer(reading.AccessToken)...)...).
			wantRefused(t, http.StatusForbidden, narrowText)
	})
	t.Run("a client cannot ask in the proxy's place", func(t *testing.T) {
		for _, path := range []string{"/_verify", "/_introspect"} {
			o := f.ask(t, "POST", path, "token="+reading.AccessToken, bearer(both.AccessToken)...)
			if o.status == http.StatusOK && o.seen == nil || o.header.Get("X-Auth-Subject") != "" {
				t.Errorf("%s: status %d, X-Auth-Subject %q", path, o.status, o.header.Get("X-Auth-Subject"))
			}
		}
	})
	t.Run("the API's own refusals and faults arrive", func(t *testing.T) {
		for path, status := range map[string]int{"/forbidden": http.StatusForbidden, "/broken": http.StatusInternalServerError} {
			if o := f.ask(t, "GET", path, "", bearer(reading.AccessToken)...); o.seen == nil || o.status != status || o.challenge != "" {
				t.Errorf("%s: status %d, challenge %q, the API's body: %t", path, o.status, o.challenge, o.seen != nil)
			}
		}
	})
}

// wantGood checks that a request reached the API with the proxy's headers about the
// client, and without such headers from the client.
func (f *front) wantGood(t *testing.T, o outcome, c client, scope string) {
	t.Helper()
	if o.status != http.StatusOK || o.seen == nil {
		t.Errorf("status %d, challenge %q, API reached: %t; want 200", o.status, o.challenge, o.seen != nil)
		return
	}
	want := map[string]string{"X-Auth-Subject": "alice", "X-Auth-Client": c.ID, "X-Auth-Scope": scope}
	for name, value := range want {
		if got := o.seen.Header[name]; len(got) != 1 || got[0] != value {
			t.Errorf("%s is %q, want %q alone", name, got, value)
		}
	}
	expires, err := strconv.ParseInt(o.seen.Header.Get("X-Auth-Expires"), 10, 64)
	if left := time.Until(time.Unix(expires, 0)); err != nil || left < 0 || left > time.Minute+time.Second {
		t.Errorf("X-Auth-Expires is %q, want the next minute", o.seen.Header["X-Auth-Expires"])
	}
	for name, values := range o.seen.Header {
		plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		_, wanted := want[name]
		switch {
		case wanted || name == "X-Auth-Expires":
		case plain == "authorization", strings.HasPrefix(plain, "x-auth"), strings.HasPrefix(plain, "x-required") && strings.Join(values, "") != "":
			t.Errorf("the API receives %s", name)
		}
	}
}

// checkOpenRoute checks a proxy that routes the metadata's path to the API. Only this
// path needs no token, the client's identity headers are removed there, and a refusal
// names the metadata.
func (f *front) checkOpenRoute(t *testing.T) {
	t.Run("whoever is refused finds the metadata", func(t *testing.T) {
		f.ask(t, "GET", "/reports", "").wantRefused(t, http.StatusUnauthorized, noToken+`, resource_metadata="`+audience+metadataPath+`"`)
		lies := []string{"X-Auth-Subject", "admin", "X-Auth-Client", "admin", "X-Auth-Scope", "admin", "X-Auth-Expires", "9", "X-Auth-Actor", "admin", "X-Auth_Subject", "admin", "Authorization", "Bearer x"}
		o := f.ask(t, "GET", metadataPath, "", lies...)
		if o.status != http.StatusOK || o.seen == nil || o.challenge != "" {
			t.Fatalf("status %d, challenge %q, API reached: %t", o.status, o.challenge, o.seen != nil)
		}
		for name := range o.seen.Header {
			if strings.HasPrefix(strings.ToLower(name), "x-auth") || name == "Authorization" {
				t.Errorf("the API receives %s", name)
			}
		}
		if o := f.ask(t, "GET", metadataPath+"/x", ""); o.status != http.StatusUnauthorized || o.seen != nil {
			t.Errorf("below it: status %d, API reached: %t", o.status, o.seen != nil)
		}
	})
}

const metadataPath = "/.well-known/oauth-protected-resource"

// checkDocument checks that the API's metadata (RFC 9728) need no token.
func (f *front) checkDocument(t *testing.T) {
	t.Helper()
	o := f.ask(t, "GET", metadataPath, "")
	if o.status != http.StatusOK || o.seen != nil || o.challenge != "" {
		t.Fatalf("status %d, challenge %q: %s", o.status, o.challenge, o.body)
	}
	checkMetadataText(t, o.body)
	if o.header.Get("Content-Type") != "application/json" || o.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%q", o.header)
	}
}

func checkMetadataText(t *testing.T, text string) {
	t.Helper()
	var document struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if document.Resource != audience || !slices.Equal(document.Servers, []string{issuer}) || !slices.Equal(document.Methods, []string{"header"}) {
		t.Errorf("the metadata are %+v", document)
	}
}
