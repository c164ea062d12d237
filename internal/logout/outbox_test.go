package logout

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const issuerID = "https://auth.example/oauth2/api"

// A bench is an Outbox with a test kit, and receivers that respond as the test says.
type bench struct {
	*Outbox
	t   *testing.T
	kit *testkit.Kit

	mu       sync.Mutex
	ended    store.DocumentKey // the end of a session that codeInFlight has stored
	received []received
	answers  map[string]func(*http.Request) (*http.Response, error) // responses by host; nil for a 200
	inside   int
	most     int
}

type received struct {
	host   string
	header map[string]any
	claims map[string]any
}

// sid returns the claim sid, or "".
func (r received) sid() string { s, _ := r.claims["sid"].(string); return s }

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, answers: map[string]func(*http.Request) (*http.Response, error){}}
	b.kit = testkit.New(t, func(s *testkit.Setup) { s.ID, s.IDTokenLifetime = issuerID, 5*time.Minute })
	b.Outbox = b.node()
	b.lease.Alone = true
	return b
}

// node returns another node's Outbox on the same store.
func (b *bench) node() *Outbox {
	o := New(Config{Realm: testkit.Realm, Store: b.kit.Faulty, Directory: b.kit.Issuer.Directory, Now: b.kit.Issuer.Now, ClockFault: b.kit.Issuer.Directory.ClockFault, Transport: b, Log: b.kit.Log, Monotonic: b.kit.Clock.Now})
	o.Use(b.kit.Issuer)
	return o
}

func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	var err error
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
	}
	form, unread := url.ParseQuery(string(body))
	if err = errors.Join(err, unread); err != nil || len(form) != 1 || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.URL.Path != "/logout" {
		b.t.Errorf("%s %s %q: %q, %v", r.Method, r.URL, r.Header, body, err)
	}
	if until, ok := r.Context().Deadline(); !ok || time.Until(until) > 5*time.Second {
		b.t.Errorf("the attempt may take until %v", until)
	}
	header, claims := b.verify(form.Get("logout_token"))
	b.mu.Lock()
	b.received = append(b.received, received{r.URL.Host, header, claims})
	answer := b.answers[r.URL.Host]
	b.inside++
	b.most = max(b.most, b.inside)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.inside--
		b.mu.Unlock()
	}()
	if answer != nil {
		return answer(r)
	}
	return status(http.StatusOK, "")(r)
}

func status(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Location": {"https://elsewhere.example/logout"}}}, nil
	}
}

// verify verifies a token's signature with the published keys.
func (b *bench) verify(text string) (header, claims map[string]any) {
	b.t.Helper()
	set, err := b.kit.Signer().PublicKeys()
	if err != nil {
		b.t.Fatal(err)
	}
	signed, err := jose.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
	if err != nil {
		b.t.Errorf("%q: %v", text, err)
		return
	}
	key := (&jose.JSONWebKeySet{Keys: set}).Key(signed.Signatures[0].Header.KeyID)
	payload, err := signed.Verify(key[0].Key)
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		b.t.Error(err)
	}
	head, _, _ := strings.Cut(text, ".")
	decoded, _ := base64.RawURLEncoding.DecodeString(head)
	if err := json.Unmarshal(decoded, &header); err != nil {
		b.t.Error(err)
	}
	return header, claims
}

// takeReceived returns what was received since the last call, by host.
func (b *bench) takeReceived() map[string][]received {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := map[string][]received{}
	for _, r := range b.received {
		of[r.host] = append(of[r.host], r)
	}
	b.received = nil
	return of
}

