package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/bench"
)

// This file contains the loads, each for one or more tables of the threat model.

const (
	// refusedPause is how long a connection of a client pauses after a 429 or 503.
	// Attackers need not pause, but then they use processor time, which no table divides.
	refusedPause = 200 * time.Millisecond
	// clickPause is how long a browser pauses between two requests, far less than a
	// person. Pages are no tables; internal/e2e/floods tests floods of them.
	clickPause = 100 * time.Millisecond
	// toRevoke is how many grants the revocation list contains.
	toRevoke = 20_000
	// keySets is how many clients with their own key sets each party has: more than one
	// network may fetch in a minute.
	keySets = 80
	// fetchTime is the server's timeout for a host.
	fetchTime = 5 * time.Second
	// ownGrants is the number of grants whose refreshes each client repeats.
	ownGrants = 10
)

var sieges = []siege{
	{
		name: "refreshes", storm: refreshes,
		fills: []table{
			{"concurrency slots and queue", "shed", func(s seen) float64 { return s.of(`mintage_shed_total{what="requests"}`) }, 100, 1},
			{"labels of metrics (`management.metrics_clients`)", "under one label", func(s seen) float64 {
				return s.of(`mintage_client_token_requests_total{client_id="self_registered",result="ok"}`)
			}, 500, 1},
			{"queue of the store's writes", "of theirs written", func(s seen) float64 {
				return s.of(`mintage_client_token_requests_total{client_id="self_registered",result="ok"}`)
			}, 500, 1},
		},
	},
	{
		name: "failures", storm: wrongSecrets,
		fills: []table{
			{"throttles: failures by address and client, requests by address and client, interactions", "failures from as many addresses", func(s seen) float64 {
				return s.of(`mintage_client_auth_failures_total{reason="wrong_secret"}`)
			}, 40_000, 100},
			{"audit log: failures of authentication", "left out", func(s seen) float64 { return s.of(`mintage_audit_left_out_total{reason="rate"}`) }, 1000, 0},
			{"the log", "MB", func(s seen) float64 { return s.world.logged() / 1e6 }, 5, .01},
		},
	},
	{
		name: "repeats", prepare: heldAuditLog, storm: repeats,
		fills: []table{
			{"audit log: events of one grant, codes of one user", "left out", func(s seen) float64 { return s.of(`mintage_audit_left_out_total{reason="rate"}`) }, 1000, 0},
			{"audit log: queue", "lost", func(s seen) float64 { return s.of("mintage_audit_lost_total") }, 1000, 0},
		},
	},
	{
		name: "assertions", signing: true, prepare: admitted("inline", ownClients), storm: assertions,
		fills: []table{{"used assertions (`jti`), embedded store", "refused", func(s seen) float64 { return s.answered("429") }, 100, 0}},
	},
	{
		name: "slow hosts", signing: true, prepare: admitted("slow", 2*100), storm: slowHosts,
		fills: []table{{"requests that wait for the host of a client's keys", "shed", func(s seen) float64 { return s.of(`mintage_shed_total{what="requests"}`) }, 100, 1}},
	},
	{
		name: "key sets", signing: true, prepare: admitted("keys", ownClients*keySets), storm: unknownKeys,
		fills: []table{{"key sets that are fetched", "fetched", func(s seen) float64 { return s.of(`mintage_client_document_fetches_total{outcome="ok"}`) }, ownClients * 60, 10}},
	},
	{
		name: "documents", prepare: signedIn, storm: documents,
		fills: []table{{"documents that are fetched", "fetched", func(s seen) float64 { return s.of(`mintage_client_document_fetches_total{outcome="ok"}`) }, ownClients * 60, 10}},
	},
	{
		name: "large keys", signing: true, prepare: admitted("large", ownClients), storm: largeSignatures,
		fills: []table{{"verification of an assertion", "refused", func(s seen) float64 {
			return s.of(`mintage_client_auth_failures_total{reason="wrong_assertion"}`)
		}, 1000, 10}},
	},
	{
		name: "revocations", storm: revocations,
		fills: []table{{"list of revocations", "named", func(s seen) float64 { return s.world.listed() }, toRevoke, 10}},
	},
	{
		name: "connections", storm: silence,
		fills: []table{{"connections", "closed", func(s seen) float64 {
			return s.of(`mintage_shed_total{what="connections"}`, `mintage_shed_total{what="connections_of_address"}`)
		}, 100, 1}},
	},
}

