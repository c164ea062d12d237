package conformance_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// auditLog is the audit log of a deployment.
type auditLog struct {
	t   *testing.T
	dir string
	log *audit.Log
}

// audited adds an audit log to a deployment. Apply it after options that make the store
// fail.
func audited(t *testing.T, tr *auditLog) func(*options) {
	*tr = auditLog{t: t, dir: filepath.Join(t.TempDir(), "audit")}
	tr.log = audit.Open(audit.Options{Directory: tr.dir, Node: "a", Routine: true, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return func(o *options) {
		o.Audit = tr.log
		inner := o.wrap
		o.wrap = func(st store.Store) store.Store {
			if inner != nil {
				st = inner(st)
			}
			return audit.NewStore(st, tr.log)
		}
	}
}

// entries closes and verifies the audit log, and returns its entries.
func (tr *auditLog) entries() (list []audit.Entry) {
	tr.t.Helper()
	if err := tr.log.Close(); err != nil {
		tr.t.Fatal(err)
	}
	if _, err := (audit.Check{}).Verify(tr.dir); err != nil {
		tr.t.Errorf("the chain does not hold: %v", err)
	}
	for e, err := range audit.Read(tr.dir, audit.Filter{}) {
		if err != nil {
			tr.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// of returns the entries with some event names.
func of(list []audit.Entry, names ...audit.Name) (found []audit.Entry) {
	for _, e := range list {
		if slices.Contains(names, e.Event) {
			found = append(found, e)
		}
	}
	return found
}

// sole requires that a request has exactly one entry of an event, with the members that
// every request's entry has, and returns it.
func sole(t *testing.T, list []audit.Entry, name audit.Name, a answer) audit.Entry {
	t.Helper()
	var found []audit.Entry
	for _, e := range of(list, name) {
		if e.RequestID == a.header["X-Request-Id"][0] {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d records of %s for one request", len(found), name)
		return audit.Entry{}
	}
	if e := found[0]; e.Time.IsZero() || !strings.HasPrefix(e.RemoteIP, "127.") || e.Node != "a" {
		t.Errorf("%s: %+v", name, e)
	}
	return found[0]
}

func TestOP08_WhoWhatAndWhenOfEveryBadEndIsRecorded(t *testing.T) {
	var tr auditLog
	d := start(t, strict, audited(t, &tr))
	pair, id := d.tokens(d.a)
	wrong := d.send(newRequest(with(d.a.refresh(pair.RefreshToken), "client_secret", "wrong-secret-wrong-secret")))
	want(t, wrong, 400, "invalid_client")
	// A secret that was sent as the client's id must not be recorded.
	swapped := d.send(newRequest(with(d.a.refresh(pair.RefreshToken), "client_id", d.a.secret)))
	want(t, swapped, 400, "invalid_client")
	bearer := newRequest(d.a.refresh(pair.RefreshToken))
	bearer.header = append(bearer.header, "Authorization: Bearer x")
	malformed := d.send(bearer)
	public := d.introspect(d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}}), pair.AccessToken)
	foreign := d.send(newRequest(d.b.refresh(pair.RefreshToken)))
	want(t, foreign, 400, "invalid_grant")
	next := d.alive(d.a, pair.RefreshToken)
	replayed := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	want(t, replayed, 400, "invalid_grant")
	later := d.send(newRequest(d.a.refresh(next.RefreshToken)))
	want(t, later, 400, "invalid_grant")

	code := d.code(d.b)
	d.mustIssue(d.post(d.b.redeem(code.Code)))
	codeReplayed := d.send(newRequest(d.b.redeem(code.Code)))
	want(t, codeReplayed, 400, "invalid_grant")
	ended, endedID := d.tokens(d.a)
	revoked := d.revoke(d.a, ended.RefreshToken)
	if revoked.status != 200 {
		t.Fatal(revoked)
	}
	if _, err := directory.RotateKeys(t.Context(), d.store, d.kek, keySchedule, directory.Rotation{Purposes: []keys.Purpose{keys.MAC}, Actor: "operator:root"}, d.now); err != nil {
		t.Fatal(err)
	}

	list := tr.entries()
	if e := sole(t, list, audit.ClientAuthFailed, wrong); e.ClientID != d.a.ID || e.Outcome != audit.Refused || !strings.Contains(e.Detail, "wrong_secret") {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, audit.ClientAuthFailed, swapped); e.ClientID != "" || !strings.Contains(e.Detail, "unknown_client") {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, audit.ClientAuthFailed, malformed); e.Detail != "token request, malformed" {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, audit.ClientAuthFailed, public); e.Detail != "introspection, wrong_method" {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, audit.TokenRefused, foreign); e.ClientID != d.b.ID || e.GrantID != id.String() || !strings.HasPrefix(e.Detail, "other_client") {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, "refresh_replayed", replayed); e.ClientID != d.a.ID || e.Subject != "alice" || e.GrantID != id.String() || e.Generation != 2 ||
		!strings.HasPrefix(e.Detail, "generation 1 presented from 127.") {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, audit.TokenRefused, later); !strings.HasPrefix(e.Detail, "grant_revoked") {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, "code_replayed", codeReplayed); e.ClientID != d.b.ID || e.Subject != "alice" || e.GrantID != code.GrantID.String() {
		t.Errorf("%+v", e)
	}
	if e := sole(t, list, "grant_revoked", revoked); e.GrantID != endedID.String() || e.Actor != d.a.ID || e.Outcome != audit.Success {
		t.Errorf("%+v", e)
	}
	if added := of(list, "key_added"); len(added) == 0 || added[len(added)-1].Actor != "operator:root" || !strings.Contains(added[len(added)-1].Detail, "mac key") {
		t.Errorf("%+v", added)
	}
	text := tr.text()
	for _, secret := range []string{d.a.secret, d.b.secret, code.Code, pair.RefreshToken, pair.AccessToken, next.RefreshToken, "wrong-secret-wrong-secret", "mintage_"} {
		if strings.Contains(text, secret) {
			t.Errorf("the audit log holds %.12s...", secret)
		}
	}
}

// text returns the whole text of the audit log.
func (tr *auditLog) text() string {
	tr.t.Helper()
	text, err := os.ReadFile(filepath.Join(tr.dir, "00000001.jsonl"))
	if err != nil {
		tr.t.Fatal(err)
	}
	return string(text)
}

func TestOP08_TheLifeOfAGrantCanBeRead(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr))
	pair, id := d.tokens(d.a)
	for range 2 {
		d.alive(d.a, pair.RefreshToken) // the second request repeats the first one
	}
	var got []audit.Name
	var generations []uint32
	for _, e := range tr.entries() {
		if e.GrantID == id.String() {
			got, generations = append(got, e.Event), append(generations, e.Generation)
			if e.Subject != "alice" || e.ClientID != d.a.ID || e.Realm != realm || e.Outcome != audit.Success {
				t.Errorf("%+v", e)
			}
		}
	}
	if !slices.Equal(got, []audit.Name{audit.CodeRedeemed, audit.TokensRefreshed, audit.RefreshRepeated}) || !slices.Equal(generations, []uint32{1, 2, 2}) {
		t.Errorf("%q, generations %v", got, generations)
	}
}

func TestOP08_LoginsAndConsentsAreRecordedAndWhatWasTypedIsNot(t *testing.T) {
	var tr auditLog
	d, b := visitor(t, audited(t, &tr))
	page := b.open(asking(d.a)).at(t, "login")
	page = b.logIn(page, username, "hunter2-hunter2")
	page = b.logIn(page, password, "typed into the wrong field")
	page = b.logIn(page, username, password).at(t, "consent")
	code := b.decide(page, "allow").code(t, redirect)
	denied := b.follow(b.get(asking(d.a, "prompt=consent"))).at(t, "consent")
	b.decide(denied, "deny").told(t, redirect, "access_denied")
	pair := d.mustIssue(d.post(d.a.challenged(code)))

	list := tr.entries()
	failed := of(list, audit.LoginFailed)
	if len(failed) != 2 || failed[0].Subject != username || failed[1].Subject != "" || failed[0].ClientID != d.a.ID || failed[0].Outcome != audit.Refused {
		t.Errorf("%+v", failed)
	}
	var got []audit.Name
	for _, e := range list {
		if e.Subject == username && e.Outcome == audit.Success && e.ClientID == d.a.ID {
			got = append(got, e.Event)
		}
	}
	if !slices.Equal(got, []audit.Name{audit.LoginSucceeded, audit.ConsentGiven, audit.CodeIssued, audit.ConsentDenied, audit.CodeRedeemed}) {
		t.Errorf("%q", got)
	}
	if issued, redeemed := of(list, audit.CodeIssued), of(list, audit.CodeRedeemed); len(issued) != 1 || len(redeemed) != 1 || issued[0].GrantID != redeemed[0].GrantID {
		t.Errorf("%+v, %+v", issued, redeemed)
	}
	text := tr.text()
	for _, secret := range []string{password, "hunter2-hunter2", "typed into", code, pair.RefreshToken, page.field("id"), b.cookie("__Host-mintage_session")} {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("the audit log holds %.6s...", secret)
		}
	}
}