// hosts requires that each of these hosts has received one token, and no other host any.
func (b *bench) hosts(want ...string) map[string][]received {
	b.t.Helper()
	got := b.takeReceived()
	var list []string
	for host, tokens := range got {
		for range tokens {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	slices.Sort(want)
	if !slices.Equal(list, want) {
		b.t.Errorf("received by %q, not %q", list, want)
	}
	return got
}

func (b *bench) register(id string, change ...func(*client.Registration)) {
	b.t.Helper()
	r := client.Registration{
		ID: id, Settings: store.Settings{Name: id, Scope: "openid a", Auth: store.AuthEither, RedirectURIs: []string{"https://" + id + ".example/cb"}, IDTokenAlg: keys.ES256,
			LogoutURI: "https://" + id + ".example/logout",
		},
	}
	for _, f := range change {
		f(&r)
	}
	b.kit.Register(r)
}

func bySession(r *client.Registration) { r.LogoutSession = true }
func deaf(r *client.Registration)      { r.LogoutURI = "" }

var session1, session2 = [16]byte{1}, [16]byte{2}

// grant stores a grant that was authorized now.
func (b *bench) grant(clientID, subject string, session [16]byte) grant.ID {
	b.t.Helper()
	now := b.kit.At()
	var id grant.ID
	rand.Read(id[:])
	g := grant.Grant{
		ID: id, Realm: testkit.Realm, ClientID: clientID, Subject: subject, Scope: "openid a",
		AuthorizedAt: now, Facts: grant.Facts{Session: session}, Generation: 1, Version: 1, RotatedAt: now, ExpiresAt: now.Add(30 * 24 * time.Hour),
		DeleteAfter: now.Add(31 * 24 * time.Hour), State: grant.Active,
	}
	if err := b.kit.Engine.CreateGrant(b.t.Context(), g); err != nil {
		b.t.Fatal(err)
	}
	return g.ID
}

// end stores the end of a session, or of all sessions for the zero reference.
func (b *bench) end(subject string, session [16]byte) store.DocumentKey {
	b.t.Helper()
	d := EndOfAll(testkit.Realm, subject, b.kit.At())
	if session != [16]byte{} {
		d = EndOfSession(testkit.Realm, issuer.SessionEnd{Subject: subject, Reference: session}, b.kit.At())
	}
	if err := b.kit.Engine.Commit(b.t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		b.t.Fatal(err)
	}
	return d.Key
}

// run makes o do all that is due.
func (b *bench) run(o *Outbox) {
	b.t.Helper()
	for {
		more, err := o.turn(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		o.working.Wait()
		select {
		case <-o.wake:
		default:
			if !more {
				return
			}
		}
	}
}

// pass advances the clock, and makes o do what is due each second.
func (b *bench) pass(o *Outbox, d time.Duration) {
	b.t.Helper()
	for ; d > 0; d -= time.Second {
		b.kit.Clock.Advance(time.Second)
		b.run(o)
	}
}

func (b *bench) token(key string) Token {
	b.t.Helper()
	d, err := b.kit.Engine.Document(b.t.Context(), TokenRef{Key: key}.key())
	if err != nil {
		b.t.Fatal(err)
	}
	t, err := decode[Token](d)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) readEnd(key store.DocumentKey) End {
	b.t.Helper()
	d, err := b.kit.Engine.Document(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := decode[End](d)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func TestEachClientOfAnEndedSessionIsNotifiedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.register("mail", func(r *client.Registration) { r.IDTokenAlg = keys.EdDSA })
	b.register("deaf", deaf)
	b.register("other")
	b.register("off")
	for _, id := range []string{"shop", "shop", "mail", "deaf", "off"} {
		b.grant(id, "alice", session1)
		b.kit.Clock.Advance(time.Millisecond)
	}
	b.grant("other", "alice", session2)
	b.grant("other", "bob", session1)
	b.kit.Administer("off", func(c *store.Client) { c.State = store.ClientDisabled })
	b.kit.Clock.Advance(time.Hour)
	b.end("alice", session1)
	b.run(b.Outbox)

	got := b.hosts("shop.example", "mail.example")
	seconds := float64(b.kit.At() / 1000)
	for id, alg := range map[string]string{"shop": "ES256", "mail": "EdDSA"} {
		r := got[id+".example"][0]
		if r.header["typ"] != "logout+jwt" || r.header["alg"] != alg || len(r.header) != 3 {
			t.Errorf("%s: header %v", id, r.header)
		}
		jti, _ := r.claims["jti"].(string)
		if len(jti) < 22 {
			t.Errorf("%s: jti %q", id, jti)
		}
		want := map[string]any{
			"iss": issuerID, "sub": "alice", "aud": id, "iat": seconds, "exp": seconds + 120, "jti": jti, "sid": openid.SessionID(session1, id),
			"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
		}
		if !maps.EqualFunc(r.claims, want, func(x, y any) bool { return fmt.Sprint(x) == fmt.Sprint(y) }) {
			t.Errorf("%s: claims %v", id, r.claims)
		}
	}
	if got["shop.example"][0].sid() == got["mail.example"][0].sid() {
		t.Error("two clients can compare their sids")
	}
	b.pass(b.Outbox, 3*time.Minute)
	b.hosts()
}

func TestLogoutTokensAreNoHints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	c := b.kit.Client("shop")
	text, err := b.kit.Signer().Logout(&c, "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.kit.Hint(text); !errors.Is(err, openid.ErrHint) {
		t.Errorf("a logout token is taken for an id_token: %v", err)
	}
}

func TestAttemptsAreRepeatedWithNewTokensUntilTheClientAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	faults := []func(*http.Request) (*http.Response, error){
		status(500, ""), status(302, ""), status(401, ""), status(404, ""), status(201, ""), status(429, ""),
		func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
	}
	b.answers["shop.example"] = func(r *http.Request) (*http.Response, error) {
		f := faults[0]
		if faults = faults[1:]; len(faults) == 0 {
			faults = append(faults, status(204, ""))
		}
		return f(r)
	}
	key := b.end("alice", session1)
	began := b.kit.Clock.Now()
	var at []time.Duration
	var ids []any
	for range 130 {
		b.run(b.Outbox)
		for _, r := range b.takeReceived()["shop.example"] {
			at = append(at, b.kit.Clock.Now().Sub(began))
			ids = append(ids, r.claims["jti"])
			if got := int64(r.claims["iat"].(float64)); got != b.kit.Clock.Now().Unix() {
				t.Errorf("iat %d at %d: not signed anew", got, b.kit.Clock.Now().Unix())
			}
		}
		b.kit.Clock.Advance(time.Second)
	}
	want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(at, want) {
		t.Errorf("attempts at %v, not %v", at, want)
	}
	slices.SortFunc(ids, func(x, y any) int { return strings.Compare(x.(string), y.(string)) })
	if len(slices.Compact(ids)) != len(want) {
		t.Errorf("a jti was used twice: %v", ids)
	}
	got := b.token(b.readEnd(key).Tokens[0].Key)
	if got.State != Delivered || got.Attempts != 8 || got.Answer != "answered 204" {
		t.Errorf("%+v", got)
	}
}

func TestA400IsFinalAndRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(400, `{"error":"invalid_request","error_description":"<script>"}`)
	key := b.end("alice", session1)
	b.run(b.Outbox)
	b.pass(b.Outbox, 2*time.Minute)
	b.hosts("shop.example")
	if got := b.token(b.readEnd(key).Tokens[0].Key); got.State != Refused || got.Answer != "answered 400 invalid_request" {
		t.Errorf("%+v", got)
	}
	if n := b.kit.Logged.Count("has refused a logout token"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestATokenIsGivenUpAfterADay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(503, "")
	key := b.end("alice", session1)
	b.run(b.Outbox)
	attempts := 1
	for range 30 * 60 {
		b.kit.Clock.Advance(time.Minute)
		b.run(b.Outbox)
		if n := len(b.takeReceived()["shop.example"]); n > 0 {
			attempts += n
		}
	}
	got := b.token(b.readEnd(key).Tokens[0].Key)
	if got.State != GivenUp || got.Tried.Since(got.At) < 24*time.Hour || got.Tried.Since(got.At) > 25*time.Hour+time.Minute {
		t.Errorf("%+v", got)
	}
	if attempts < 24 || attempts > 45 {
		t.Errorf("%d attempts", attempts)
	}
	if n := b.kit.Logged.Count("gave up notifying a client of a logout"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	// An overdue token is tried at least once, for example after a backup was restored.
	b.end("alice", session1)
	b.kit.Clock.Advance(3 * 24 * time.Hour)
	b.takeReceived()
	b.answers["shop.example"] = nil
	b.run(b.Outbox)
	b.hosts("shop.example")
}

// The outcome of each token is in the audit log and the metrics; failed attempts are
// counted, too.
func TestTheOutcomeOfATokenIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	b.Audit = audit.Open(audit.Options{Directory: dir, Node: "a", Now: b.kit.Clock.Now, Log: b.kit.Log})
	b.Metrics = metrics.New("v1", 0)
	for id, code := range map[string]int{"good": 204, "strict": 400, "dead": 503} {
		b.register(id)
		b.grant(id, "alice", session1)
		b.answers[id+".example"] = status(code, "")
	}
	b.kit.Clock.Advance(time.Hour)
	b.end("alice", session1)
	b.run(b.Outbox)
	for range 30 {
		b.kit.Clock.Advance(time.Hour)
		b.run(b.Outbox)
	}
	if err := b.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]audit.Outcome{}
	for e, err := range audit.Read(dir, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event != audit.LogoutSent {
			continue
		}
		if got[e.ClientID] != "" || e.Subject != "alice" || !strings.HasPrefix(e.Detail, "sid "+openid.SessionID(session1, e.ClientID)+"; attempt ") {
			t.Errorf("%+v", e)
		}
		got[e.ClientID] = e.Outcome
	}
	if want := map[string]audit.Outcome{"good": audit.Success, "strict": audit.Refused, "dead": audit.Failed}; !maps.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	counted := testkit.Series(t, b.Metrics)
	of := func(s State) float64 { return counted["mintage_logout_tokens_total{result="+string(s)+"}"] }
	if of(Delivered) != 1 || of(Refused) != 1 || of(GivenUp) != 1 || of(Pending) < 10 {
		t.Errorf("counted %v", counted)
	}
}

func TestAClientsTokensStayInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	var want []string
	for i := range 50 {
		session := [16]byte{9, byte(i)}
		b.grant("shop", "alice", session)
		want = append(want, openid.SessionID(session, "shop"))
	}
	b.kit.Clock.Advance(time.Hour)
	for i := range 50 {
		b.end("alice", [16]byte{9, byte(i)})
		b.kit.Clock.Advance(7 * time.Millisecond)
		if i%30 == 0 {
			b.run(b.Outbox)
		}
	}
	b.run(b.Outbox)
	var order []string
	for _, r := range b.takeReceived()["shop.example"] {
		order = append(order, r.sid())
	}
	if !slices.Equal(order, want) {
		t.Errorf("received %q, not %q", order, want)
	}
}