// unfilled are the tables that self-registered clients cannot fill.
var unfilled = []struct{ name, why string }{
	{"check of imported secrets", "they have no imported secrets"},
	{"outbox of logouts, revocations of service tokens", "they have neither"},
}

// storm sends the requests that next returns, as one of the clients.
func (w *world) storm(ctx context.Context, connections int, next func(b []byte, connection int) []byte) (bench.Answers, error) {
	return w.load(connections, next).Run(ctx)
}

func (w *world) load(connections int, next func(b []byte, connection int) []byte) bench.Storm {
	return bench.Storm{Endpoint: w.target.Endpoint, TLS: w.target.TLS, Connections: connections, Pause: refusedPause, Next: next}
}

func (w *world) host() string {
	u, err := url.Parse(w.target.Endpoint)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// refresh appends a refresh with an assertion, of a token that does not exist: the
// response shows whether the client was authenticated.
func (w *world) refresh(b []byte, from netip.Addr, id, assertion string) []byte {
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {"mintage_rt_x"}, "client_id": {id},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion},
	}
	return bench.FormRequest(b, w.host(), w.path("access_token"), from, form.Encode())
}

// refreshes refreshes grants of the client.
func refreshes(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	l := bench.Load{Target: w.target, Operation: bench.Refresh, Connections: w.crowd, Duration: time.Hour, Pause: refusedPause, Chains: w.chains[k]}
	l.Target.ClientID, l.Target.ClientSecret, l.Target.From = w.own[k].clientID, w.own[k].secret, w.from(k, 1)
	r, err := l.Run(ctx)
	if r == nil {
		return nil, err
	}
	return bench.Answers{200: r.Requests, 503: r.Failed()}, nil
}

// wrongSecrets sends wrong secrets: on the first connection from one address, on each of
// the others from another one.
func wrongSecrets(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"mintage_rt_x"}, "client_id": {w.own[k].clientID}, "client_secret": {"wrong"}}.Encode()
	return w.storm(ctx, w.few(), func(b []byte, connection int) []byte {
		from := w.from(k, 0)
		if connection > 0 {
			from = w.from(k, w.sent[k].Add(1))
		}
		return bench.FormRequest(b, w.host(), w.path("access_token"), from, form)
	})
}

// repeats sends a few refresh tokens repeatedly, within the retry window.
func repeats(ctx context.Context, w *world, k, round int) (bench.Answers, error) {
	forms := make([]string, ownGrants)
	for i := range forms {
		token := w.own[k].tokens[len(w.own[k].tokens)-1-round*ownGrants-i]
		forms[i] = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {w.own[k].clientID}, "client_secret": {w.own[k].secret}}.Encode()
	}
	return w.storm(ctx, w.few(), func(b []byte, _ int) []byte {
		return bench.FormRequest(b, w.host(), w.path("access_token"), w.from(k, 1), forms[w.sent[k].Add(1)%ownGrants])
	})
}

// heldAuditLog holds the lock of the audit log, like a hanging disk would hold its
// writer, so that events queue up.
func heldAuditLog(_ context.Context, w *world) (undo func(), err error) {
	f, err := os.Open(filepath.Join(w.dir, "audit", "lock"))
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}

// admitted returns a setup that adds n clients of a kind with metadata documents.
func admitted(kind string, n int) func(context.Context, *world) (func(), error) {
	return func(ctx context.Context, w *world) (undo func(), err error) {
		w.ids, err = w.publisher.admit(ctx, w.dir, kind, n)
		return func() {}, err
	}
}

// assertions presents a new assertion in each request.
func assertions(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	return w.storm(ctx, w.few(), func(b []byte, _ int) []byte {
		return w.refresh(b, w.from(k, 1), w.ids[k], sign(w.publisher.signer, w.ids[k], w.issuer))
	})
}

