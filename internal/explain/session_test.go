package explain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A grant shows which session made it; a session, found by its name or by an id_token
// of one of its clients, shows its grants.
func TestAGrantHasItsSessionAndASessionItsGrants(t *testing.T) {
	k := testkit.New(t, func(s *testkit.Setup) { s.Schedule.Algorithms = []keys.Purpose{keys.ES256} })
	k.Issuer.IDTokenLifetime = 5 * time.Minute
	reference := [16]byte{7}
	tokens := map[string]issuer.Tokens{}
	for _, id := range []string{"shop", "billing"} {
		c, _ := k.Register(client.Registration{ID: id, Name: id, RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid read", Auth: store.AuthEither, NoPKCE: true, FirstParty: true, IDTokenAlg: keys.ES256})
		a := issuer.Authorization{ClientID: id, RedirectURI: "https://client.example/cb", Subject: "alice", Scope: "openid", Session: reference}
		code, err := k.Issuer.IssueCode(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if tokens[id], err = k.Issuer.Exchange(t.Context(), &c, issuer.CodeRequest{Code: code.Code, RedirectURI: a.RedirectURI}); err != nil {
			t.Fatal(err)
		}
	}
	name := grant.SessionName(reference)
	x := &explain.Explainer{Issuer: k.Issuer, Store: k.Engine}
	x.Config.Audit.Directory = config.AuditOff
	say := func(a explain.Asked) (text string, program map[string]any) {
		t.Helper()
		v, err := x.Explain(t.Context(), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := v.Print(&b); err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(encoded, &program)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), program
	}
	of := func(program map[string]any) map[string]any {
		s, _ := program["session"].(map[string]any)
		return s
	}
	text, program := say(explain.Parse(tokens["shop"].GrantID.String()))
	if !strings.Contains(text, name+", ended; it made 2 grants") || of(program)["session"] != name || program["kind"] != "grant" {
		t.Errorf("of a grant: %s%v", text, program)
	}
	named := explain.Parse(strings.ToUpper(name))
	named.Subject = "alice"
	for question, a := range map[string]explain.Asked{"a session's name": named, "an id_token": explain.Parse(tokens["billing"].IDToken)} {
		text, program := say(a)
		grants, _ := of(program)["grants"].([]any)
		if program["kind"] != "session" || len(grants) != 2 || !strings.Contains(text, tokens["shop"].GrantID.String()) || !strings.Contains(text, tokens["billing"].GrantID.String()) {
			t.Errorf("%s: %s%v", question, text, program)
		}
		if strings.Contains(text, tokens["billing"].IDToken) {
			t.Errorf("%s: the id_token is printed", question)
		}
	}
	named.Subject = "bob"
	if text, program := say(named); of(program)["state"] != "unknown" || !strings.Contains(text, "--subject") {
		t.Errorf("of nobody: %s%v", text, program)
	}
}
