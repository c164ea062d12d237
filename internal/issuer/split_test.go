package issuer

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestSplitClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, standard, carried string }{
		{``, ``, ``},
		{`{"tenant": "t1", "a": 1}`, ``, `{"tenant":"t1","a":1}`},
		{`{"email":"a@example.com"}`, `{"email":"a@example.com"}`, ``},
		{`{"z":1, "email":"a@example.com", "tenant":"t1", "address":{"formatted":"1 Road\nJP"}}`,
			`{"address":{"formatted":"1 Road\nJP"},"email":"a@example.com"}`, `{"z":1,"tenant":"t1"}`},
		{`{"email":null,"name":"","tenant":"t1"}`, ``, `{"tenant":"t1"}`},
	} {
		standard, carried, err := SplitClaims(json.RawMessage(c.object))
		if err != nil || standard != c.standard || carried != c.carried {
			t.Errorf("%s: %s and %s, %v", c.object, standard, carried, err)
		}
	}
	for _, object := range []string{
		`[]`, `"x"`, `{"email":"x"}`, `{"email":"a@example.com","email":"b@example.com"}`, `{"email":"a@example.com","a":1,"a":2}`,
		`{"email":"a@example.com","sub":"bob"}`, `{"Email":"a@example.com"}`, `{"email":"a@example.com"} {}`, `{"email":"a@example.com"`,
		`{"email":"a@example.com","x":"` + string(make([]byte, 10)) + `"}`,
	} {
		var invalid *oauth.Invalid
		if standard, carried, err := SplitClaims(json.RawMessage(object)); !errors.As(err, &invalid) || invalid.Field != "claims" {
			t.Errorf("%s: %s and %s, %v", object, standard, carried, err)
		}
	}
}

func TestTextsThatAreNotJSONObjectsAreRefused(t *testing.T) {
	t.Parallel()
	for _, object := range []string{``, `[]`, `7`, `null`, `{"a":1`, `{"a":1} {}`} {
		if _, _, err := members(json.RawMessage(object)); err == nil || err.Error() != "not a JSON object" {
			t.Errorf("%q: %v", object, err)
		}
	}
}

// A token never contains claims that only the user's consent to a scope releases.
func TestNoTokenCarriesStandardClaims(t *testing.T) {
	t.Parallel()
	for _, object := range []string{`{"email":"a@example.com"}`, `{"NAME":"Alice"}`, `{"address":1}`} {
		if _, err := CheckClaims(json.RawMessage(object)); err == nil {
			t.Errorf("%s: accepted", object)
		}
	}
	if got := string(AddClaims([]byte(`{"sub":"alice"}`), `{"tenant":"t1","email":"a@example.com"}`)); got != `{"sub":"alice","tenant":"t1"}` {
		t.Errorf("%s", got)
	}
}
