package resource_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"time"

	"github.com/mintage/mintage/resource"
)

// newTransfers is an API that shows balances to every user, and moves money for those
// alone who have signed in with a second factor, within five minutes.
func newTransfers(issuer string, client *http.Client) (http.Handler, *resource.Verifier, error) {
	verifier, err := resource.New(resource.Config{
		Issuer:     issuer, // such as https://auth.example.com/oauth2/api
		Audience:   "https://api.example.com",
		HTTPClient: client,
	})
	if err != nil {
		return nil, nil, err
	}
	strong := resource.Authentication{MaxAge: 5 * time.Minute, ACR: []string{"urn:mintage:2"}}
	mux := http.NewServeMux()
	mux.Handle("GET /balance", verifier.Require("money")(http.HandlerFunc(answer)))
	mux.Handle("POST /transfers", verifier.RequireLogin(strong, "money")(http.HandlerFunc(answer)))
	return mux, verifier, nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	caller, _ := resource.FromContext(r.Context())
	fmt.Fprintf(w, "for %s", caller.Subject)
}

// stepUp adds to a client's next authorization request what an API demands in its
// challenge, and reports whether it demands a login at all.
func stepUp(challenge string, authorize url.Values) bool {
	demanded := false
	for _, m := range challengeMember.FindAllStringSubmatch(challenge, -1) {
		switch name, value := m[1], m[2]; name {
		case "error":
			demanded = value == "insufficient_user_authentication"
		case "acr_values", "max_age":
			authorize.Set(name, value)
		}
	}
	return demanded
}

var challengeMember = regexp.MustCompile(`(\w+)="([^"]*)"`)

// A transfer by a user who has signed in with a password, an hour ago.
func ExampleVerifier_RequireLogin() {
	// In place of a Mintage server; see docs/how-to/step-up.md for a real one.
	issuer, client, tokenFor := exampleServer()
	transfers, verifier, err := newTransfers(issuer, client)
	if err != nil {
		log.Fatal(err)
	}
	defer verifier.Close()

	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/transfers", nil)
	r.Header.Set("Authorization", "Bearer "+tokenFor("alice", "money"))
	transfers.ServeHTTP(w, r)
	challenge := w.Header().Get("WWW-Authenticate")
	fmt.Println(w.Code, challenge)
	next := url.Values{}
	fmt.Println(stepUp(challenge, next), next.Encode())
	// Output:
	// 401 Bearer realm="https://api.example.com", error="insufficient_user_authentication", acr_values="urn:mintage:2", max_age="300"
	// true acr_values=urn%3Amintage%3A2&max_age=300
}
