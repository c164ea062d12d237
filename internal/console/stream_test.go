package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
)

// A page waits for a client's first requests: it grows by each, with what to do about a
// refusal, and ends when the client has refreshed.
func TestTheFirstRequest(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	r.shop("<b>Shop</b>", "a/b")
	looks := 0
	r.watch = func() adminapi.Watch {
		looks++
		v := adminapi.Watch{Stages: []adminapi.Stage{{Name: "authorize", Done: looks > 2}, {Name: "token"}}}
		if looks > 1 {
			v.Requests = append(v.Requests, adminapi.WatchedRequest{At: r.now, RequestID: "first", Endpoint: "authorization", Why: "the redirect_uri is <other>", Next: "register it"})
		}
		if looks > 2 {
			v.Requests = append(v.Requests, adminapi.WatchedRequest{At: r.now, RequestID: "second", Endpoint: "authorization", Answered: true})
			v.Finished = true
		}
		return v
	}
	w := bob.get("/clients/a%2Fb/watch")
	body := w.Body.String()
	if w.Code != http.StatusOK || looks != 3 || !w.Flushed {
		t.Fatalf("%d after %d looks\n%s", w.Code, looks, body)
	}
	at := 0
	for _, text := range []string{"&lt;b&gt;Shop&lt;/b&gt;", "https://auth.example/oauth2/api", "the redirect_uri is &lt;other&gt;", "register it", "first", "sign-in asked for: not yet", "second", "sign-in asked for: done", "It works", "mintage client watch a/b", "</html>"} {
		i := strings.Index(body[at:], text)
		if i < 0 {
			t.Fatalf("the page lacks %s, or has it too early:\n%s", text, body)
		}
		at += i
	}
	if n := strings.Count(body, "register it"); n != 1 {
		t.Errorf("a request is shown %d times", n)
	}
}

// A page that grows is an operator's as long as the session lasts.
func TestAGrowingPageEndsWithTheSession(t *testing.T) {
	r := open(t)
	r.operator("carol", operator.Admin)
	alice := r.operator("alice", operator.Admin)
	r.shop("Shop", "shop")
	looks := 0
	r.watch = func() adminapi.Watch {
		if looks++; looks == 2 {
			if err := operator.Remove(t.Context(), r.store, "alice", "test", grant.At(r.now)); err != nil {
				t.Error(err)
			}
		}
		return adminapi.Watch{Finished: looks > 5}
	}
	body := alice.get("/clients/shop/watch").Body.String()
	if looks != 2 || !strings.Contains(body, "follows no more") || strings.Contains(body, "It works") {
		t.Errorf("%d looks\n%s", looks, body)
	}
}

// A reader of a page that grows does something at each flush.
type reader struct {
	*httptest.ResponseRecorder
	flushed func(body string)
}

func (r *reader) Flush() { r.flushed(r.Body.String()) }

// Records of the audit log are added as they are written, each once.
func TestFollowTheAuditLog(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	record := func(subject string) {
		r.audit.Record(audit.Event{Name: audit.LoginSucceeded, Realm: "/api", Subject: subject})
	}
	record("before")
	asked := false
	w := &reader{httptest.NewRecorder(), func(body string) {
		if !asked && strings.Contains(body, "before") {
			asked = true
			record("during")
		}
		if strings.Contains(body, "during") {
			cancel()
		}
	}}
	hr := httptest.NewRequestWithContext(ctx, http.MethodGet, origin+"/audit/follow?event=login_succeeded", nil)
	hr.AddCookie(bob.cookie)
	r.handler.ServeHTTP(w, hr)
	body := w.Body.String()
	for _, subject := range []string{"before", "during"} {
		if n := strings.Count(body, "<bdi>"+subject+"</bdi>"); n != 1 {
			t.Errorf("%s is shown %d times\n%s", subject, n, body)
		}
	}
	if !strings.Contains(body, "mintage audit show --event login_succeeded --follow") {
		t.Error("the page lacks its command")
	}
}