// A later logout is sent immediately to a client that has failed, however long its
// current pause is; the queued ones follow when it responds. While the client fails, new
// logouts cause at most one attempt each second.
func TestAFailureHoldsUpNoLaterLogout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	var want []string
	for i := range 40 {
		session := [16]byte{9, byte(i)}
		b.grant("shop", "alice", session)
		want = append(want, openid.SessionID(session, "shop"))
	}
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(503, "")
	b.end("alice", [16]byte{9, 0})
	b.pass(b.Outbox, 20*time.Minute)
	if n := len(b.takeReceived()["shop.example"]); n != 11 {
		t.Errorf("%d attempts in 20 minutes, not 11", n)
	}
	for i := range 30 {
		b.end("alice", [16]byte{9, byte(1 + i)})
	}
	b.run(b.Outbox)
	for range 40 {
		b.kit.Clock.Advance(500 * time.Millisecond)
		b.run(b.Outbox)
	}
	attempts := b.takeReceived()["shop.example"]
	if len(attempts) < 20 || len(attempts) > 21 {
		t.Errorf("%d attempts in 20 seconds with new logouts", len(attempts))
	}
	of := map[string]bool{}
	for _, r := range attempts {
		of[r.sid()] = true
	}
	if len(of) < 20 {
		t.Errorf("new logouts queue behind others: %d attempts are of %d sessions", len(attempts), len(of))
	}
	b.pass(b.Outbox, 20*time.Minute) // the next scheduled attempt is far away
	b.takeReceived()
	delete(b.answers, "shop.example")
	for i := 31; i < 40; i++ {
		b.end("alice", [16]byte{9, byte(i)})
	}
	b.run(b.Outbox)
	got := b.takeReceived()["shop.example"]
	var sids []string
	for _, r := range got {
		sids = append(sids, r.sid())
	}
	if len(sids) == 0 || !slices.Contains(want[31:], sids[0]) {
		t.Error("the first attempt is not of a new logout")
	}
	slices.Sort(sids)
	slices.Sort(want)
	if !slices.Equal(sids, want) {
		t.Errorf("received %d of %d when the client was back", len(sids), len(want))
	}
	if clients, waiting := b.Failing(); clients != 0 || waiting != 0 {
		t.Errorf("%d clients fail, a logout waits for %s", clients, waiting)
	}
	b.pass(b.Outbox, 2*time.Minute)
	b.hosts()
}

// newFailingShop returns a bench with sessions of alice and bob at a client that has not
// responded about the end of alice's session for twenty minutes.
func newFailingShop(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.grant("shop", "bob", session2)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(503, "")
	b.end("alice", session1)
	b.pass(b.Outbox, 20*time.Minute)
	b.takeReceived()
	return b
}

// A logout that is dated in the future, by a command or because the clock was set back,
// has no negative age.
func TestALogoutThatIsDatedAheadDoesNotWaitYet(t *testing.T) {
	t.Parallel()
	b := newFailingShop(t)
	if clients, waiting := b.Failing(); clients != 1 || waiting < 20*time.Minute {
		t.Errorf("%d clients fail, a logout waits for %s", clients, waiting)
	}
	b.kit.Clock.Advance(-time.Hour)
	if clients, waiting := b.Failing(); clients != 1 || waiting != 0 {
		t.Errorf("%d clients fail, a logout waits for %s", clients, waiting)
	}
}

// When a client that failed answers again, the logout that found this out is not sent a
// second time.
func TestTheLogoutThatFindsItsClientBackIsSentOnce(t *testing.T) {
	t.Parallel()
	b := newFailingShop(t)
	delete(b.answers, "shop.example")
	b.end("bob", session2)
	b.run(b.Outbox)
	var got []any
	for _, r := range b.takeReceived()["shop.example"] {
		got = append(got, r.claims["sub"])
	}
	if !slices.Equal(got, []any{"bob", "alice"}) {
		t.Errorf("received the logouts of %v, not of bob and alice", got)
	}
	b.pass(b.Outbox, 2*time.Minute)
	b.hosts()
}

