package explain

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	refresh = "mintage_rt_AQAAAAAAAAAA-_x"
	code    = "mintage_ac_AQBBBBBBBBBB"
	id      = "0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b"
)

func TestTheOneThingThatWasPastedIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pasted string
		kind, text   string
		note         string // part of the only note; "" for no note
	}{
		{"a token", refresh, inputText, refresh, ""},
		{"with a line's end", refresh + "\r\n", inputText, refresh, ""},
		{"quoted", `"` + refresh + `"`, inputText, refresh, "quotes around it"},
		{"a header", "Authorization: Bearer " + refresh, inputText, refresh, "the word Bearer"},
		{"broken by a mail", refresh[:12] + "\n  " + refresh[12:], inputText, refresh, "spaces and line breaks"},
		{"encoded", "abc%2Bdef", inputText, "abc+def", "percent-encoding"},
		{"an answer", `{"access_token":"mintage_at_x","refresh_token":"` + refresh + `"}`, inputText, refresh, "the member refresh_token"},
		{"an answer without a token", `{"error":"invalid_grant"}`, inputText, `{"error":"invalid_grant"}`, ""},
		{"a callback", "https://client.example/cb?code=" + code + "&state=x", inputText, code, "the parameter code"},
		{"a form", "grant_type=refresh_token&refresh_token=" + refresh, inputText, refresh, "the parameter refresh_token"},
		{"a fragment", "https://client.example/cb#access_token=" + refresh, inputText, refresh, "the parameter access_token"},
		{"a grant", strings.ToUpper(id), inputGrant, id, ""},
		{"a grant like a UUID", "0f3c9a50-c1d2-4e6f-8b7a-6c5d4e3f2a1b", inputGrant, id, ""},
		{"a request", "5F2B6C0E9A1D4473", inputRequest, "5f2b6c0e9a1d4473", ""},
		{"a request's header", "X-Request-Id: 5f2b6c0e9a1d4473", inputRequest, "5f2b6c0e9a1d4473", ""},
		{"anything else", "SomethingElse", inputText, "SomethingElse", ""},
	} {
		a := Parse(c.pasted)
		if a.kind != c.kind || a.Text != c.text {
			t.Errorf("%s: %s %q", c.name, a.kind, a.Text)
		}
		if a.Secret() != (c.kind == inputText) || a.IsRequest() != (c.kind == inputRequest) {
			t.Errorf("%s: secret %t, request %t", c.name, a.Secret(), a.IsRequest())
		}
		if c.note == "" && len(a.notes) > 0 || c.note != "" && (len(a.notes) != 1 || !strings.Contains(a.notes[0], c.note)) {
			t.Errorf("%s: notes %q", c.name, a.notes)
		}
	}
}

func TestEveryRefusalHasItsWords(t *testing.T) {
	t.Parallel()
	for why := grant.Allowed; why.String() != "unknown"; why++ {
		if w, ok := refusalWords[why]; !ok || w.why == "" || w.next == "" {
			t.Errorf("%s: why %q, next %q", why, w.why, w.next)
		}
		if _, ok := wordsOf(why.String()); !ok {
			t.Errorf("%s is not found by its name", why)
		}
	}
	if _, ok := wordsOf("unknown"); ok {
		t.Error("an unknown reason has an explanation")
	}
}

func TestTheLinesOfARequestAreFoundInALog(t *testing.T) {
	t.Parallel()
	text := `2026/11/21 starting
Nov 21 host mintage[12]: {"msg":"token request refused","request_id":"00000000000000aa","status":400,"reason":"refused: cut_off"}
{"msg":"another one's","request_id":"00000000000000ab"}
{"msg":"names it only: 00000000000000aa"}
{"msg":"cut off","request_id":"00000000000000aa"
` + strings.Repeat("x", maxLogLine+10) + `{"request_id":"00000000000000aa"}
{"msg":"last, without an end","request_id":"00000000000000aa"}`
	log, err := ReadLog(strings.NewReader(text), "00000000000000aa")
	if err != nil || log.Read != 7 || len(log.Lines) != 2 {
		t.Fatalf("%+v, %v", log, err)
	}
	if first := log.Lines[0]; first.Status != 400 || first.Reason != "refused: cut_off" || log.Lines[1].Message != "last, without an end" {
		t.Errorf("%+v", log.Lines)
	}
	q := requestFacts{log: log}
	if got := q.refusal(); got != "cut_off" || !q.known() {
		t.Errorf("refusal %q, known %t", got, q.known())
	}
	if _, err := ReadLog(iotest.ErrReader(iotest.ErrTimeout), "00000000000000aa"); err == nil {
		t.Error("a log that cannot be read is taken for an empty one")
	}
	if log, err := ReadLog(strings.NewReader(""), "00000000000000aa"); err != nil || log.Read != 0 {
		t.Errorf("an empty one: %+v, %v", log, err)
	}
}