// A name with line breaks from an unauthenticated caller adds no line to the audit log or
// to the log.
func TestOP08_TextsOfStrangersMakeNoLines(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr))
	forged := "x\r\n{\"seq\":1,\"event\":\"login_succeeded\"}"
	for _, form := range []func(*request){
		func(r *request) { r.form.Set("client_id", forged) },
		func(r *request) { r.basic(forged, "secret") },
		func(r *request) { r.form.Set("grant_type", forged) },
		func(r *request) { r.form.Set("refresh_token", forged) },
		func(r *request) { r.form.Set("scope", forged) },
		func(r *request) { r.set("X-Request-Id", "forged") },
	} {
		r := newRequest(d.a.refresh("mintage_rt_none"))
		form(r)
		d.send(r)
	}
	for _, e := range tr.entries() {
		if e.Event == audit.LoginSucceeded || strings.Contains(e.ClientID+e.Detail+e.RequestID, "login_succeeded") || e.RequestID == "forged" {
			t.Errorf("%+v", e)
		}
	}
	if log := d.log.String(); strings.Contains(log, "login_succeeded") || strings.Contains(log, `"forged"`) {
		t.Error("the log holds what a stranger made up")
	}
}

// A grant type or client id that does not exist may be a secret in the wrong field, so it
// is not recorded.
func TestOP08_WhatNamesNothingIsNotWrittenDown(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr))
	const slip = "hunter2-in-the-wrong-field"
	pair, _ := d.tokens(d.a)
	wrongType := d.a.refresh(pair.RefreshToken)
	wrongType.Set("grant_type", slip)
	wrongID := d.a.refresh(pair.RefreshToken)
	wrongID.Set("client_id", slip)
	both := d.a.redeem("x")
	both.Set("grant_type", slip)
	both.Set("client_id", slip)
	for _, form := range []url.Values{wrongType, wrongID, both} {
		if a := d.post(form); a.status == http.StatusOK {
			t.Errorf("answered %v", a)
		}
	}
	want(t, d.post(d.a.refresh("x")), 400, "invalid_grant") // a known client's id is recorded
	recorded, err := json.Marshal(tr.entries())
	if err != nil {
		t.Fatal(err)
	}
	log := d.log.String()
	for name, text := range map[string]string{"log": log, "audit log": string(recorded)} {
		if strings.Contains(text, slip) || !strings.Contains(text, "refresh_token") || !strings.Contains(text, d.a.ID) || !strings.Contains(text, "(unknown)") && name == "log" {
			t.Errorf("the %s has %q: %t\n%s", name, slip, strings.Contains(text, slip), text)
		}
	}
	if !strings.Contains(log, `unsupported`) {
		t.Error("the log does not have the request of the unknown grant type")
	}
}

