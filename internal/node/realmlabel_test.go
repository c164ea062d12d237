package node

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/audit"
)

// logLines collects log lines.
type logLines struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

// realmsOf returns the realms of the lines with a message. A line that has the member
// twice counts twice.
func (l *logLines) realmsOf(t *testing.T, message string) (list []string) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var one struct{ Msg, Realm string }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if one.Msg != message {
			continue
		}
		if n := strings.Count(line, `"realm":`); n != 1 {
			t.Errorf("the line names a realm %d times: %s", n, line)
		}
		list = append(list, one.Realm)
	}
	return list
}

// With several realms, log lines, audit records and metrics name their realm, even the
// default one.
func TestRecordsNameTheirRealm(t *testing.T) {
	s := newRealms(t)
	want := []string{"/api", "/far", "/near"}
	for _, name := range []string{"api", "far", "near"} {
		s.register(name)
		s.administer("POST", ofRealms[name].admin+"/users", `{"username":"alice","password":"correct horse battery"}`, http.StatusCreated)
		s.administer("GET", ofRealms[name].admin+"/clients/unknown", "", http.StatusNotFound)
		s.send(ofRealms[name].endpoints+"/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {sharedID}, "client_secret": {"wrong"}}, "")
		b := s.visit()
		_, _, id := b.open(ofRealms[name].endpoints+"/authorize?"+url.Values{"response_type": {"code"}, "client_id": {sharedID}, "redirect_uri": {callback}, "scope": {"read"}, "state": {"s"}}.Encode(), nil)
		b.open(strings.TrimSuffix(ofRealms[name].endpoints, "/"+name)+"/interaction", url.Values{"id": {id}, "step": {"login"}, "username": {"alice"}, "password": {"wrong"}})
	}
	for _, message := range []string{"token request refused", "wrong password, or a disabled user", "admin request refused"} {
		if got := s.log.realmsOf(t, message); !slices.Equal(got, want) {
			t.Errorf("%q is logged for %v, want %v", message, got, want)
		}
	}
	s.administer("POST", "/admin/v1/keys/rotate", "", http.StatusOK)
	s.n.auditLog.Close()
	recorded := map[audit.Name][]string{}
	for e, err := range audit.Read(s.n.cfg.AuditDirectory(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if list := recorded[e.Event]; !slices.Contains(list, e.Realm) {
			recorded[e.Event] = append(list, e.Realm)
		}
	}
	for _, name := range []audit.Name{"client_created", "user_created", "client_auth_failed", "login_failed", "code_issued", "code_redeemed"} {
		if got := slices.Sorted(slices.Values(recorded[name])); !slices.Equal(got, want) {
			t.Errorf("%s is recorded for %v, want %v", name, got, want)
		}
	}
	for _, name := range []audit.Name{"key_added", "server_started"} {
		if got := recorded[name]; !slices.Equal(got, []string{""}) {
			t.Errorf("%s is recorded for %q, and belongs to the deployment", name, got)
		}
	}
	families, err := s.n.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "realm" && (m.Counter == nil || m.GetCounter().GetValue() > 0) {
					counted[f.GetName()+" "+l.GetValue()] = true
				}
			}
		}
	}
	for _, family := range []string{"http_server_request_duration_seconds", "mintage_token_requests_total", "mintage_tokens_issued_total", "mintage_client_auth_failures_total", "mintage_login_attempts_total"} {
		for _, realm := range want {
			if !counted[family+" "+realm] {
				t.Errorf("%s does not count %s", family, realm)
			}
		}
	}
}