// An agent's user sees one general page; the log records the cause, and explain says what
// to do about it.
func TestAdviceOnClientsThatDescribeThemselves(t *testing.T) {
	t.Parallel()
	for defect, want := range map[string]string{
		oauth.ErrUnknownClient.Error():                                       "client_metadata.documents",
		oauth.ErrDisabledClient.Error():                                      "mintage client enable ID",
		oauth.ErrTarget.Error():                                              "mintage api list",
		login.ErrDescription.Error() + ": address is not globally reachable": "Clients that describe themselves",
	} {
		if got := adviceOn(defect); !strings.Contains(got, want) {
			t.Errorf("%s: %s", defect, got)
		}
	}
}

// TestAdviceOnClientsThatWereNotAuthenticated uses the texts of the log and of the audit
// log.
func TestAdviceOnClientsThatWereNotAuthenticated(t *testing.T) {
	t.Parallel()
	for fault, want := range map[error]string{
		client.UnknownClient:   "mintage client list",
		client.ErrUnregistered: "registered itself",
		client.ClientInactive:  "mintage client enable ID",
		client.WrongMethod:     "mintage client show ID",
		client.WrongSecret:     "mintage client secret add ID",
		client.ExpiredSecret:   "mintage client secret add ID",
	} {
		why := strings.TrimPrefix(fault.Error(), client.ErrClient.Error()+": ")
		for _, defect := range []string{fault.Error(), "token request, " + why} {
			if got := adviceOn(defect); !strings.Contains(got, want) {
				t.Errorf("%s: %s", defect, got)
			}
		}
	}
}

// TestAdviceOnAnUnreadableHeader: with the texts of the log and of the audit log. Another
// defect has other advice.
func TestAdviceOnAnUnreadableHeader(t *testing.T) {
	t.Parallel()
	for defect, want := range map[string]bool{
		oauth.ErrClient.Error():         true,
		"token request, malformed":      true,
		oauth.ErrMalformedValue.Error(): false,
		"token request, wrong_secret":   false,
	} {
		if got := adviceOn(defect); strings.Contains(got, "one Authorization header") != want {
			t.Errorf("%s: %s", defect, got)
		}
	}
}

// TestAWrongAssertionIsExplained: only the operator is told which claim is wrong, with or
// without the log.
func TestAWrongAssertionIsExplained(t *testing.T) {
	t.Parallel()
	log := &Log{Lines: []adminapi.LogLine{{Message: "token request refused", Error: "client authentication failed: wrong_assertion: aud is not the issuer"}}}
	trail := []audit.Entry{{Event: audit.ClientAuthFailed, Outcome: audit.Refused, Detail: "token request, wrong_assertion: aud is not the issuer"}}
	for name, q := range map[string]requestFacts{"log": {log: log}, "audit log": {audit: trail}, "both": {log: log, audit: trail}} {
		var out strings.Builder
		if err := (&Explained{by: &Explainer{}, request: &q}).Print(&out); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"wrong_assertion: aud is not the issuer", "compare the claim with the client's registration", "token-endpoint.md"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is missing in %s", name, part, out.String())
			}
		}
		if reason := q.refusal(); reason != "" {
			t.Errorf("%s: refused for %q", name, reason)
		}
	}
}