func TestOP08_TheAuditLogSaysNothingThatDidNotHappen(t *testing.T) {
	var tr auditLog
	d := start(t, strict, audited(t, &tr))
	pair, id := d.tokens(d.a)
	d.alive(d.a, pair.RefreshToken)
	d.faulty.Inject(storetest.UpdateGrant, 1, storetest.Full)
	failed := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	if failed.status != 503 || d.row(id).State != grant.Active {
		t.Fatal(failed)
	}
	replayed := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	want(t, replayed, 400, "invalid_grant")
	list := tr.entries()
	if found := of(list, "refresh_replayed"); len(found) != 1 || found[0].RequestID != replayed.header["X-Request-Id"][0] {
		t.Errorf("%+v", found)
	}
}

func TestOP08_AnAuditLogThatCannotBeWrittenStopsNoRequest(t *testing.T) {
	var tr auditLog
	choose := audited(t, &tr)
	if err := os.WriteFile(tr.dir, nil, 0o600); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	d := start(t, choose)
	pair, _ := d.tokens(d.a)
	for range 5 {
		pair = d.alive(d.a, pair.RefreshToken)
	}
	eventually(t, "the writer has failed", func() bool { return tr.log.Numbers().Fault })
	if n := tr.log.Numbers(); n.Written != 0 || n.Waiting < 6 {
		t.Errorf("%+v", n)
	}
	if err := os.Remove(tr.dir); err != nil {
		t.Fatal(err)
	}
	if n := len(of(tr.entries(), audit.CodeRedeemed, audit.TokensRefreshed)); n != 6 {
		t.Errorf("%d of 6 are recorded once it can be written", n)
	}
}