// Dropping a token without an attempt says nothing about the client: its pauses continue.
func TestADroppedTokenEndsNoPause(t *testing.T) {
	t.Parallel()
	b := newFailingShop(t)
	// Bob has logged in again: tokens for single sessions replace the one about all his
	// sessions.
	b.end("bob", [16]byte{})
	b.kit.Clock.Advance(time.Millisecond)
	b.grant("shop", "bob", [16]byte{3})
	b.run(b.Outbox)
	b.pass(b.Outbox, 2*time.Second)
	got := b.hosts("shop.example")["shop.example"]
	if len(got) > 0 && got[0].sid() != openid.SessionID(session2, "shop") {
		t.Errorf("received %v, not the logout of bob's session", got[0].claims)
	}
	b.pass(b.Outbox, 20*time.Minute)
	b.hosts("shop.example") // 1024 seconds after the previous attempt
	if clients, _ := b.Failing(); clients != 1 {
		t.Errorf("%d clients fail, not 1", clients)
	}
}

// An operator who removes the address of a client that fails, or disables the client, ends
// what waits for it without the pause before its next attempt.
func TestWithoutAnAddressNothingWaits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*store.Client){
		"the address is removed": func(c *store.Client) { c.LogoutURI = "" },
		"the client is disabled": func(c *store.Client) { c.State = store.ClientDisabled },
	} {
		b := newFailingShop(t)
		b.kit.Administer("shop", change)
		b.pass(b.Outbox, rescan)
		b.hosts()
		if clients, waiting := b.Failing(); clients != 0 || waiting != 0 {
			t.Errorf("%s: %d clients fail, and a logout has waited for %s", name, clients, waiting)
		}
	}
}

func TestNothingWaitsBeforeALogoutAndAfterItsDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.run(b.Outbox)
	if b.waiting() {
		t.Error("a token waits although no session has ended")
	}
	b.answers["shop.example"] = status(503, "")
	b.end("alice", session1)
	b.run(b.Outbox)
	if !b.waiting() {
		t.Error("no token waits although the client does not answer")
	}
	delete(b.answers, "shop.example")
	b.pass(b.Outbox, 2*time.Second)
	b.hosts("shop.example", "shop.example")
	if b.waiting() {
		t.Error("a token waits although all are delivered")
	}
}

// The token that was tried last may be anywhere in a long queue.
func TestTheNextAttemptOfALongQueueIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := b.kit.At()
	r := End{Subject: "alice", At: now}
	change := func(documents ...store.Document) {
		if err := b.kit.Engine.Commit(t.Context(), store.Change{Documents: documents}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * page {
		token := Token{ClientID: "shop", Subject: "alice", SessionID: fmt.Sprint(i), At: now.Add(time.Duration(i) * time.Millisecond), State: Pending}
		token.Tried = token.At
		token.Next = token.Tried.Add(time.Hour)
		d := token.document(testkit.Realm, store.DocumentKey{}, "")
		if i == 0 {
			r.Tokens = []TokenRef{{"shop", hex.EncodeToString(d.Key[:])}}
		}
		change(d)
	}
	change(r.document(testkit.Realm, "alice"))
	list, err := Of(t.Context(), b.kit.Engine, testkit.Realm, "alice")
	if err != nil || len(list) != 1 || len(list[0].Tokens) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if got, want := list[0].Tokens[0].Next, now.Add((3*page-1)*time.Millisecond+time.Hour); got != want {
		t.Errorf("the next attempt is at %d, not %d", got, want)
	}
}

// A token that was not tried yet shows its client's next attempt.
func TestATokenThatWaitsShowsItsClientsNextAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.grant("shop", "bob", session2)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(503, "")
	b.end("alice", session1)
	b.pass(b.Outbox, time.Minute)
	b.end("bob", session2)
	if _, err := b.look(t.Context(), b.kit.Issuer, b.view()); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"alice", "bob"} {
		list, err := Of(t.Context(), b.kit.Engine, testkit.Realm, subject)
		if err != nil || len(list) != 1 || len(list[0].Tokens) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		// Attempts were 1, 2, 4, 8, 16 and 32 seconds after the end.
		if got := list[0].Tokens[0].Next.Since(b.kit.At()); got != 64*time.Second-60*time.Second {
			t.Errorf("%s: the next attempt is in %v", subject, got)
		}
	}
}

// If a client always fails for one token, it still gets those of all other sessions.
func TestATokenThatAlwaysFailsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	poison := map[string]bool{}
	for i := range 40 {
		session := [16]byte{9, byte(i)}
		b.grant("shop", "alice", session)
		if i < 5 {
			poison[openid.SessionID(session, "shop")] = true
		}
	}
	b.answers["shop.example"] = func(r *http.Request) (*http.Response, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if poison[b.received[len(b.received)-1].sid()] {
			return status(500, "")(r)
		}
		return status(200, "")(r)
	}
	b.kit.Clock.Advance(time.Hour)
	for i := range 40 {
		b.end("alice", [16]byte{9, byte(i)})
		b.kit.Clock.Advance(time.Millisecond)
	}
	b.run(b.Outbox)
	b.pass(b.Outbox, 10*time.Second)
	got := map[string]bool{}
	for _, r := range b.takeReceived()["shop.example"] {
		got[r.sid()] = true
	}
	if len(got) != 40 {
		t.Errorf("%d of 40 sessions", len(got))
	}
	if clients, waiting := b.Failing(); clients != 1 || waiting < 10*time.Second || waiting > 11*time.Second {
		t.Errorf("%d clients fail, a logout waits for %s", clients, waiting)
	}
	b.pass(b.Outbox, time.Hour)
	if n := len(b.takeReceived()["shop.example"]); n > 20 {
		t.Errorf("%d attempts in an hour for what always fails", n)
	}
}

