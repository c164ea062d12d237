package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// The token endpoint's errors are one table, in the order of the checks: H transport, F
// form, P parameters, T grant type, C client, U permission, G grant, S scope, E server
// faults. A defect that one step finds consumes nothing that a later step would have
// used.

// A row is one defect of an otherwise valid request and its exact response.
type row struct {
	step, name string
	kinds      []string // the grant types to which the defect applies; nil for both
	spoil      func(*flow)

	status      int
	code        string
	description string
	header      []string // in addition to those of every response
	revokes     grant.Reason
	// dies says that the grant cannot be used afterwards although the request has not
	// changed it: its client or its lifetime has ended it.
	dies bool
}

// A flow is one valid request, which a row then spoils.
type flow struct {
	*deployment
	kind   string
	client oauthClient // the client that sends the request
	owner  oauthClient // the client whose code or token is sent
	id     grant.ID
	code   string
	tokens tokens // of the same grant, if kind is refresh_token
	good   url.Values
	req    *request
	// undo removes the cause of the failure, apart from the request itself.
	undo func()
}

const (
	byCode    = "authorization_code"
	byRefresh = "refresh_token"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636 appendix B
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

var (
	onlyCode    = []string{byCode}
	onlyRefresh = []string{byRefresh}
	bothKinds   = []string{byCode, byRefresh}
)

// newFlow prepares a valid request of client A.
func newFlow(d *deployment, kind string) *flow {
	x := &flow{deployment: d, kind: kind, undo: func() {}}
	x.use(d.client(client.Registration{Settings: store.Settings{Name: "owner"}}))
	return x
}

// use assigns the flow to a client, with a new code or token. A code is issued without a
// challenge unless choose adds one.
func (x *flow) use(c oauthClient, choose ...func(*issuer.Authorization)) {
	code := x.deployment.code(c, choose...)
	x.client, x.owner, x.id, x.code = c, c, code.GrantID, code.Code
	x.good = c.redeem(code.Code)
	if x.kind == byRefresh {
		x.tokens = x.mustIssue(x.post(x.good))
		x.good = c.refresh(x.tokens.RefreshToken)
	}
	x.req = newRequest(x.good)
}

// set changes the form of the request.
func (x *flow) set(pairs ...string) { x.req.form = with(x.req.form, pairs...) }

// body replaces the body of the request.
func (x *flow) body(s string) { x.req.body = &s }

// commonHeader contains the headers of every response of the endpoint. The values of Date
// and X-Request-Id are compared by their form.
var commonHeader = map[string]string{
	"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache",
	"X-Content-Type-Options": "nosniff", "X-Request-Id": `[0-9a-f]{16}`, "Date": ".+ GMT", "Content-Length": "[0-9]+",
	"Strict-Transport-Security": "max-age=31536000",
}

// compareHeader requires exactly the headers of commonHeader and extra, each once. A name
// in extra with a leading "-" removes a header of commonHeader.
func compareHeader(t *testing.T, a answer, extra ...string) {
	t.Helper()
	expect := maps.Clone(commonHeader)
	for _, line := range extra {
		if name, out := strings.CutPrefix(line, "-"); out {
			delete(expect, name)
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		expect[name] = regexp.QuoteMeta(value)
		if name == "Retry-After" && value == "N" {
			expect[name] = "[123]" // Retry-After is random on purpose
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expect)) {
		if len(a.header[name]) != 1 || !regexp.MustCompile("^(?:"+expect[name]+")$").MatchString(a.header[name][0]) {
			t.Errorf("header %s is %q, want one %s", name, a.header[name], expect[name])
		}
	}
	for name := range a.header {
		if _, ok := expect[name]; !ok {
			t.Errorf("header %s: %q must not be there", name, a.header[name])
		}
	}
}

func errorBody(code, description string) string {
	return fmt.Sprintf(`{"error":%q,"error_description":%q}`, code, description)
}

func TestTG43_TC30_EveryDefectHasItsExactAnswerAndCostsWhatItMust(t *testing.T) {
	d := start(t, strict)
	for _, r := range table() {
		kinds := r.kinds
		if kinds == nil {
			kinds = bothKinds
		}
		for _, kind := range kinds {
			t.Run(r.step+"/"+r.name+"/"+kind, func(t *testing.T) {
				d.t = t
				x := newFlow(d, kind)
				r.spoil(x)
				a := d.send(x.req)
				d.faulty.Heal()
				if a.status != r.status {
					t.Errorf("status %d, want %d", a.status, r.status)
				}
				body := errorBody(r.code, r.description)
				if x.req.method == http.MethodHead {
					body = ""
					a.header["Content-Length"] = []string{"0"} // RFC 9110 section 8.6: optional here
				}
				compareHeader(t, a, r.header...)
				if a.body != body {
					t.Errorf("got %v, want the body %s", a, body)
				}
				x.undo()
				x.prove(r)
			})
		}
	}
	d.t = t
}

// prove uses the code or token of the spoiled request in a valid one, to check the row's
// consequence.
func (x *flow) prove(r row) {
	x.t.Helper()
	switch {
	case r.revokes == anyReplay:
		x.dead(x.owner, x.tokens.RefreshToken, x.id, x.replayReason())
	case r.revokes != grant.NoReason:
		x.dead(x.owner, x.tokens.RefreshToken, x.id, r.revokes)
	case r.dies && x.kind == byCode:
		if _, err := x.sqlite.Grant(x.t.Context(), x.id); err != store.ErrNotFound {
			x.t.Errorf("the code left a grant behind (error %v)", err)
		}
	case r.dies:
		if g := x.row(x.id); g.State != grant.Active || g.Generation != 1 || g.Version != 1 {
			x.t.Errorf("the grant was changed: generation %d, version %d, %v", g.Generation, g.Version, g.State)
		}
	default:
		x.mustIssue(x.post(x.good))
	}
}

// Responses within a group are byte for byte the same: an unauthenticated caller learns
// nothing about clients from them, and a client nothing about grants.
func TestCA02_TC02_AnswersWithinAGroupAreByteIdentical(t *testing.T) {
	d := start(t, strict)
	group := func(r row) string {
		switch {
		case r.step == "C2" || r.step == "C3" || r.step == "C4":
			return "client"
		case r.step[0] == 'G' && r.step != "G10":
			return "grant"
		}
		return ""
	}
	first := map[string]string{}
	seen := map[string]int{}
	for _, r := range table() {
		name := group(r)
		if name == "" {
			continue
		}
		kinds := r.kinds
		if kinds == nil {
			kinds = bothKinds
		}
		for _, kind := range kinds {
			x := newFlow(d, kind)
			r.spoil(x)
			x.set("state", "held-constant")
			a := d.send(x.req)
			d.faulty.Heal()
			x.undo()
			delete(a.header, "Date")
			delete(a.header, "X-Request-Id")
			header, err := json.Marshal(a.header)
			if err != nil {
				t.Fatal(err)
			}
			bytes := fmt.Sprintf("%d\n%s\n%s", a.status, header, a.body)
			if first[name] == "" {
				first[name] = bytes
			}
			if bytes != first[name] {
				t.Errorf("%s %s (%s) differs from its group:\n%s\n%s", r.step, r.name, kind, bytes, first[name])
			}
			if a.State != "held-constant" {
				t.Errorf("%s %s: state %q is not echoed", r.step, r.name, a.State)
			}
			seen[name]++
		}
	}
	if seen["client"] < 10 || seen["grant"] < 15 {
		t.Errorf("the groups have only %v members", seen)
	}
}
