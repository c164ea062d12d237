package console_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
)

// A page follows the first requests of a client: it grows with each, shows how to fix a
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
	for _, text := range []string{"&lt;b&gt;Shop&lt;/b&gt;", "https://auth.example/oauth2/api", "mintage client watch a/b", "the redirect_uri is &lt;other&gt;", "register it", "first", "sign-in asked for: not yet", "second", "sign-in asked for: done", "It works", "</html>"} {
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

// The script of a growing page reads the same items as server-sent events, from the first
// or after the Last-Event-ID.
func TestAGrowingPageHasEvents(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	r.shop("Shop", "shop")
	v := adminapi.Watch{Finished: true}
	for _, id := range []string{"first", "second"} {
		v.Requests = append(v.Requests, adminapi.WatchedRequest{At: r.now, RequestID: id, Endpoint: "token", Why: "<line\r\nbreak>"})
	}
	r.watch = func() adminapi.Watch { return v }
	events := func(last string) string {
		t.Helper()
		w := bob.do(http.MethodGet, "/clients/shop/watch", nil, func(hr *http.Request) {
			hr.Header.Set("Accept", "text/event-stream")
			hr.Header.Set("Last-Event-ID", last)
		})
		if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || kind != "text/event-stream" || !w.Flushed {
			t.Errorf("%d, %s", w.Code, kind)
		}
		for line := range strings.Lines(w.Body.String()) {
			if !strings.HasPrefix(line, "data: ") && line != "id: 2\n" && line != "event: end\n" && line != ":\n" && line != "\n" {
				t.Errorf("a line is %q", line)
			}
		}
		return w.Body.String()
	}
	for last, want := range map[string][3]int{"": {1, 1, 1}, "1": {0, 1, 1}, "2": {0, 0, 1}, "3": {1, 1, 1}, "guess": {1, 1, 1}} {
		body := events(last)
		if have := [3]int{strings.Count(body, ">first<"), strings.Count(body, ">second<"), strings.Count(body, "It works")}; have != want {
			t.Errorf("after %q: %v, want %v\n%s", last, have, want, body)
		}
	}
	if body := events(""); !strings.Contains(body, "&lt;line\\u000d\\u000abreak&gt;") || strings.Contains(body, "<html") {
		t.Error(body)
	}
	page := bob.get("/clients/shop/watch").Body.String()
	_, name, _ := strings.Cut(page, `<script type="module" async src="`)
	name, _, _ = strings.Cut(name, `"`)
	if w := bob.get(name); w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") || !strings.Contains(w.Body.String(), "EventSource") {
		t.Errorf("%s: %d", name, w.Code)
	}
	r.watch = func() adminapi.Watch { panic("asked for without a session") }
	bob.cookie.Value = "guess"
	if w := bob.get("/clients/shop/watch"); w.Code != http.StatusSeeOther {
		t.Errorf("%d without a session", w.Code)
	}
}

// Requests that a page sends by itself do not count as use of a session. Otherwise the
// session would never be idle.
func TestAGrowingPageKeepsNobodySignedIn(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	r.shop("Shop", "shop")
	looks := 0
	r.watch = func() adminapi.Watch {
		looks++
		r.now = r.now.Add(10 * time.Minute)
		return adminapi.Watch{}
	}
	body := bob.get("/clients/shop/watch").Body.String()
	if !strings.Contains(body, "follows no more") || looks != 3 {
		t.Errorf("%d looks\n%s", looks, body)
	}
	if w := bob.get("/clients"); w.Code != http.StatusSeeOther {
		t.Errorf("%d after the idle time", w.Code)
	}
}

// The number of growing pages is limited. A page beyond the limit says so.
func TestGrowingPagesAreLimited(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	r.shop("Shop", "shop")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range 4 {
		all.Go(func() {
			first := sync.OnceFunc(func() { begun <- struct{}{} })
			hr := httptest.NewRequestWithContext(ctx, http.MethodGet, origin+"/audit/follow", nil)
			hr.AddCookie(bob.cookie)
			r.handler.ServeHTTP(&reader{httptest.NewRecorder(), func(string) { first() }}, hr)
		})
	}
	for range 4 {
		<-begun
	}
	if w := bob.get("/audit/follow"); w.Code != http.StatusTooManyRequests {
		t.Errorf("%d beside four", w.Code)
	}
	cancel()
	all.Wait()
}

// A growing page gets a free slot, however long it takes to look.
func TestAGrowingPageGetsAFreeSlot(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	r.shop("Shop", "shop")
	r.watch = func() adminapi.Watch { return adminapi.Watch{Finished: true} }
	r.console.Hurry(time.Nanosecond)
	for range 20 {
		if w := bob.get("/clients/shop/watch"); w.Code != http.StatusOK {
			t.Fatalf("%d", w.Code)
		}
	}
}