// Attempts and pauses use the monotonic clock.
func TestAClockThatIsSetBackStopsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var back time.Duration
	b.Monotonic = func() time.Time { return b.kit.Clock.Now().Add(back) }
	b.register("shop")
	b.register("mail")
	for _, id := range []string{"shop", "mail"} {
		b.grant(id, "alice", session1)
		b.grant(id, "alice", session2)
	}
	b.kit.Clock.Advance(5 * time.Hour)
	b.answers["shop.example"] = status(503, "")
	b.end("alice", session1)
	b.run(b.Outbox)
	b.hosts("shop.example", "mail.example")
	back = 3 * time.Hour
	b.kit.Clock.Advance(-back)
	delete(b.answers, "shop.example")
	b.pass(b.Outbox, 2*time.Second)
	b.hosts("shop.example")
	// Tokens that another node has stored are still found.
	o := b.node()
	if _, err := o.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.end("alice", session2)
	if _, err := o.look(t.Context(), b.kit.Issuer, b.view()); err != nil {
		t.Fatal(err)
	}
	b.pass(b.Outbox, time.Minute)
	b.hosts("shop.example", "mail.example")
}

// view returns the outbox's view of the clients.
func (b *bench) view() *directory.View {
	b.t.Helper()
	v, err := b.kit.Issuer.Directory.View()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// When a young session ends, each client gets one logout for it, and another one only if
// it has redeemed a code since.
func TestALogoutIsSentAgainOnlyAfterACodeWasRedeemed(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		b := newBench(t)
		for _, id := range []string{"shop", "mail", "down", "late"} {
			b.register(id)
		}
		b.register("strict", bySession)
		for _, id := range []string{"shop", "mail", "down", "strict"} {
			b.grant(id, "alice", session1)
		}
		b.kit.Clock.Advance(5 * time.Second)
		b.answers["down.example"] = status(503, "")
		reference := session1
		if all {
			reference = [16]byte{}
		}
		b.end("alice", reference)
		b.run(b.Outbox)
		b.hosts("shop.example", "mail.example", "down.example", "strict.example")
		b.pass(b.Outbox, 3*time.Second)
		b.takeReceived()
		// Codes that were issued before the end are redeemed.
		b.kit.Clock.Advance(-10 * time.Second)
		b.grant("mail", "alice", session1)
		b.grant("late", "alice", session1)
		b.grant("down", "alice", session1)
		b.kit.Clock.Advance(10 * time.Second)
		b.pass(b.Outbox, b.kit.InFlight()+2*time.Second)
		got := b.takeReceived()
		for _, id := range []string{"mail", "late"} {
			if list := got[id+".example"]; len(list) != 1 || list[0].sid() != openid.SessionID(session1, id) {
				t.Errorf("all %t: %s was told %+v, not once of its session", all, id, list)
			}
		}
		if n := len(got["shop.example"]) + len(got["strict.example"]); n != 0 {
			t.Errorf("all %t: %d tokens were sent again although no code was redeemed", all, n)
		}
		if all {
			continue
		}
		// A client that was not notified yet is notified once.
		delete(b.answers, "down.example")
		b.pass(b.Outbox, 2*time.Minute)
		b.hosts("down.example")
	}
}

// codeInFlight has notified one client of the end of a session. Another client has
// redeemed a code since that was issued just before the end.
func codeInFlight(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.register("shop")
	b.register("late")
	b.grant("shop", "alice", session1)
	b.run(b.Outbox) // without an end, no second look is due
	b.kit.Clock.Advance(time.Hour)
	b.ended = b.end("alice", session1)
	b.run(b.Outbox)
	b.hosts("shop.example")
	b.grant("late", "alice", session1)
	return b
}

func TestACodeInFlightIsReached(t *testing.T) {
	t.Parallel()
	b := codeInFlight(t)
	b.pass(b.Outbox, b.kit.CodeLifetime)
	b.hosts()
	b.pass(b.Outbox, 10*time.Second)
	got := b.hosts("late.example")
	if got["late.example"][0].sid() != openid.SessionID(session1, "late") {
		t.Error(got)
	}
	b.pass(b.Outbox, 2*b.kit.CodeLifetime)
	b.hosts()
	// After the last look, no look is due; the end can still be shown for a while.
	b.kit.Clock.Advance(issuer.DeviceLifetime)
	b.run(b.Outbox)
	d, err := b.kit.Engine.Document(t.Context(), b.ended)
	if err != nil || !b.readEnd(b.ended).Done || d.Owner != store.OwnerOf(testkit.Realm, "alice") || d.ExpiresAt < b.kit.At().Add(shownFor) {
		t.Errorf("looked at for the last time: %t, expires at %d, %v", b.readEnd(b.ended).Done, d.ExpiresAt, err)
	}
}

// A device may fetch tokens for ten minutes that were allowed before the end. A client
// that was notified before is not notified again; one that fetches tokens twice is
// notified twice.
func TestADeviceThatFetchesItsTokensLateIsReached(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		b := newBench(t)
		for _, id := range []string{"shop", "late", "tv"} {
			b.register(id)
		}
		b.grant("shop", "alice", session1)
		allowed := b.kit.Clock.Now()
		b.kit.Clock.Advance(time.Second)
		if all {
			b.end("alice", [16]byte{})
		} else {
			b.end("alice", session1)
		}
		b.run(b.Outbox)
		b.hosts("shop.example")
		fetch := func(id string) {
			now := b.kit.Clock.Now()
			b.kit.Clock.Advance(allowed.Sub(now))
			b.grant(id, "alice", session1)
			b.kit.Clock.Advance(now.Sub(allowed))
		}
		fetch("late")
		fetch("tv")
		b.pass(b.Outbox, b.kit.InFlight()+time.Second)
		b.hosts("late.example", "tv.example")
		b.kit.Clock.Advance(issuer.DeviceLifetime - b.kit.InFlight() - 5*time.Second)
		fetch("tv")
		b.run(b.Outbox)
		b.hosts()
		b.Outbox = b.node()
		b.lease.Alone = true
		b.pass(b.Outbox, time.Minute)
		if got := b.hosts("tv.example")["tv.example"]; len(got) == 1 && got[0].sid() != openid.SessionID(session1, "tv") {
			t.Errorf("all %t: %+v", all, got)
		}
		b.pass(b.Outbox, 2*issuer.DeviceLifetime)
		b.hosts()
	}
}

