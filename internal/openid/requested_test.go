package openid

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadClaims(t *testing.T) {
	alice, both := []string{"alice"}, []string{"alice", "bob"}
	sub, acr := []string{"sub"}, []string{"acr"}
	for text, want := range map[string]Demand{
		`{}`: {},
		` {"x":1,"userinfo":{"name":{"essential":true,"other":[1]},"email":null,"x":{"value":7}}} `: {UserInfo: []string{"email", "name", "x"}},
		`{"id_token":{"sub":{"value":"alice"}}}`:                                                    {Subjects: alice, IDToken: sub},
		`{"userinfo":{"sub":{"values":["alice","bob"]}}}`:                                           {Subjects: both, UserInfo: sub},
		`{"userinfo":{"sub":{"value":"alice"}},"id_token":{"sub":{"values":["bob","alice"]}}}`:      {Subjects: alice, UserInfo: sub, IDToken: sub},
		`{"userinfo":{"sub":{"value":"alice"}},"id_token":{"sub":{"value":"bob"}}}`:                 {Subjects: []string{}, UserInfo: sub, IDToken: sub},
		`{"id_token":{"acr":{"essential":true,"value":"x"}}}`:                                       {Classes: []string{"x"}, IDToken: acr},
		`{"id_token":{"acr":{"essential":true,"values":["x","y"]}}}`:                                {Classes: []string{"x", "y"}, IDToken: acr},
		`{"id_token":{"acr":{"value":"x"},"auth_time":{"essential":true}}}`:                         {IDToken: []string{"acr", "auth_time"}}, // voluntary
		`{"id_token":{"acr":{"essential":true},"sub":null}}`:                                        {IDToken: []string{"acr", "sub"}},
		`{"userinfo":{"acr":{"essential":true,"value":"x"}}}`:                                       {UserInfo: acr}, // userinfo has no acr
		`{"ID_TOKEN":{"sub":{"value":"alice"}}}`:                                                    {},              // names are case-sensitive
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
