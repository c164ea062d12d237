package openid

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadClaims(t *testing.T) {
	alice, both := []string{"alice"}, []string{"alice", "bob"}
	for text, want := range map[string]Demand{
		`{}`: {},
		` {"x":1,"userinfo":{"email":null,"name":{"essential":true,"other":[1]},"x":{"value":7}}} `: {},
		`{"id_token":{"sub":{"value":"alice"}}}`:                                                    {Subjects: alice},
		`{"userinfo":{"sub":{"values":["alice","bob"]}}}`:                                           {Subjects: both},
		`{"userinfo":{"sub":{"value":"alice"}},"id_token":{"sub":{"values":["bob","alice"]}}}`:      {Subjects: alice},
		`{"userinfo":{"sub":{"value":"alice"}},"id_token":{"sub":{"value":"bob"}}}`:                 {Subjects: []string{}},
		`{"id_token":{"acr":{"essential":true,"value":"x"}}}`:                                       {Classes: []string{"x"}},
		`{"id_token":{"acr":{"essential":true,"values":["x","y"]}}}`:                                {Classes: []string{"x", "y"}},
		`{"id_token":{"acr":{"value":"x"},"auth_time":{"essential":true}}}`:                         {}, // voluntary
		`{"id_token":{"acr":{"essential":true},"sub":null}}`:                                        {},
		`{"userinfo":{"acr":{"essential":true,"value":"x"}}}`:                                       {}, // userinfo has none
		`{"ID_TOKEN":{"sub":{"value":"alice"}}}`:                                                    {}, // another name
	} {
		if got, err := ReadClaims(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		``, `x`, `null`, `[]`, `"x"`, `{`, `{} {}`, `{}}`, `{"id_token":{}]`, `{"a":1,}`, `{"userinfo":null}`, `{"id_token":[]}`, `{"id_token":{"email":1}}`, `{"id_token":{"email":true}}`,
		`{"id_token":{"email":{"essential":"true"}}}`, `{"id_token":{"sub":{"value":1}}}`, `{"id_token":{"sub":{"value":null}}}`, `{"id_token":{"sub":{"values":"x"}}}`,
		`{"id_token":{"sub":{"values":[]}}}`, `{"id_token":{"acr":{"values":["x",1]}}}`, `{"id_token":{"sub":{"value":"a","values":["a"]}}}`,
		`{"id_token":{},"id_token":{}}`, `{"id_token":{"sub":null,"sub":{"value":"a"}}}`, `{"id_token":{"sub":{"value":"a","value":"b"}}}`,
		strings.Repeat("[", 4096), strings.Repeat(`{"id_token":`, 300),
	} {
		if got, err := ReadClaims(text); err == nil {
			t.Errorf("%.60s is read as %+v", text, got)
		}
	}
}