// If the store fails during the second look, the look is repeated.
func TestASecondLookThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	b := codeInFlight(t)
	b.kit.Clock.Advance(b.kit.InFlight())
	b.kit.Faulty.Inject(storetest.Grants, 1, storetest.Lost)
	if _, err := b.turn(t.Context()); err == nil {
		t.Fatal("the second look has not failed")
	}
	b.pass(b.Outbox, time.Second)
	b.hosts("late.example")
}

// spoil makes the bodies of an owner's documents unreadable.
func (b *bench) spoil(kind store.DocumentKind, owner store.Owner) {
	b.t.Helper()
	list, err := b.kit.Engine.Documents(b.t.Context(), store.DocumentFilter{Kind: kind, Owner: owner, Limit: 10})
	if err != nil || len(list) == 0 {
		b.t.Fatalf("%d documents, %v", len(list), err)
	}
	for _, d := range list {
		d.Version, d.Body = d.Version+1, []byte("{")
		if err := b.kit.Engine.Commit(b.t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// An unreadable document is logged, and blocks neither other ends nor other tokens.
func TestAnUnreadableDocumentBlocksNoOther(t *testing.T) {
	t.Parallel()
	b := codeInFlight(t)
	b.answers["shop.example"] = status(503, "")
	b.grant("shop", "bob", session2)
	b.end("bob", session2)
	b.run(b.Outbox)
	b.hosts("shop.example")
	b.spoil(store.DocumentLogoutToken, ownerQueue(testkit.Realm, "shop"))
	delete(b.answers, "shop.example")
	b.end("carol", session1)
	b.spoil(store.DocumentLogout, ownerNew(testkit.Realm))
	b.grant("shop", "dave", session2)
	b.end("dave", session2)
	b.pass(b.Outbox, 3*time.Second)
	if got := b.hosts("shop.example")["shop.example"]; len(got) == 1 && got[0].claims["sub"] != "dave" {
		t.Error(got)
	}
	// The second look also continues after an unreadable document.
	b.spoil(store.DocumentLogout, ownerLater(testkit.Realm))
	b.end("erin", session1)
	b.run(b.Outbox)
	b.grant("late", "erin", session1)
	b.kit.Clock.Advance(b.kit.InFlight())
	b.pass(b.Outbox, time.Second)
	b.hosts("late.example")
	for _, text := range []string{"cannot decode a stored logout:", "cannot decode a stored logout token:"} {
		if !strings.Contains(b.kit.Logged.String(), text) {
			t.Errorf("%q is not in the log", text)
		}
	}
	if _, err := Of(t.Context(), b.kit.Engine, testkit.Realm, "dave"); err != nil {
		t.Error(err)
	}
}

func TestEndOfAllSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.register("strict", bySession)
	b.register("idle")
	b.grant("shop", "alice", session1)
	b.grant("strict", "alice", session1)
	b.kit.Clock.Advance(time.Second)
	b.grant("shop", "alice", session2)
	b.grant("strict", "alice", session2)
	b.grant("idle", "bob", session1)
	b.kit.Clock.Advance(time.Hour)
	b.end("alice", [16]byte{})
	b.run(b.Outbox)
	got := b.hosts("shop.example", "strict.example", "strict.example")
	if sid := got["shop.example"][0].sid(); sid != "" || got["shop.example"][0].claims["sub"] != "alice" {
		t.Errorf("sid %q", sid)
	}
	var sids []string
	for _, r := range got["strict.example"] {
		sids = append(sids, r.sid())
	}
	for _, session := range [][16]byte{session1, session2} {
		if !slices.Contains(sids, openid.SessionID(session, "strict")) {
			t.Errorf("strict was told of %q", sids)
		}
	}
	// A later session is not affected.
	b.kit.Clock.Advance(time.Millisecond)
	b.grant("shop", "alice", [16]byte{3})
	b.pass(b.Outbox, 2*time.Minute)
	b.hosts()
}

func TestALaterSessionGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.register("mail")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(503, "")
	b.end("alice", [16]byte{})
	b.run(b.Outbox)
	if got := b.hosts("shop.example")["shop.example"]; got[0].sid() != "" {
		t.Errorf("sid %q", got[0].sid())
	}
	// While the client was away, the user has logged in again, first at another client.
	b.kit.Clock.Advance(time.Minute)
	b.grant("mail", "alice", session2)
	b.kit.Clock.Advance(longestRest) // all looks are done
	b.run(b.Outbox)
	for _, r := range b.takeReceived()["shop.example"] {
		if r.sid() != "" {
			t.Errorf("sid %q: the client has no later session", r.sid())
		}
	}
	b.grant("shop", "alice", session2)
	b.kit.Clock.Advance(longestRest)
	b.answers["shop.example"] = nil
	// The token is dropped once its replacements are stored.
	b.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	b.run(b.Outbox)
	b.hosts()
	b.pass(b.Outbox, 2*time.Second)
	got := b.hosts("shop.example")["shop.example"]
	if got[0].sid() != openid.SessionID(session1, "shop") {
		t.Errorf("sid %q: the session that goes on is ended", got[0].sid())
	}
	b.pass(b.Outbox, 2*time.Minute)
	b.hosts()
}

// TestAKilledNodeLosesNothing kills the outbox at each of its writes, and lets another
// node continue.
func TestAKilledNodeLosesNothing(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			b := newBench(t)
			b.register("shop")
			b.register("mail")
			b.grant("shop", "alice", session1)
			b.grant("mail", "alice", session1)
			b.kit.Clock.Advance(time.Hour)
			b.end("alice", session1)
			writes := 0
			killed := &dying{Store: b.kit.Engine, dies: func() bool { writes++; return writes >= n }, after: after}
			b.Outbox.Store = killed
			if _, err := b.turn(t.Context()); err != nil && !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			b.working.Wait()
			before := b.takeReceived()
			b.Outbox = b.node()
			b.lease.Alone = true
			b.run(b.Outbox)
			for host, list := range b.takeReceived() {
				before[host] = append(before[host], list...)
			}
			for _, id := range []string{"shop", "mail"} {
				list := before[id+".example"]
				if len(list) == 0 {
					t.Errorf("killed at write %d (after it: %t): %s was told nothing", n, after, id)
				}
				for _, r := range list {
					if r.sid() != openid.SessionID(session1, id) {
						t.Errorf("killed at write %d: %s was told of %q", n, id, r.sid())
					}
				}
			}
			if writes < n {
				if n < 3 {
					t.Errorf("only %d writes: the kills met none", writes)
				}
				break
			}
		}
	}
}

