package node

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// A pushed request or a device code of one realm does not exist in another.
func TestOP20_PendingRequestsDoNotCrossRealms(t *testing.T) {
	s := newRealms(t)
	all, devices := map[string]inhabitant{}, map[string]string{}
	for name, of := range ofRealms {
		all[name] = s.register(name)
		s.administer("PUT", of.admin+"/clients/tv", `{"name":"TV","scope":"read","grant_types":["`+deviceGrant+`","refresh_token"]}`, http.StatusCreated)
		s.administer("POST", of.admin+"/users", `{"username":"alice","password":"correct horse battery"}`, http.StatusCreated)
		devices[name] = s.administer("POST", of.admin+"/clients/tv/secrets", "", http.StatusCreated)["client_secret"].(string)
	}
	poll := func(at, code string) any {
		_, answer, _ := s.send(ofRealms[at].endpoints+"/access_token", url.Values{"grant_type": {deviceGrant}, "device_code": {code}, "client_id": {"tv"}, "client_secret": {devices[at]}}, "")
		return answer["error"]
	}
	ask := func(at, uri string) (location, id string) {
		_, location, id = s.visit().open(ofRealms[at].endpoints+"/authorize?"+url.Values{"client_id": {sharedID}, "request_uri": {uri}}.Encode(), nil)
		return location, id
	}
	// enter enters a user code, signs the user in, and returns the status of the page.
	enter := func(at, code string) int {
		b, base := s.visit(), strings.TrimSuffix(ofRealms[at].endpoints, "/oauth2/"+at)
		_, _, id := b.open(base+"/device", url.Values{"user_code": {code}})
		status, _, _ := b.open(base+"/oauth2/interaction", url.Values{"id": {id}, "step": {"login"}, "username": {"alice"}, "password": {"correct horse battery"}})
		return status
	}
	for from, theirs := range all {
		_, pushed, _ := s.send(ofRealms[from].endpoints+"/par", url.Values{
			"client_id": {sharedID}, "client_secret": {theirs.secret}, "response_type": {"code"}, "redirect_uri": {callback}, "scope": {"read"}, "state": {"s"},
		}, "")
		uri, _ := pushed["request_uri"].(string)
		_, device, _ := s.send(ofRealms[from].endpoints+"/device_authorization", url.Values{"client_id": {"tv"}, "client_secret": {devices[from]}, "scope": {"read"}}, "")
		code, _ := device["device_code"].(string)
		user, _ := device["user_code"].(string)
		if uri == "" || code == "" || user == "" {
			t.Fatalf("%s: %v, %v", from, pushed, device)
		}
		for at := range all {
			if from == at {
				continue
			}
			if location, id := ask(at, uri); id != "" || strings.Contains(location, "code=") {
				t.Errorf("a request that was pushed to %s, at %s: interaction %q, %s", from, at, id, location)
			}
			if answer := poll(at, code); answer != "invalid_grant" {
				t.Errorf("a device code of %s at %s: %v", from, at, answer)
			}
			if status := enter(at, user); status != http.StatusUnprocessableEntity {
				t.Errorf("a user code of %s at %s: status %d", from, at, status)
			}
		}
		// In their own realm, they are still unchanged.
		if answer := poll(from, code); answer != "authorization_pending" {
			t.Errorf("a device code of %s in its own realm: %v", from, answer)
		}
		if status := enter(from, user); status != http.StatusOK {
			t.Errorf("a user code of %s in its own realm: status %d", from, status)
		}
		if location, id := ask(from, uri); id == "" {
			t.Errorf("a request that was pushed to %s, in its own realm: %s", from, location)
		}
	}
}
