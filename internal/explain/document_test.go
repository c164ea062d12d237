package explain_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// The example of RFC 7636 appendix B.
const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

// A document is an explanation as people and programs read it.
type document struct {
	head string            // the first line
	rows map[string]string // by "PART LABEL", or "LABEL" above the first part; rows of a table by "PART EVENT"
	json map[string]string // by the member's path, such as a/b
}

// In a table, the first column is an instant, and the second one names the row.
var (
	cell    = regexp.MustCompile(`\s{2,}`)
	instant = regexp.MustCompile(`^\d{4}-\d\d-\d\dT|^\?$`)
)

// read parses an explanation into its rows and members.
func (s *service) read(x *explain.Explainer, text string, lines ...adminapi.LogLine) document {
	s.T.Helper()
	v, err := x.Explain(s.T.Context(), explain.Parse(text), &explain.Log{Name: "the log", Lines: lines})
	if err != nil {
		s.T.Fatal(err)
	}
	var b strings.Builder
	if err := v.Print(&b); err != nil {
		s.T.Fatal(err)
	}
	d := document{rows: map[string]string{}, json: map[string]string{}}
	part, after := "", ""
	for line := range strings.SplitSeq(b.String(), "\n") {
		switch cells := cell.Split(strings.TrimSpace(line), -1); {
		case line == "":
		case len(cells) == 1 && !strings.HasPrefix(line, "  ") && after == "":
			part = line + " "
			if d.rows[line] = ""; strings.HasSuffix(line, ".") {
				if part = ""; d.head == "" {
					d.head = line
				} else {
					d.rows["then"] = line
				}
			}
		case part != "" && !strings.HasPrefix(line, "  "):
			s.T.Errorf("%q is not below its title", line)
		case instant.MatchString(cells[0]):
			d.rows[part+cells[1]] = strings.Join(cells[2:], " | ")
		default:
			d.rows[part+cells[0]] = strings.Join(cells[1:], " | ")
		}
		after = line
	}
	encoded, err := json.Marshal(v)
	var whole map[string]any
	if err == nil {
		err = json.Unmarshal(encoded, &whole)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	var flatten func(path string, member any)
	flatten = func(path string, member any) {
		if members, ok := member.(map[string]any); ok {
			for name, m := range members {
				flatten(strings.TrimPrefix(path+"/"+name, "/"), m)
			}
			return
		}
		d.json[path] = fmt.Sprint(member)
	}
	flatten("", whole)
	return d
}

// explainerOf returns an explainer with the same fields as a server's.
func (s *service) explainerOf() *explain.Explainer {
	x := explainer(s.Issuer, s.Engine)
	x.Config.Realm, x.Config.Audit.Directory = realm, config.AuditOff
	x.ResponseTo = func(string, grant.Refusal) (int, oauth.ErrorCode) { return 400, oauth.InvalidGrant }
	return x
}

// TestWhatPeopleAndProgramsRead checks for each kind of text the first line, the rows by
// which an operator recognizes it, and the members that the console shows. "-" marks one
// that must be missing.
func TestWhatPeopleAndProgramsRead(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	s.ID = testkit.IssuerID
	s.Register(client.Registration{ID: "public", Settings: store.Settings{Name: "Public", Auth: store.AuthNone, Scope: "read", RedirectURIs: []string{redirectURI}}})
	s.Register(client.Registration{ID: "gateway", Settings: store.Settings{Name: "Gateway", Auth: store.AuthEither, ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders}}})
	code, err := s.AuthorizeAt("", orders, invoices)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Must(s.Exchange(t.Context(), s.Listed("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	s.Clock.Advance(time.Second)
	exchanged, err := issuer.Exchanges{Issuer: s.Issuer}.ExchangeToken(t.Context(), s.Listed("gateway"), issuer.ExchangeRequest{SubjectToken: first.AccessToken, Resource: orders})
	if err != nil {
		t.Fatal(err)
	}
	second := s.Must(s.RefreshAt(first.RefreshToken, "", ""))
	third := s.Must(s.RefreshAt(second.RefreshToken, "", ""))
	jwt := s.Must(s.RefreshAt(third.RefreshToken, "", invoices)).AccessToken // this API has JWTs
	key := oauth.JKT{7}
	bound, err := s.Codes().IssueTo(s.Listed("public"), issuer.Authorization{ClientID: "public", RedirectURI: redirectURI, Subject: "alice", Scope: "read", JKT: key, Challenge: challenge})
	if err != nil {
		t.Fatal(err)
	}
	fresh := s.read(s.explainerOf(), bound.Code)
	ofKey := s.Must(s.Exchange(t.Context(), s.Listed("public"), issuer.CodeRequest{Code: bound.Code, RedirectURI: redirectURI, Verifier: verifier, JKT: key, From: testkit.Origin}))
	needsProof := "; each request with it needs a proof (DPoP, RFC 9449) by the key " + key.String()
	const all = "openid orders:read orders:write invoices"
	id, at := first.GrantID.String(), "2023-11-14T22:13:2"
	for _, c := range []struct {
		name string
		is   document
		want document
	}{
		{"a spent refresh token", s.read(s.explainerOf(), first.RefreshToken), document{
			"A refresh token, authentic. It would be refused now: refresh_replayed.",
			map[string]string{"why": "it is generation 1 and the grant is at 4: its successor has been used; it is a spent refresh token: thief and client look alike, so the grant ends for both (RFC 9700 section 4.14.2); presenting it now would end the whole grant", "told": "400 invalid_grant", "token realm": realm, "token grant": id,
				"token generation": "1, spent: the grant is at 4", "token issued": at + "0Z (1 s ago)", "token bound to key": "-", "grant state": "active", "grant generation": "4",
				"grant apis": orders + " " + invoices, "grant realm": "-", "life refreshed 3 times in all": "shop | this is the last time: generation 4", "life refresh token expires": "- | -"},
			map[string]string{"kind": "refresh_token", "genuine": "true", "now/verdict": "refused", "now/refusal": "refresh_replayed", "now/told": "400 invalid_grant", "token/grant_id": id,
				"token/generation": "1", "token/standing": "spent", "token/issued_at": at + "0.123Z", "client/id": "shop", "client/state": "enabled", "grant/id": id, "realm": "-", "notes": "-", "trail": "the audit log is switched off (audit.directory)"},
		}},
		{"a JWT", s.read(s.explainerOf(), jwt), document{
			"An access token (JWT), authentic. It would be answered now.",
			map[string]string{"why": "nothing is wrong with it", "token issuer": testkit.IssuerID, "token type": "at+jwt", "token algorithm": "ES256", "token client": "shop", "token subject": subject,
				"token audience": invoices, "token generation": "4, of the present pair: the grant is at 4", "token scope": "openid invoices", "token refused by": orders},
			map[string]string{"kind": "jwt", "now/verdict": "answered", "token/issuer": testkit.IssuerID, "token/audience": "[" + invoices + "]", "token/refused_by": "[" + orders + "]", "token/fault": "-"},
		}},
		{"an access token of before", s.read(s.explainerOf(), `"`+first.AccessToken+`"`), document{
			"An access token, authentic. It would be answered now.",
			map[string]string{"pasted": "quotes around it were left out: sent with them, it is refused", "token generation": "1, of an earlier pair: the grant is at 4", "token scope": all, "token apis": orders + " " + invoices,
				"next": "nothing; if the client was refused, explain the request id of its answer; a resource server that gets active: false is not registered to ask about it: mintage client update ID --introspect --add-introspect-audience AUDIENCE"},
			map[string]string{"notes": "[quotes around it were left out: sent with them, it is refused]", "token/standing": "spent", "token/scope": all, "token/apis": "[" + orders + " " + invoices + "]"},
		}},
		{"one of an exchange", s.read(s.explainerOf(), exchanged.AccessToken), document{
			"An access token that its client got in exchange (RFC 8693), authentic. It would be answered now.",
			map[string]string{"token client": "gateway", "token acts": "gateway", "token grant": id}, map[string]string{"token/actors": "[gateway]", "client/id": "shop"},
		}},
		{"a code", fresh, document{
			"An authorization code, authentic. It would be answered now.",
			map[string]string{"code redeemed": "no", "code client": "public", "code subject": "alice", "code redirect uri": redirectURI, "code pkce": "S256 challenge", "code bound to key": key.String(),
				"code would make grant": ofKey.GrantID.String(), "next": "the request must come from client public with redirect_uri " + redirectURI + " and the code_verifier of its challenge" + needsProof, "life code expires": "- | -"},
			map[string]string{"code/redeemed": "false", "code/client_id": "public", "code/pkce": "true", "code/redirect_uri": redirectURI, "code/issued_at": at + "1.123Z"},
		}},
		{"one that was redeemed", s.read(s.explainerOf(), bound.Code), document{
			"An authorization code, authentic. It would be refused now: code_replayed.",
			map[string]string{"code redeemed": "yes: grant " + ofKey.GrantID.String(), "code would make grant": "-", "why": "the code was redeemed before: a code works once (RFC 6749 section 4.1.2); presenting it now would end the whole grant"},
			map[string]string{"code/redeemed": "true"},
		}},
		{"a refresh token of a key", s.read(s.explainerOf(), ofKey.RefreshToken), document{
			"A refresh token, authentic. It would be answered now.",
			map[string]string{"token bound to key": key.String(), "grant bound to key": key.String(), "next": "nothing; if the client was refused, explain the request id of its answer" + needsProof}, nil,
		}},
		{"an access token of a key", s.read(s.explainerOf(), ofKey.AccessToken), document{
			"An access token, authentic. It would be answered now.", map[string]string{"token bound to key": key.String()}, nil,
		}},
		{"one that was cut", s.read(s.explainerOf(), first.RefreshToken[:len(first.RefreshToken)-4]), document{
			"A refresh token, not authentic. It would be refused now: token_unknown.",
			map[string]string{"token grant": id + " (as it says; not proven)", "token realm": "-", "token scope": "-"}, map[string]string{"genuine": "false", "token/fault": "wrong_length"},
		}},
		{"anything", s.read(s.explainerOf(), "anything"), document{"A text of no known form. It would be refused now: token_unknown.", map[string]string{"token key": "-", "life authorized": "-"}, map[string]string{"kind": "unknown"}}},
		{"a grant", s.read(s.explainerOf(), id), document{
			"A grant. It would be answered now.", map[string]string{"why": "the grant is alive: its present refresh token would be answered", "grant scope": all, "life row may be removed": "- | -"},
			map[string]string{"kind": "grant", "genuine": "-", "grant/state": "active", "token": "-"},
		}},
		{"a grant that is not there", s.read(s.explainerOf(), strings.Repeat("ab", 16)), document{
			"A grant. The outcome is unknown.", map[string]string{"grant row": "there is none in this store", "grant id": strings.Repeat("ab", 16)}, map[string]string{"now/verdict": "unknown", "grant": "-"},
		}},
	} {
		c.is.wants(t, c.name, c.want)
	}
}

// TestARegistrationIsTheCause: if a client's registration decides what a token or code
// can do, explain says so.
func TestARegistrationIsTheCause(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tokens, code := s.Login(), s.NewCode()
	s.Administer(clientID, func(c *store.Client) { c.DPoP = store.DPoPRequired })
	demands := "; the request needs a proof (DPoP, RFC 9449), which the client's registration demands"
	s.read(s.explainerOf(), tokens.RefreshToken).wants(t, "a proof", document{"A refresh token, authentic. It would be answered now.",
		map[string]string{"next": "nothing; if the client was refused, explain the request id of its answer" + demands}, nil})
	s.read(s.explainerOf(), code).wants(t, "a proof", document{"An authorization code, authentic. It would be answered now.",
		map[string]string{"next": "the request must come from client " + clientID + " with redirect_uri " + redirectURI + " and no code_verifier" + demands}, nil})
	s.Administer(clientID, func(c *store.Client) { c.Auth = store.AuthNone })
	s.read(s.explainerOf(), tokens.RefreshToken).wants(t, "no key", document{"A refresh token, authentic. It would be refused now: key_mismatch.",
		map[string]string{"why": "it is bound to no key, and the client's registration demands one (--dpop required)", "next": "the user logs in again, with proofs; or register the client with --dpop allowed: mintage client update ID"}, nil})
	_, err := s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, JKT: oauth.JKT{7}, From: testkit.Origin})
	if why := testkit.RefusalOf(t, err); why != grant.KeyMismatch {
		t.Errorf("the token endpoint: %s", why)
	}
	s.Administer(clientID, func(c *store.Client) { c.Auth, c.DPoP, c.Scope = store.AuthEither, "", "other" })
	s.read(s.explainerOf(), tokens.RefreshToken).wants(t, "no scope", document{"A refresh token, authentic. It would be refused now: scope_too_wide.",
		map[string]string{"why": "the client is no longer registered for any scope of the grant", "next": "register the scope again (mintage client update ID --add-scope), or have the user authorize anew"}, nil})
}

// TestOneRefresh: the life of a grant says "1 time", and not "1 times".
func TestOneRefresh(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tokens := s.Must(s.Renew(s.Login().RefreshToken))
	s.read(s.explainerOf(), tokens.RefreshToken).wants(t, "one refresh", document{"A refresh token, authentic. It would be answered now.",
		map[string]string{"life refreshed 1 time in all": clientID + " | this is the last time: generation 2"}, nil})
}

// wants compares an explanation with the wanted parts. "-" marks one that must be
// missing.
func (d document) wants(t *testing.T, name string, want document) {
	t.Helper()
	if d.head != want.head {
		t.Errorf("%s: %q, want %q", name, d.head, want.head)
	}
	for what, pair := range map[string][2]map[string]string{"row": {d.rows, want.rows}, "member": {d.json, want.json}} {
		for label, want := range pair[1] {
			if got, ok := pair[0][label]; got != want && !(want == "-" && !ok) {
				t.Errorf("%s: %s %q is %q, want %q; of %q", name, what, label, got, want, pair[0])
			}
		}
	}
}

// TestTheHistoryOfAGrantAndOfItsRequests combines the row, the events of the store, the
// audit log and the server's log.
func TestTheHistoryOfAGrantAndOfItsRequests(t *testing.T) {
	t.Parallel()
	s := newService(t)
	x := s.explainerOf()
	x.Config.Audit.Directory = t.TempDir()
	first := s.Login()
	id, other, request := first.GrantID.String(), s.Login().GrantID.String(), "00000000000000aa"
	record := func(events ...audit.Event) {
		t.Helper()
		log := audit.Open(audit.Options{Directory: x.Config.Audit.Directory, Node: "n1", Routine: true, Now: s.Clock.Now, Log: slog.New(slog.DiscardHandler)})
		for _, e := range events {
			e.ClientID, e.GrantID = clientID, id
			log.Record(e)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	record(audit.Event{Name: audit.CodeRedeemed, Outcome: audit.Success, Generation: 1, RequestID: "00000000000000a1"})
	last := first
	for range 7 {
		s.Clock.Advance(time.Second)
		last = s.Must(s.Renew(last.RefreshToken))
		record(audit.Event{Name: audit.TokensRefreshed, Outcome: audit.Success})
	}
	record(audit.Event{Name: audit.RefreshShared, Outcome: audit.Success})
	s.read(x, id).wants(t, "refreshed", document{"A grant. It would be answered now.",
		map[string]string{"grant holders": "2 holders or more: requests with an earlier refresh token were answered under the client's reuse grace; the audit log has 1",
			"life code_redeemed": clientID + " | generation 1; request 00000000000000a1; on n1", "life code redeemed": "-", "life refreshed 7 times in all": clientID + " | this is the last time: generation 8",
			"life refresh_shared": clientID + " | on n1", "3 more refreshes are in the audit log: mintage audit show --grant " + id: ""},
		map[string]string{"trail": "3 more refreshes are in the audit log: mintage audit show --grant " + id}})
	if _, err := s.Revoke(t.Context(), s.Listed(clientID), last.AccessToken, testkit.Origin); err != nil {
		t.Fatal(err)
	}
	floor := "2023-11-14T22:13:27Z"
	s.read(x, last.AccessToken).wants(t, "access ended", document{"An access token, authentic. It would be refused now: access_revoked.",
		map[string]string{"why": "the access tokens that the grant had given until then were revoked (all that were issued until " + floor + ")", "grant access ended until": floor + " (0 ms ago)", "life access tokens until then ended": "- | -",
			"told": `{"active": false} at introspection, 401 invalid_token at tokeninfo and verify`}, nil})
	s.read(x, "00000000000000bb", adminapi.LogLine{Message: "token request refused", Reason: "refused: scope_too_wide", GrantID: id}).wants(t, "a wide scope", document{"A request.",
		map[string]string{"then": "The grant behind it, as it is now. It would be answered now."}, map[string]string{"now/next": "nothing"}})
	s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
	record(audit.Event{Name: audit.Name(store.EventRefreshReplayed), Outcome: audit.Refused, RequestID: request, Detail: "again"},
		audit.Event{Name: audit.TokenRefused, Outcome: audit.Refused, RequestID: request, Detail: "refresh_replayed, refresh_token token request"})
	d := s.read(x, "X-Request-Id: "+request, adminapi.LogLine{Time: "12:00", Level: "INFO", Message: "token request refused", Status: 400, Reason: "refused: refresh_replayed", Error: "invalid_grant",
		ClientID: clientID, GrantType: "refresh_token", RemoteIP: "192.0.2.1", GrantID: id, Took: 1.25}, adminapi.LogLine{Time: "12:01", Message: "more", GrantID: other})
	d.wants(t, "a refused request", document{"A request.",
		map[string]string{"request": request, "refused": "refresh_replayed: it is a spent refresh token: thief and client look alike, so the grant ends for both (RFC 9700 section 4.14.2)",
			"next": replayed, "other grants": other, "audit log token_refused (refused)": clientID + " | refresh_replayed, refresh_token token request; request " + request + "; on n1",
			"log (the log) 12:00": "INFO | token request refused | status 400, reason refused: refresh_replayed, error invalid_grant, client " + clientID + ", grant type refresh_token, from 192.0.2.1, grant " + id + ", 1.25 ms",
			"then":                "The grant behind it, as it is now. It would be refused now: grant_revoked.", "grant state": "revoked: refresh_replayed"},
		map[string]string{"kind": "request", "request/id": request, "request/refusal": "refresh_replayed", "now/refusal": "grant_revoked", "grant/id": id}})
	if strings.Count(d.json["life"], "what:refresh_replayed") != 1 {
		t.Errorf("the history lists the replay more than once, from the store and from the audit log: %s", d.json["life"])
	}
	instants := regexp.MustCompile(`\bat:\S{19}`).FindAllString(d.json["life"], -1)
	if len(instants) < 9 || !slices.IsSorted(instants) {
		t.Errorf("the history is not in the order of time: %s", d.json["life"])
	}
	cutoff := store.Cutoff{Realm: realm, Subject: subject, At: s.At().Add(time.Second)}
	if err := s.Engine.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{cutoff}, Events: []store.Event{
		{At: s.At(), Name: store.EventCutoff, About: store.AboutSubject(subject), Actor: "operator:root", Detail: "alice"},
		{At: s.At().Add(-time.Hour), Name: store.EventCutoff, About: store.AboutSubject(subject), Actor: "operator:before", Detail: "alice"},
	}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	s.read(x, other).wants(t, "cut off", document{"A grant. It would be refused now: cut_off.",
		map[string]string{"why": `a cutoff of subject "alice" until 2023-11-14T22:13:28Z covers it`, "next": "the user may authorize anew, which makes a new grant", "life cutoff": "operator:root | alice", "life cut off until then": `- | subject "alice"`}, nil})
	s.Clock.Advance(time.Minute)
	restore := s.Restored()
	s.read(x, other).wants(t, "restored", document{"A grant. It would be refused now: cut_off.",
		map[string]string{"life store restored": "- | from a backup of " + show.Instant(restore.Backup) + "; tokens of before are accepted until " + show.Instant(restore.Until)}, nil})
	s.read(x, "00000000000000ff").wants(t, "an unknown one", document{"A request of which nothing is recorded here.",
		map[string]string{"why": "it is not in the audit log " + x.Config.Audit.Directory + ", and not in the log: the log"}, map[string]string{"request/id": "00000000000000ff"}})
}

// replayed is the advice about a replay.
const replayed = "see the events below for the address and the request: is it one client that keeps an old token (several workers, a restored disk, a cache), or somebody else? The user logs in again"