// TestANodeKilledBetweenTwoPagesOfTokensRepeatsNone kills a node when the first token of
// an end is stored, and the others are not. Before another node continues, that token is
// queued or already sent.
func TestANodeKilledBetweenTwoPagesOfTokensRepeatsNone(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		b := newBench(t)
		hosts := []string{"mail.example", "news.example", "shop.example"}
		for _, host := range hosts {
			id, _, _ := strings.Cut(host, ".")
			b.register(id)
			b.grant(id, "alice", session1)
		}
		b.kit.Clock.Advance(time.Hour)
		key := b.end("alice", session1)
		b.Outbox.Store = &between{Store: b.kit.Engine}
		if _, err := b.turn(t.Context()); !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		if sent {
			list, err := b.kit.Engine.Documents(t.Context(), store.DocumentFilter{Kind: store.DocumentLogoutToken, Limit: page})
			if err != nil || len(list) != 1 {
				t.Fatal(len(list), err)
			}
			d := list[0]
			first, err := decode[Token](d)
			if err != nil {
				t.Fatal(err)
			}
			first.State = Delivered
			d.Version, d.Owner, d.Body = d.Version+1, store.OwnerOf(b.Realm, "alice"), encode(first)
			if err := b.kit.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
				t.Fatal(err)
			}
			hosts = slices.DeleteFunc(hosts, func(host string) bool { return host == first.ClientID+".example" })
		}
		b.Outbox = b.node()
		b.lease.Alone = true
		b.run(b.Outbox)
		b.hosts(hosts...)
		if end := b.readEnd(key); end.Looked == 0 || len(end.Tokens) != 3 {
			t.Errorf("after the look of the second node: %+v", end)
		}
	}
}

// between is a store whose process ends when part of a change is stored.
type between struct{ store.Store }

func (s *between) Commit(ctx context.Context, c store.Change) error {
	if len(c.Documents) > 1 {
		c.Documents = c.Documents[:1]
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
		return errDead
	}
	return s.Store.Commit(ctx, c)
}

var errDead = errors.New("killed")

// dying is a store whose process ends at a write.
type dying struct {
	store.Store
	mu    sync.Mutex
	dies  func() bool
	after bool // the write has happened before
	dead  bool
}

func (d *dying) Commit(ctx context.Context, c store.Change) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDead
	}
	if d.dead = d.dies(); !d.dead || d.after {
		if err := d.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
	if d.dead {
		return errDead
	}
	return nil
}

func TestOneNodeLeads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x, y := b.node(), b.node()
	leads := func(o *Outbox) bool {
		t.Helper()
		ok, err := o.leads(t.Context())
		if err != nil && !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
		return ok
	}
	if leads(x) {
		t.Error("a node leads although there is nothing to deliver")
	}
	b.register("shop")
	if !leads(x) || leads(y) {
		t.Error("the first node does not lead alone")
	}
	for range 60 {
		b.kit.Clock.Advance(time.Second)
		if !leads(x) || leads(y) {
			t.Fatal("the lease moved from a node that renews it")
		}
	}
	// x is killed; its lease expires.
	for i := range 20 {
		b.kit.Clock.Advance(time.Second)
		if leads(y) {
			if i < 7 {
				t.Errorf("taken over after %d seconds", i)
			}
			break
		}
	}
	if !leads(y) || leads(x) {
		t.Error("nobody has taken over, or both lead")
	}
	// A node that stops releases its lease at once.
	y.lease.Release(t.Context())
	if !leads(x) {
		t.Error("the lease was not released")
	}
	// A node whose clock is wrong releases its lease, too: clients would finally refuse
	// its tokens.
	x.ClockFault = func() error { return errors.New("three minutes behind") }
	if leads(x) || !leads(y) {
		t.Error("a node leads whose clock is off, or nobody leads in its place")
	}
	x.ClockFault = y.ClockFault
	y.lease.Release(t.Context())
	if !leads(x) {
		t.Error("a node whose clock is right again does not lead")
	}
	// A leader that cannot reach the store stops before another node takes over.
	b.kit.Clock.Advance(4 * time.Second)
	b.kit.Faulty.Inject(storetest.Document, 100, storetest.Lost)
	for range 4 {
		x.leads(t.Context())
		b.kit.Clock.Advance(time.Second)
	}
	if ok, _ := x.leads(t.Context()); ok {
		t.Error("a node leads that has not reached the store for 8 seconds")
	}
}

// Hanging clients occupy at most a fixed number of calls, and half of them once they have
// failed.
func TestUnresponsiveClientsDoNotDelayOtherLogouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		hangs := true
		for i := range 3 * atOnce {
			id := fmt.Sprintf("c%d", i)
			b.register(id)
			b.grant(id, "alice", session1)
			b.grant(id, "alice", session2)
			b.answers[id+".example"] = func(r *http.Request) (*http.Response, error) {
				if hangs {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return status(200, "")(r)
			}
		}
		b.register("good")
		b.grant("good", "alice", session2)
		b.kit.Clock.Advance(time.Hour)
		inside := func() int {
			if _, err := b.turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.inside
		}
		key := b.end("alice", session1)
		if n := inside(); n != atOnce {
			t.Errorf("%d calls at once, not %d", n, atOnce)
		}
		b.working.Wait() // the context of each attempt ends after five seconds
		if got := len(b.takeReceived()); got != 3*atOnce {
			t.Errorf("%d of %d clients were called", got, 3*atOnce)
		}
		if r := b.readEnd(key); len(r.Tokens) != 3*atOnce || r.More != 0 {
			t.Errorf("%d tokens in the record, %d more", len(r.Tokens), r.More)
		}
		b.kit.Clock.Advance(time.Minute)
		b.end("alice", session2)
		if n := inside(); n != probesAtOnce {
			t.Errorf("%d calls at once of clients that failed, not %d", n, probesAtOnce)
		}
		if len(b.takeReceived()["good.example"]) != 1 {
			t.Error("those that hang hold up another client")
		}
		b.working.Wait()
		hangs = false
		b.takeReceived()
		b.kit.Clock.Advance(time.Minute)
		b.run(b.Outbox)
		if got := len(b.takeReceived()); got != 3*atOnce {
			t.Errorf("%d of %d clients were told", got, 3*atOnce)
		}
	})
}

func TestManyTokensOfOneRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("strict", bySession)
	for i := range 250 {
		b.grant("strict", "alice", [16]byte{7, byte(i), byte(i >> 8)})
	}
	b.kit.Clock.Advance(time.Hour)
	key := b.end("alice", [16]byte{})
	b.run(b.Outbox)
	if got := len(b.takeReceived()["strict.example"]); got != 250 {
		t.Errorf("%d of 250 sessions", got)
	}
	if r := b.readEnd(key); len(r.Tokens) != maxRefs || r.More != 250-maxRefs {
		t.Errorf("%d tokens in the record, %d more", len(r.Tokens), r.More)
	}
}

func TestAnAnswerIsReadToItsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	body := &endless{}
	b.answers["shop.example"] = func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: body}, nil
	}
	b.end("alice", session1)
	b.run(b.Outbox)
	b.pass(b.Outbox, 5*time.Second)
	b.hosts("shop.example")
	if body.read > 2*maxBody || !body.closed {
		t.Errorf("%d bytes read, closed %t", body.read, body.closed)
	}
}

type endless struct {
	read   int
	closed bool
}

func (e *endless) Read(b []byte) (int, error) { e.read += len(b); return len(b), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

// The issuer revokes grants: a client without logouts keeps the outbox idle.
func TestGrantsThatEndAreNoReasonToLead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop", deaf, func(r *client.Registration) { r.LogoutEndsGrants = true })
	id := b.grant("shop", "alice", session1)
	if needed, err := b.needed(t.Context()); err != nil || needed {
		t.Errorf("there is nothing to deliver: %v", err)
	}
	b.end("alice", session1)
	b.run(b.Outbox)
	if g, err := b.kit.Engine.Grant(t.Context(), id); err != nil || g.State != grant.Active {
		t.Errorf("the outbox has revoked a grant: %s, %v", g.State, err)
	}
}

// A redirect waits for the first call of each client, and for no call that may never
// happen.
func TestARedirectWaitsForTheFirstCallOfEachClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := b.kit.At()
	put := func(d store.Document) store.DocumentKey {
		t.Helper()
		if err := b.kit.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
			t.Fatal(err)
		}
		return d.Key
	}
	gone := TokenRef{"gone", hex.EncodeToString(make([]byte, 32))}
	for name, row := range map[string]struct {
		end    End
		tokens []Token
		called bool
	}{
		"clients were not looked for": {End{}, nil, false},
		"there are none":              {End{Looked: at}, nil, true},
		"its token was removed":       {End{Looked: at, Tokens: []TokenRef{gone}}, nil, true},
		"it waits behind that":        {End{Looked: at, Tokens: []TokenRef{gone}}, []Token{{State: Pending}}, false},
		"it has not answered":         {End{Looked: at}, []Token{{State: Pending, Attempts: 1}}, true},
		"it was disabled":             {End{Looked: at}, []Token{{State: Dropped}}, true},
		"one of two waits":            {End{Looked: at}, []Token{{State: Delivered, Attempts: 1}, {State: Pending}}, false},
	} {
		row.end.At, row.end.Subject = at, name
		for i, token := range row.tokens {
			token.ClientID, token.Subject, token.At = fmt.Sprint(i), name, at
			key := put(token.document(testkit.Realm, store.DocumentKey{}, name))
			row.end.Tokens = append(row.end.Tokens, TokenRef{token.ClientID, hex.EncodeToString(key[:])})
		}
		key := put(row.end.document(testkit.Realm, name))
		if got := b.called(t.Context(), key); got != row.called {
			t.Errorf("%s: called %t", name, got)
		}
		b.kit.Faulty.Inject(storetest.Document, 1, storetest.Lost)
		if b.called(t.Context(), key) {
			t.Errorf("%s: the store has not said so", name)
		}
	}
	if !b.called(t.Context(), store.DocumentKey{1}) {
		t.Error("it waits for a logout that is not there")
	}
	b.end("alice", session1)
	b.spoil(store.DocumentLogout, ownerNew(testkit.Realm))
	list, err := b.kit.Engine.Documents(t.Context(), store.DocumentFilter{Kind: store.DocumentLogout, Owner: ownerNew(testkit.Realm), Limit: 1})
	if err != nil || !b.called(t.Context(), list[0].Key) {
		t.Error("it waits for a logout that cannot be read:", err)
	}
}

func TestAwaitEndsWithTheFirstAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.register("mail")
	b.grant("shop", "alice", session1)
	b.grant("mail", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.answers["mail.example"] = status(500, "")
	at, end := b.kit.At(), issuer.SessionEnd{Subject: "alice", Reference: session1}
	b.end("alice", session1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Await(ctx, end, at) // returns
	if b.called(t.Context(), EndOfSession(testkit.Realm, end, at).Key) {
		t.Error("nobody was called yet")
	}
	b.run(b.Outbox)
	b.Await(t.Context(), end, at) // returns
	b.Await(t.Context(), issuer.SessionEnd{Subject: "nobody", Reference: session1}, at)
}

// Logouts that are pending in a backup are delivered after a declared restore.
func TestARestoreDropsNoLogoutThatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("shop")
	b.grant("shop", "alice", session1)
	b.kit.Clock.Advance(time.Hour)
	b.answers["shop.example"] = status(500, "")
	b.end("alice", session1)
	b.run(b.Outbox)
	b.hosts("shop.example")
	now := b.kit.At()
	if err := b.kit.Engine.Commit(t.Context(), store.Change{Restores: []grant.Restore{{At: now, Backup: now - 1000, Until: now + 1000}}}); err != nil {
		t.Fatal(err)
	}
	b.kit.Poll()
	b.mu.Lock()
	delete(b.answers, "shop.example")
	b.mu.Unlock()
	again := b.node() // on the restored store
	again.lease.Alone = true
	b.pass(again, 3*time.Second)
	b.hosts("shop.example")
}
