package dpop

import (
	"testing"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/plain"
)

// FuzzClaims compares both decoders of claims, in every order of members.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{
		`{"iat":1800000000,"jti":"a","htm":"POST","htu":"https://auth.example/","ath":"b","nonce":"c"}`,
		`{"jti":"a","nonce":"c","htm":"GET","htu":"https:\/\/auth.example\/","iat":-1}`,
		`{"jti":"a","jti":"b"}`, `{"iat":1,"jti":"a","iat":2}`, `{"JTI":"a"}`, `{"iat":1.5}`, `{"iat":1e9}`, `{"iat":"1"}`, `{"other":1}`, `{}`, `{"jti":"\ud800"}`, `{"jti":null}`, ` {}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var fast, slow payload
		if plain.Decode(claims, text, &fast) {
			if err := json.Unmarshal([]byte(text), &slow); err != nil || fast != slow {
				t.Errorf("%q: %+v, but %+v, %v", text, fast, slow, err)
			}
		}
	})
}

// TestClaimsOfMostProofsTakeTheShortWay guards the gain that BenchmarkKnown measures. The
// orders of members are those of the example in RFC 9449 section 4.1, and of a Node library.
func TestClaimsOfMostProofsTakeTheShortWay(t *testing.T) {
	for _, text := range []string{
		`{"jti":"a","htm":"POST","htu":"https://auth.example/","iat":1800000000}`,
		`{"iat":1800000000,"jti":"a","htm":"POST","nonce":"c","htu":"https://auth.example/","ath":"b"}`,
	} {
		var c payload
		if !plain.Decode(claims, text, &c) || c.ID != "a" || c.Method != "POST" || c.URI != "https://auth.example/" || c.IssuedAt != 1_800_000_000 {
			t.Errorf("%s: %+v", text, c)
		}
	}
	var c payload
	if plain.Decode(claims, `{"jti":"a","htm":"POST","jti":"b"}`, &c) {
		t.Error("a claim that is there twice is accepted")
	}
}