// An assertion of another issuer, as a grant, may have the target and scope of an
// identity assertion, which no API has.
func TestAdviceOnIdentityAssertions(t *testing.T) {
	for _, err := range []error{oauth.ErrTarget, oauth.Sent(oauth.ErrScope, "chat.admin")} {
		if _, next := Remedy(err); !strings.Contains(next, "--id-jag") {
			t.Errorf("%v: %q", err, next)
		}
	}
}

func TestARefusedAssertionIsExplained(t *testing.T) {
	t.Parallel()
	log := &Log{Lines: []adminapi.LogLine{{Message: "token request refused", Error: "invalid_grant: grant is invalid: the assertion's aud is not the issuer"}}}
	trail := []audit.Entry{{Event: audit.TokenRefused, Outcome: audit.Refused, Detail: "assertion's aud is not the issuer"}}
	for name, q := range map[string]requestFacts{"log": {log: log}, "audit log": {audit: trail}, "both": {log: log, audit: trail}} {
		var out strings.Builder
		if err := (&Explained{by: &Explainer{}, request: &q}).Print(&out); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"assertion's aud is not the issuer", "mintage trust test", "Assertions of other issuers"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is missing in %s", name, part, out.String())
			}
		}
	}
}

// TestAdviceFitsTheRequest: an error of the request is not blamed on the registration,
// and a withdrawn JWT is not reported as altered.
func TestAdviceFitsTheRequest(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		&grant.Refused{Why: grant.ScopeTooWide}:  "have the client ask for less",
		&grant.Refused{Why: grant.ScopeTooWide}:  "--add-exchange-api",
		&grant.Refused{Why: grant.TargetUnknown}: "--add-exchange-api",
		&grant.Refused{Why: grant.TokenUnknown}:  "no access token or code as the refresh_token",
		oauth.ErrClientGrantType:                 "--add-exchange-from",
		oauth.ErrScope:                           "mintage trust show ID",
		oauth.ErrMalformedValue:                  "line break",
		oauth.ErrPushed:                          "push the request again",
		oauth.ErrNoProof:                         "send a proof (DPoP)",
	} {
		if _, next := Remedy(err); !strings.Contains(next, want) {
			t.Errorf("%v: %q", err, next)
		}
	}
	if why, _ := Remedy(&grant.Refused{Why: grant.ScopeTooWide}); !strings.HasPrefix(why, "the request asks for a scope beyond") {
		t.Error(why)
	}
	for fault, want := range map[JWTFault]string{
		JWTUnreadable: "compare", JWTWrongSeal: "compare", JWTOtherIssuer: "mintage trust test", JWTUnknownKey: "mintage keys list", JWTKeyGone: "another token", JWTKeyWithdrawn: "another token",
		JWTOtherType: "an access token", JWTOtherMeaning: "mintage keys withdraw", "none": "compare",
	} {
		v := Explained{Explanation: &Explanation{JWT: &JWTFacts{Fault: fault}}}
		if why, next := v.notAuthentic("compare"); why == "" || !strings.Contains(next, want) {
			t.Errorf("%s: %q, %q", fault, why, next)
		}
	}
}

// TestAWorkloadsTokenHasNoGrant: the record of an assertion contains the id of a grant,
// or of a workload's token, which names the trust.
func TestAWorkloadsTokenHasNoGrant(t *testing.T) {
	t.Parallel()
	trust := store.Trust{ID: store.TrustID("https://cluster.example", store.TrustWorkload, "job")}
	for name, c := range map[string]struct {
		record audit.Entry
		want   bool
	}{
		"of a workload": {audit.Entry{Event: audit.AssertionAccepted, Detail: "trust " + trust.ID + ", bound to the DPoP key x", GrantID: trust.NewID(grant.ID{15: 1}).String()}, true},
		"of a user":     {audit.Entry{Event: audit.AssertionAccepted, Detail: "trust " + trust.ID, GrantID: id}, false},
		"requested":     {audit.Entry{Event: audit.ServiceTokenIssued, GrantID: id}, true},
		"revoked":       {audit.Entry{Event: audit.ServiceTokenRevoked, GrantID: id}, true},
		"of a code":     {audit.Entry{Event: audit.CodeRedeemed, GrantID: id}, false},
	} {
		if got := ofService(c.record); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
