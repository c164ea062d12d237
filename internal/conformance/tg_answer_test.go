package conformance_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// The error codes of RFC 6749 section 5.2, and two others for 5xx and 429.
var registered = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"server_error", "temporarily_unavailable",
}

func TestTG33_TG34_TG35_ErrorsAreRegisteredAndEchoNothing(t *testing.T) {
	d := start(t, strict)
	shape := regexp.MustCompile(`^\{"error":"([a-z_]+)","error_description":"[\x20-\x21\x23-\x5B\x5D-\x7E]+"\}$`)
	statuses := map[string][]int{
		"invalid_client": {400, 401}, "temporarily_unavailable": {429, 503}, "server_error": {500},
	}
	for _, r := range table() {
		if r.step == "H1" || r.step == "H3" {
			continue // refused before the request was parsed: 405 and 413
		}
		kinds := r.kinds
		if kinds == nil {
			kinds = bothKinds
		}
		x := newFlow(d, kinds[0])
		r.spoil(x)
		const mark = "echo-of-a-stranger"
		if x.req.body == nil {
			x.set("unknown", mark)
			x.set("state", mark+"\u00fc") // an invalid state by RFC 6749 appendix A.5
		}
		a := d.send(x.req)
		d.faulty.Heal()
		x.undo()
		m := shape.FindStringSubmatch(a.body)
		if m == nil || !slices.Contains(registered, m[1]) {
			t.Errorf("%s %s: body %s", r.step, r.name, a)
			continue
		}
		allowed := statuses[m[1]]
		if allowed == nil {
			allowed = []int{400}
		}
		if !slices.Contains(allowed, a.status) {
			t.Errorf("%s %s: status %d for %s", r.step, r.name, a.status, m[1])
		}
		for _, sent := range []string{mark, x.client.ID, x.client.secret, x.code, "secret-place", "must not be told"} {
			if strings.Contains(a.body, sent) {
				t.Errorf("%s %s: the answer holds %q", r.step, r.name, sent[:8])
			}
		}
	}
}

// For clients of OpenAM, an error echoes the state if exactly one valid one was sent.
func TestTG33_StateIsEchoedOnceAndOnlyInErrors(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	bad := with(good, "code", "made-up")
	for state, echoed := range map[string]bool{
		"xyz": true, `a"b\c<>&`: true, strings.Repeat("s", 2048): true,
		strings.Repeat("s", 2049): false, "": false, "\u00fc": false,
	} {
		r := newRequest(with(bad, "state", state))
		r.set("Connection", "close") // otherwise a long response would be chunked
		r.proto = "HTTP/1.0"
		if a := d.send(r); (a.State == state && state != "") != echoed || !echoed && a.State != "" {
			t.Errorf("a state of %d bytes: echoed %d bytes, want %v", len(state), len(a.State), echoed)
		}
	}
	twice := bad.Encode() + "&state=one&state=two"
	r := newRequest(nil)
	r.body = &twice
	if a := d.send(r); a.State != "" {
		t.Errorf("one of two states is echoed: %v", a)
	}
	if a := d.post(with(good, "state", "xyz")); a.status != 200 || strings.Contains(a.body, "xyz") {
		t.Errorf("a success with a state: %d", a.status)
	}
}

func TestTG36_TheAnswerIsJSONWhateverIsAccepted(t *testing.T) {
	d := start(t)
	for _, accept := range []string{"text/html", "application/xml", "image/png;q=1, */*;q=0"} {
		r := newRequest(d.a.redeem(d.code(d.a).Code))
		r.set("Accept", accept)
		a := d.send(r)
		d.mustIssue(a)
		compareHeader(t, a)
	}
}

func TestTG39_OldAndNewHTTPWork(t *testing.T) {
	d := start(t)
	old := newRequest(d.a.redeem(d.code(d.a).Code))
	old.proto = "HTTP/1.0"
	a := d.send(old)
	d.mustIssue(a)
	compareHeader(t, a)

	// The client sends the body after the server's 100 response.
	body := d.a.redeem(d.code(d.a).Code).Encode()
	conn := d.dial(local())
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", endpoint, len(body))
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, body)
	a, err := readAnswer(r, "POST")
	if err != nil {
		t.Fatal(err)
	}
	d.mustIssue(a)

	h2 := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.roots}, ForceAttemptHTTP2: true}}
	defer h2.CloseIdleConnections()
	resp, err := h2.PostForm("https://"+d.address+endpoint, d.a.redeem(d.code(d.a).Code))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Errorf("HTTP/2: %s %s", resp.Proto, resp.Status)
	}
}

func TestTG40_OtherSpellingsOfThePathAreNotFoundAndNotRedirected(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, path := range []string{
		"/oauth2//access_token", "//oauth2/access_token", "/oauth2/access_token/", "/OAUTH2/access_token", "/oauth2/Access_Token",
		"/oauth2/access_token;x=1", "/oauth2/./access_token", "/oauth2/x/../access_token", "/oauth2/access_token/.", "/oauth2%2faccess_token",
		"/oauth2/%61ccess_token%2f", "/oauth2/access_token%00", "/", "/oauth2/realms/api/access_token", "/oauth2/other/access_token",
	} {
		r := newRequest(good)
		r.target = path + "?realm=/api"
		a := d.send(r)
		if a.status != http.StatusNotFound || a.header["Location"] != nil {
			t.Errorf("%s: %d, Location %q", path, a.status, a.header["Location"])
			continue
		}
		compareHeader(t, a)
	}
	d.mustIssue(d.post(good))
}

