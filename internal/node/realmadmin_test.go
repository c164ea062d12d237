package node

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// What an operator makes in one realm does not exist in another: it cannot be read, changed
// or deleted there, is in no list, and its name is free.
func TestOP20_WhatOperatorsMakeDoesNotCrossRealms(t *testing.T) {
	s := newRealms(t)
	for name := range ofRealms {
		s.register(name)
	}
	// Each noun with a body that makes one called only-REALM.
	nouns := map[string]struct{ body, id string }{
		"clients": {`{"id":"only-R","name":"N","redirect_uris":["` + callback + `"],"scope":"read"}`, "only-R"},
		"users":   {`{"username":"user-only-R"}`, "user-only-R"},
		"apis":    {`{"id":"https://only-R.example","name":"N","scopes":[{"name":"only-R"}]}`, "https://only-R.example"},
	}
	of := func(noun, realm string) (body, path string) {
		n := nouns[noun]
		return strings.ReplaceAll(n.body, "only-R", "only-"+realm), "/" + noun + "/" + url.PathEscape(strings.ReplaceAll(n.id, "only-R", "only-"+realm))
	}
	absent := func(noun, from, at string) {
		t.Helper()
		_, path := of(noun, from)
		for _, method := range []string{"GET", "DELETE"} {
			if noun == "users" && method == "DELETE" { // users are disabled
				method, path = "POST", path+"/disable"
			}
			if status, answer := s.call(method, ofRealms[at].admin+path, ""); status != http.StatusNotFound {
				t.Errorf("%s %s of %s at %s: %d %v", method, path, from, at, status, answer)
			}
		}
		if list := s.administer("GET", ofRealms[at].admin+"/"+noun+"?match=only-"+from, "", http.StatusOK)[noun].([]any); len(list) != 0 {
			t.Errorf("%s of %s are listed at %s: %v", noun, from, at, list)
		}
	}
	for noun := range nouns {
		for from := range ofRealms {
			body, path := of(noun, from)
			s.administer("POST", ofRealms[from].admin+"/"+noun, body, http.StatusCreated)
			for at := range ofRealms {
				if at != from {
					absent(noun, from, at)
				}
			}
			s.administer("GET", ofRealms[from].admin+path, "", http.StatusOK)
			for at := range ofRealms {
				if at != from {
					s.administer("POST", ofRealms[at].admin+"/"+noun, body, http.StatusCreated)
				}
			}
			s.administer("POST", ofRealms[from].admin+"/"+noun, body, http.StatusConflict)
		}
	}
}