// A growing page ends with the operator's session.
func TestAGrowingPageEndsWithTheSession(t *testing.T) {
	r := open(t)
	r.operator("carol", operator.Admin)
	alice := r.operator("alice", operator.Admin)
	r.shop("Shop", "shop")
	looks := 0
	r.watch = func() adminapi.Watch {
		if looks++; looks == 2 {
			if err := operator.Remove(t.Context(), r.store, "alice", "test", grant.At(r.now), nobody); err != nil {
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

// A reader records the response of a growing page, and calls flushed at each flush.
type reader struct {
	*httptest.ResponseRecorder
	flushed func(body string)
}

func (r *reader) Flush() { r.flushed(r.Body.String()) }

// The page adds audit records as they are written, each once.
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

// A page that began without records shows all new records, even more than the number with
// which a page begins.
func TestFollowShowsEachOfManyRecords(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, now := 0, r.console.Now
	r.console.Now = func() time.Time {
		if begun > 0 {
			begun++
		}
		switch begun { // in the second or third poll, and some polls later
		case 8:
			for i := range 15 {
				r.audit.Record(audit.Event{Name: audit.LoginSucceeded, Realm: "/api", Subject: fmt.Sprintf("user-%d", i)})
			}
			if err := r.audit.Close(); err != nil { // this writes all queued records
				t.Error(err)
			}
		case 30:
			cancel()
		}
		return now()
	}
	w := &reader{httptest.NewRecorder(), func(string) { begun = max(begun, 1) }}
	hr := httptest.NewRequestWithContext(ctx, http.MethodGet, origin+"/audit/follow?event=login_succeeded", nil)
	hr.AddCookie(bob.cookie)
	r.handler.ServeHTTP(w, hr)
	if n := strings.Count(w.Body.String(), "<bdi>user-"); n != 15 {
		t.Errorf("%d of 15 records are shown", n)
	}
}

// The page that links to an export says if the export ends before the log does.
func TestAnExportHasALimit(t *testing.T) {
	r := open(t)
	r.console.ExportPages(2)
	bob := r.operator("bob", operator.Auditor)
	for range 2*adminapi.MaxPage + 1 {
		r.audit.Record(audit.Event{Name: "user_changed", Outcome: audit.Success, Subject: "erin"})
	}
	if err := r.audit.Close(); err != nil {
		t.Fatal(err)
	}
	records := map[string]bool{}
	for line := range strings.Lines(bob.get("/audit/export?subject=erin").Body.String()) {
		records[line] = true
	}
	if n := len(records); n != 2*adminapi.MaxPage {
		t.Errorf("the export has %d records, each counted once", n)
	}
	if page := bob.get("/audit").Body.String(); !strings.Contains(page, fmt.Sprintf("An export has the latest %d records at most.", 2*adminapi.MaxPage)) {
		t.Errorf("the page does not say that it ends:\n%s", page)
	}
}

// The pages of a search link to earlier records and to the latest ones, and show the last
// record, with which a copy of the log is verified.
func TestPagesOfTheAuditLog(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	for i := range 120 {
		r.audit.Record(audit.Event{Name: []audit.Name{"user_changed", "user_disabled"}[i%2], Subject: fmt.Sprintf("user-%03d", i)})
	}
	if err := r.audit.Close(); err != nil {
		t.Fatal(err)
	}
	link := func(body, text string) string {
		m := regexp.MustCompile(`<a class="button"[^>]* href="([^"]*)">` + text + `</a>`).FindStringSubmatch(body)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	const search = "/audit?event=user_changed&since=7d"
	var seen []string
	for path := search; path != ""; {
		body := bob.get(path).Body.String()
		for _, m := range regexp.MustCompile("<bdi>(user-[0-9]+)</bdi>").FindAllStringSubmatch(body, -1) {
			seen = append(seen, m[1])
		}
		if latest := link(body, "Latest"); latest != map[bool]string{true: "", false: search}[path == search] {
			t.Errorf("%s leads to the latest at %q", path, latest)
		}
		if !strings.Contains(body, "mintage audit verify --head "+r.audit.Head().Hash.String()) {
			t.Errorf("%s does not name the last record", path)
		}
		path = link(body, "Older")
	}
	if slices.Sort(seen); len(seen) != 60 || len(slices.Compact(seen)) != 60 {
		t.Errorf("%d of 60 records are shown: %q", len(seen), seen)
	}
}