func TestTG40_ABasePathMovesTheEndpoint(t *testing.T) {
	d := start(t, func(o *options) { o.BasePath = "/openam" })
	r := newRequest(d.a.redeem(d.code(d.a).Code))
	if a := d.send(r); a.status != 404 {
		t.Errorf("without the base path: %v", a)
	}
	r.target = "/openam" + endpoint
	d.mustIssue(d.send(r))
}

func TestTG41_AStoreThatIsDownLosesNothing(t *testing.T) {
	d := start(t, strict)
	pair, id := d.tokens(d.a)
	code := d.code(d.a)
	d.faulty.Before(failing(storetest.Grant, storetest.CreateGrant, storetest.UpdateGrant))
	for _, form := range []url.Values{d.a.redeem(code.Code), d.a.refresh(pair.RefreshToken)} {
		a := d.post(form)
		want(t, a, 503, "temporarily_unavailable")
		compareHeader(t, a, "Retry-After: N")
	}
	d.faulty.Heal()
	if g := d.row(id); g.Version != 1 {
		t.Errorf("the grant was changed: version %d", g.Version)
	}
	if _, err := d.sqlite.Grant(t.Context(), code.GrantID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the code left something half-written: %v", err)
	}
	d.alive(d.a, pair.RefreshToken)
	d.mustIssue(d.post(d.a.redeem(code.Code)))
}

// If the outcome of a commit is unknown, the server reads the row, which names the
// request that wrote it.
func TestTG41_ACommitOfUnknownOutcomeIsSettledByReading(t *testing.T) {
	d := start(t, strict)
	lost := func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.CreateGrant || op == storetest.UpdateGrant {
			return context.DeadlineExceeded
		}
		return nil
	}
	d.faulty.After(lost)
	first := d.mustIssue(d.post(d.a.redeem(d.code(d.a).Code)))
	second := d.alive(d.a, first.RefreshToken)
	d.faulty.Heal()
	d.alive(d.a, second.RefreshToken)

	// If the write has not happened, the client's tokens stay valid.
	pair, _ := d.tokens(d.b)
	d.faulty.Before(lost)
	want(t, d.post(d.b.refresh(pair.RefreshToken)), 503, "temporarily_unavailable")
	d.faulty.Heal()
	d.alive(d.b, pair.RefreshToken)
}

// The store is unreachable from the commit until the request's timeout. The client can
// repeat its request, and loses nothing.
func TestTG41_ACommitThatCannotBeSettledIsRepeatable(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	d.faulty.After(func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.UpdateGrant {
			d.faulty.Before(failing(storetest.Grant))
			return errDown
		}
		return nil
	})
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 503, "temporarily_unavailable")
	d.faulty.Heal()
	if g := d.row(id); g.Generation != 2 {
		t.Fatalf("the rotation was not committed: generation %d", g.Generation)
	}
	next := d.alive(d.a, pair.RefreshToken)
	d.alive(d.a, next.RefreshToken)
}

// A node that has not polled the store for five seconds may have missed a cutoff: it
// answers 503.
func TestTG41_ANodeWithoutNewsAnswers503(t *testing.T) {
	began := time.Now()
	jump := make(chan time.Duration, 1)
	jump <- 0
	d := start(t, func(o *options) {
		o.monotonic = func() time.Time {
			by := <-jump
			jump <- by
			return began.Add(by)
		}
	})
	code := d.code(d.a).Code
	d.faulty.Before(failing(storetest.Changes))
	<-jump
	jump <- 5001 * time.Millisecond
	want(t, d.post(d.a.redeem(code)), 503, "temporarily_unavailable")
	d.faulty.Heal()
	d.poll()
	d.mustIssue(d.post(d.a.redeem(code)))
}

// The client disconnects before the response. Whether the commit happens or not, a
// repeated request gets the pair that the store has.
func TestTG42_AClientThatGoesAwayLeavesAConsistentGrant(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	committed := make(chan struct{})
	gone := make(chan struct{})
	d.faulty.After(func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.UpdateGrant {
			close(committed)
			<-gone
		}
		return nil
	})
	conn := d.dial(local())
	if _, err := io.WriteString(conn, newRequest(d.a.refresh(pair.RefreshToken)).text()); err != nil {
		t.Fatal(err)
	}
	<-committed
	conn.Close()
	close(gone)
	d.faulty.Heal()
	if g := d.row(id); g.Generation != 2 || g.State != grant.Active {
		t.Errorf("generation %d, %v", g.Generation, g.State)
	}
	repeat := d.alive(d.a, pair.RefreshToken)
	if g := d.row(id); g.Generation != 2 {
		t.Errorf("the repeat made generation %d", g.Generation)
	}
	d.alive(d.a, repeat.RefreshToken)
}

// golang.org/x/oauth2 first tries Basic, and then sends the same code in the body.
func TestTG43_TheCodeSurvivesAProbeOfTheAuthenticationMethod(t *testing.T) {
	d := start(t)
	c := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthPost}})
	code := d.code(c, pkce).Code
	good := with(c.redeem(code), "code_verifier", verifier)
	probe := newRequest(good)
	probe.basic(c.ID, c.secret)
	want(t, d.send(probe), 401, "invalid_client")
	want(t, d.post(with(good, "grant_type", "")), 400, "invalid_request")
	want(t, d.post(with(good, "client_secret", "wrong")), 400, "invalid_client")
	want(t, d.post(with(good, "code_verifier", "")), 400, "invalid_grant")
	d.mustIssue(d.post(good))
}
