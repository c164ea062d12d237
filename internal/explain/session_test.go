package explain_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A grant shows the session that made it. A session, found by its id or by an id_token of
// one of its clients, shows its grants.
func TestAGrantHasItsSessionAndASessionItsGrants(t *testing.T) {
	k := testkit.New(t, func(s *testkit.Setup) { s.Schedule.Algorithms = []keys.Purpose{keys.ES256} })
	k.Issuer.IDTokenLifetime = 5 * time.Minute
	reference := [16]byte{7}
	tokens := map[string]issuer.Tokens{}
	for _, id := range []string{"shop", "billing"} {
		c, _ := k.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid read", Auth: store.AuthEither, NoPKCE: true, FirstParty: true, IDTokenAlg: keys.ES256}})
		a := issuer.Authorization{ClientID: id, RedirectURI: "https://client.example/cb", Subject: "alice", Scope: "openid", Session: reference}
		code, err := k.Issuer.Codes().Issue(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if tokens[id], err = k.Issuer.Exchange(t.Context(), &c, issuer.CodeRequest{Code: code.Code, RedirectURI: a.RedirectURI}); err != nil {
			t.Fatal(err)
		}
	}
	name := grant.SessionName(reference)
	x := explainer(k.Issuer, k.Engine)
	x.Config.Audit.Directory = config.AuditOff
	say := func(a explain.Input) (text string, program map[string]any) {
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
	sid := explain.Parse(openid.SessionID(reference, "billing"))
	sid.Subject = "alice"
	for question, a := range map[string]explain.Input{"a session's name": named, "an id_token": explain.Parse(tokens["billing"].IDToken), "a client's sid": sid} {
		text, program := say(a)
		grants, _ := of(program)["grants"].([]any)
		if program["kind"] != "session" || len(grants) != 2 || !strings.Contains(text, tokens["shop"].GrantID.String()) || !strings.Contains(text, tokens["billing"].GrantID.String()) {
			t.Errorf("%s: %s%v", question, text, program)
		}
		if strings.Contains(text, tokens["billing"].IDToken) {
			t.Errorf("%s: the id_token is printed", question)
		}
	}
	// Without a subject, an unknown session is not reported as ended, because an ended
	// session still has grants.
	named.Subject = ""
	if text, program := say(named); of(program)["state"] != "unknown" || strings.Contains(text, "shop") || !strings.Contains(text, "no subject is given") {
		t.Errorf("without a subject:\n%s", text)
	}
	named.Subject = "bob"
	if text, program := say(named); of(program)["state"] != "unknown" || !strings.Contains(text, "--subject") {
		t.Errorf("of nobody: %s%v", text, program)
	}
}

// A session with a document has still ended if its user's record has a later epoch, its
// subject was cut off, or the store was restored since.
func TestASessionEndsWithTheEpochOfItsUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  string
		change func(k *testkit.Kit, u account.User)
	}{
		"as it was": {"active", func(*testkit.Kit, account.User) {}},
		"a new password": {"ended", func(k *testkit.Kit, u account.User) {
			u, err := u.SetPassword("battery staple", k.At())
			if err == nil {
				err = account.Put(t.Context(), k.Engine, u, store.Change{})
			}
			if err != nil {
				t.Error(err)
			}
		}},
		"a disabled user": {"ended", func(k *testkit.Kit, u account.User) {
			if err := account.Put(t.Context(), k.Engine, u.Disable(k.At()), store.Change{}); err != nil {
				t.Error(err)
			}
		}},
		"a cutoff": {"ended", func(k *testkit.Kit, _ account.User) {
			k.CutOff(store.Cutoff{Realm: testkit.Realm, Subject: "alice", At: k.At()})
		}},
		"expired": {"expired", func(k *testkit.Kit, _ account.User) { k.Clock.Advance(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			now := k.At()
			u := account.User{Realm: testkit.Realm, Username: "alice", Subject: "alice", State: account.Enabled, CreatedAt: now, UpdatedAt: now, Epoch: 3, Version: 1}
			reference := [16]byte{7}
			body, err := json.Marshal(login.Session{Began: now, Identity: login.Identity{Subject: "alice", Username: "alice", Epoch: 3, AuthTime: now, Reference: hex.EncodeToString(reference[:])}})
			if err != nil {
				t.Fatal(err)
			}
			session := store.Document{
				Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, testkit.Realm, "a session"), Version: 1, ExpiresAt: now.Add(time.Hour),
				Owner: store.OwnerOf(testkit.Realm, "alice"), Body: body,
			}
			if err := account.Put(t.Context(), k.Engine, u, store.Change{Documents: []store.Document{session}}); err != nil {
				t.Fatal(err)
			}
			if u, err = account.Find(t.Context(), k.Engine, testkit.Realm, "alice"); err != nil {
				t.Fatal(err)
			}
			k.Clock.Advance(time.Second)
			c.change(k, u)
			in := explain.Parse(grant.SessionName(reference))
			in.Subject = "alice"
			v, err := explainer(k.Issuer, k.Engine).Explain(t.Context(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(v)
			if want := `"state":"` + c.state + `"`; err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s is missing in %s, %v", want, text, err)
			}
		})
	}
}

// An answerer plays the clients' servers, and responds with a status by host.
type answerer map[string]int

func (a answerer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a[r.URL.Host], Body: http.NoBody}, nil
}