// slowHosts names a client whose host does not respond: another one in each round,
// because an address is not fetched again for a minute.
func slowHosts(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	began := time.Now()
	first := int(w.sent[k].Add(100) - 100)
	return w.storm(ctx, w.crowd, func(b []byte, _ int) []byte {
		id := w.ids[ownClients*((first+int(time.Since(began)/fetchTime))%100)+k]
		return w.refresh(b, w.from(k, 1), id, sign(w.publisher.signer, id, w.issuer))
	})
}

// unknownKeys names unknown keys of many clients in turn, so that each key set is
// fetched.
func unknownKeys(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	unknown, err := w.publisher.signerOf("unknown")
	if err != nil {
		return nil, err
	}
	return w.storm(ctx, w.few(), func(b []byte, _ int) []byte {
		n := w.sent[k].Add(1)
		id := w.ids[ownClients*(int(n)%keySets)+k]
		return w.refresh(b, w.from(k, n%256), id, sign(unknown, id, w.issuer))
	})
}

// largeSignatures sends wrong signatures of the largest keys, from another address each
// time.
func largeSignatures(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	assertion := forge(w.ids[k], w.issuer)
	return w.storm(ctx, w.few(), func(b []byte, _ int) []byte {
		return w.refresh(b, w.from(k, w.sent[k].Add(1)), w.ids[k], assertion)
	})
}

// signedIn signs in users, half of them for each client.
func signedIn(ctx context.Context, w *world) (undo func(), err error) {
	return func() {}, w.data.signIn(ctx, 2*keySets)
}

// documents requests codes for unknown clients with metadata documents, as browsers with
// signed-in users.
func documents(ctx context.Context, w *world, k, round int) (bench.Answers, error) {
	browsers := w.load(w.few(), func(b []byte, _ int) []byte {
		n := w.sent[k].Add(1)
		query := url.Values{
			"response_type": {"code"}, "client_id": {fmt.Sprintf("%s/keys/%d-%d", w.publisher.origin, k, n)}, "redirect_uri": {callback}, "resource": {sharedAPI},
			"code_challenge": {challenge}, "code_challenge_method": {"S256"},
		}
		return bench.PageRequest(b, w.host(), w.path("authorize")+"&"+query.Encode(), w.from(k, n%256), w.data.sessions[ownClients*(int(n)%keySets)+k])
	})
	browsers.Each = clickPause
	return browsers.Run(ctx)
}

// revocations revokes one grant after the other.
func revocations(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	own := w.own[k]
	return w.storm(ctx, w.few(), func(b []byte, _ int) []byte {
		token := own.tokens[int(w.sent[k].Add(1))%len(own.tokens)]
		form := url.Values{"token": {token}, "client_id": {own.clientID}, "client_secret": {own.secret}}.Encode()
		return bench.FormRequest(b, w.host(), w.path("token/revoke"), w.from(k, 1), form)
	})
}

// silence opens connections from some addresses and sends nothing.
func silence(ctx context.Context, w *world, k, _ int) (bench.Answers, error) {
	addresses := 2
	if w.quick {
		addresses = 1
	}
	var from []netip.Addr
	for i := range addresses {
		from = append(from, netip.AddrFrom4([4]byte{127, 9, byte(k + 1), byte(i + 1)}))
	}
	return nil, bench.Silence(ctx, w.target.Endpoint, addresses*1050, from...)
}

// logged returns the size of the server's log.
func (w *world) logged() float64 {
	info, err := os.Stat(w.log)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}

// listed returns the number of grants in the revocation list.
func (w *world) listed() float64 {
	c := http.Client{Transport: &http.Transport{TLSClientConfig: w.target.TLS.Clone(), DisableKeepAlives: true}}
	resp, err := c.Get("https://" + w.host() + w.path("revocations"))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || strings.Count(string(text), ".") != 2 {
		return 0
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(string(text), ".")[1])
	var list struct{ Grants map[string]int64 }
	if err != nil || json.Unmarshal(claims, &list) != nil {
		return 0
	}
	return float64(len(list.Grants))
}