func TestOP08_TheUseOfAnOldSecretIsRecordedOnceAnHour(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr))
	d.clients.OldSecretUsed = tr.log.OldSecretUsed
	d.step(time.Second)
	var text string
	d.change(d.a, func(c *store.Client) {
		next, _, secret, err := client.AddSecret(*c, d.ring(), grant.At(d.now()), 0)
		if err != nil {
			t.Fatal(err)
		}
		*c, text = next, string(secret)
	})
	var first answer
	for i := range 3 {
		a := d.send(newRequest(d.a.redeem(d.code(d.a).Code)))
		d.mustIssue(a)
		if i == 0 {
			first = a
		}
	}
	newer := d.a
	newer.secret = text
	d.mustIssue(d.send(newRequest(newer.redeem(d.code(d.a).Code))))
	list := tr.entries()
	if e := sole(t, list, audit.OldSecretUsed, first); e.ClientID != d.a.ID || !strings.Contains(e.Detail, d.a.Secrets[0].ID) {
		t.Errorf("%+v", e)
	}
	if n := len(of(list, audit.OldSecretUsed)); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestOP08_AThrottledAddressIsRecordedOnceAMinute(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr), func(o *options) { o.AddressFailures, o.ClientFailures = 50, 3 })
	for _, id := range []string{d.a.ID, "a-secret-in-the-wrong-field"} {
		from := local()
		for range 10 {
			d.sendFrom(from, newRequest(with(d.a.redeem("x"), "client_id", id, "client_secret", "guess")))
		}
	}
	list := tr.entries()
	var ids []string
	for _, e := range of(list, audit.Throttled) {
		ids = append(ids, e.ClientID)
	}
	if !slices.Equal(ids, []string{d.a.ID, "(unknown)"}) {
		t.Errorf("records of two addresses are of %q", ids)
	}
	if n := len(of(list, audit.ClientAuthFailed)); n != 6 {
		t.Errorf("%d failures are recorded, want the 6 that were looked at", n)
	}
}

// Every logged request has the same members, so that the log can be searched by each of
// them.
func TestOP08_EveryRequestIsLoggedWithWhatIsSearchedFor(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	d.send(newRequest(with(d.a.refresh(pair.RefreshToken), "client_secret", "wrong")))
	d.send(newRequest(d.b.refresh(pair.RefreshToken)))
	d.introspect(d.a, pair.AccessToken)
	d.revoke(d.a, pair.RefreshToken)
	d.send(ask("GET", "/nowhere"))
	lines := 0
	for line := range strings.Lines(d.log.String()) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		if members["request_id"] == nil {
			continue
		}
		lines++
		for _, name := range []string{"time", "level", "msg", "status", "method", "remote_ip", "realm", "grant_type", "client_id", "dur_ms"} {
			if _, ok := members[name]; !ok {
				t.Errorf("no %s in %s", name, line)
			}
		}
		if status, _ := members["status"].(float64); status >= 400 && members["error"] == nil {
			t.Errorf("no error in %s", line)
		}
	}
	if lines < 6 {
		t.Errorf("%d of 6 requests are logged", lines)
	}
}