// An ended session shows which of its clients were notified, which refuse the logout, and
// which will be notified again.
func TestASessionShowsWhichClientsWereNotifiedOfItsEnd(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, func(s *testkit.Setup) {
		s.ID, s.IDTokenLifetime, s.Schedule.Algorithms = "https://auth.example/oauth2/api", 5*time.Minute, []keys.Purpose{keys.ES256}
	})
	reference := [16]byte{7}
	answers := answerer{"good.example": 204, "strict.example": 400, "dead.example": 503}
	for host := range answers {
		id := strings.TrimSuffix(host, ".example")
		c, _ := k.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{"https://" + host + "/cb"}, LogoutURI: "https://" + host + "/logout", Scope: "openid", Auth: store.AuthEither, NoPKCE: true, IDTokenAlg: keys.ES256}})
		code, err := k.Issuer.Codes().Issue(t.Context(), issuer.Authorization{ClientID: id, RedirectURI: c.RedirectURIs[0], Subject: "alice", Scope: "openid", Session: reference})
		if err == nil {
			_, err = k.Issuer.Exchange(t.Context(), &c, issuer.CodeRequest{Code: code.Code, RedirectURI: c.RedirectURIs[0]})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	end := logout.EndOfSession(testkit.Realm, issuer.SessionEnd{Subject: "alice", Reference: reference}, k.At())
	if err := k.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{end}}); err != nil {
		t.Fatal(err)
	}
	x := explainer(k.Issuer, k.Engine)
	x.Config.Audit.Directory = config.AuditOff
	in := explain.Parse(grant.SessionName(reference))
	in.Subject = "alice"
	say := func(want ...string) *explain.Explained {
		t.Helper()
		v, err := x.Explain(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := v.Print(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, b.String())
			}
		}
		return v
	}
	other := logout.EndOfSession(testkit.Realm, issuer.SessionEnd{Subject: "alice", Reference: [16]byte{8}}, k.At()-1000)
	before := logout.EndOfAll(testkit.Realm, "alice", k.At()-1000)
	if err := k.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{other, before}}); err != nil {
		t.Fatal(err)
	}
	say("clients are looked for within seconds")
	o := logout.New(logout.Config{Realm: testkit.Realm, Store: k.Engine, Directory: k.Issuer.Directory, Now: k.Clock.Now, ClockFault: k.Issuer.Directory.ClockFault, Alone: true, Transport: answers, Log: k.Issuer.Log, Monotonic: k.Clock.Now})
	o.Use(k.Issuer)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	o.Await(ctx, issuer.SessionEnd{Subject: "alice", Reference: reference}, k.At())
	stop()
	running.Wait()
	v := say("good delivered 1 answered 204", "strict refused 1 answered 400", "dead pending 1 answered 503 in 1 s, or with the client's next logout")
	text, err := json.Marshal(v)
	var program struct {
		Session struct {
			Logouts []struct {
				Client string    `json:"client_id"`
				State  string    `json:"state"`
				Next   time.Time `json:"next_attempt_at"`
			} `json:"logouts"`
		} `json:"session"`
	}
	if err == nil {
		err = json.Unmarshal(text, &program)
	}
	if err != nil || len(program.Session.Logouts) != len(answers) {
		t.Fatalf("logouts of other sessions, or none: %s, %v", text, err)
	}
	for _, l := range program.Session.Logouts {
		if (l.State == "pending") != (l.Client == "dead") || l.Next.IsZero() == (l.Client == "dead") {
			t.Errorf("%+v", l)
		}
	}
}
