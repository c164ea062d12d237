package doctor

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const idp = "https://idp.example"

// A trust that can accept no assertion is reported, and no other one.
func TestDoctorJudgesTrusts(t *testing.T) {
	t.Parallel()
	const orders, gone, agent = "https://orders.example", "https://gone.example", "https://agent.example/client.json"
	for name, tt := range map[string]struct {
		change      func(*store.Trust, *Deployment)
		level, want string
	}{
		"good":                  {func(*store.Trust, *Deployment) {}, levelOK, "1 trust, each with its client and its APIs"},
		"deleted":               {func(t *store.Trust, _ *Deployment) { t.Deleted, t.ClientID = true, "nobody" }, levelOK, "0 trusts"},
		"another way to write":  {func(t *store.Trust, _ *Deployment) { t.APIs = []string{"https://Orders.example/"} }, levelOK, "1 trust"},
		"disabled":              {func(t *store.Trust, _ *Deployment) { t.Disabled, t.ClientID = true, "nobody" }, levelNote, "is disabled"},
		"disabled at a restore": {func(t *store.Trust, p *Deployment) { t.Disabled, t.UpdatedAt = true, p.Now.Add(-time.Minute) }, levelWarning, "was disabled at a restore"},
		"long after a restore":  {func(t *store.Trust, p *Deployment) { t.Disabled, t.UpdatedAt = true, p.Now.Add(2*time.Hour) }, levelNote, "is disabled"},
		"no client":             {func(t *store.Trust, _ *Deployment) { t.ClientID = "nobody" }, levelWarning, "the client does not exist"},
		"disabled client":       {func(_ *store.Trust, p *Deployment) { p.Changes.Clients[0].State = store.ClientDisabled }, levelWarning, "the client is disabled"},
		"deleted client":        {func(_ *store.Trust, p *Deployment) { p.Changes.Clients[0].State = store.ClientDeleted }, levelWarning, "the client is deleted"},
		"public client":         {func(_ *store.Trust, p *Deployment) { p.Changes.Clients[0].Auth = store.AuthNone }, levelWarning, "the client is public"},
		"a public workload": {func(t *store.Trust, p *Deployment) {
			p.Changes.Clients[0].Auth, t.Kind = store.AuthNone, store.TrustWorkload
		}, levelOK, "1 trust"},
		"no API":         {func(t *store.Trust, _ *Deployment) { t.APIs = []string{gone} }, levelWarning, "names the API " + gone + ", which does not exist"},
		"no scope":       {func(t *store.Trust, _ *Deployment) { t.APIs = []string{orders + " a b"} }, levelWarning, `names the scope "b"`},
		"not the client": {func(_ *store.Trust, p *Deployment) { p.Changes.Clients[0].APIs = []string{gone} }, levelWarning, "which its client is not allowed"},
		"this server":    {func(t *store.Trust, p *Deployment) { t.Issuer = p.Config.IssuerID() }, levelFault, "is in this server"},
		"no upstream":    {func(t *store.Trust, _ *Deployment) { t.SubjectFrom = store.SubjectUpstream }, levelWarning, "users do not sign in there"},
		"another upstream": {func(t *store.Trust, p *Deployment) {
			t.SubjectFrom, p.Config.Login = store.SubjectUpstream, config.Login{Mode: config.LoginUpstream, Upstream: config.Upstream{Issuer: idp + "/"}}
		}, levelWarning, "users do not sign in there"},
		"upstream": {func(t *store.Trust, p *Deployment) {
			t.SubjectFrom, p.Config.Login = store.SubjectUpstream, config.Login{Mode: config.LoginUpstream, Upstream: config.Upstream{Issuer: idp}}
		}, levelOK, "1 trust"},
		"an agent": {func(t *store.Trust, p *Deployment) {
			t.ClientID, p.Config.ClientMetadata.Documents, p.Changes.APIs[1].Open = agent, []string{"agent.example"}, true
		}, levelOK, "1 trust"},
		"a closed API": {func(t *store.Trust, p *Deployment) {
			t.ClientID, p.Config.ClientMetadata.Documents = agent, []string{"agent.example"}
		}, levelWarning, "which is closed to clients that describe themselves"},
		"no documents": {func(t *store.Trust, p *Deployment) { t.ClientID, p.Changes.APIs[1].Open = agent, true }, levelWarning, "no such client is admitted"},
	} {
		p := &Deployment{Config: healthyConfig(t.TempDir()), Now: grant.At(time.Now())}
		trust := store.Trust{ID: "0000000000000001", Issuer: idp, Kind: store.TrustIDJAG, ClientID: "agent", APIs: []string{orders + " a"}}
		p.Changes = store.Changes{
			Clients:  []store.Client{{ID: "agent", State: store.ClientEnabled, Settings: store.Settings{Auth: store.AuthEither, APIs: []string{orders}}}},
			APIs:     []store.API{{ID: gone, Version: 2, Deleted: true}, {ID: orders, Version: 1, Scopes: []store.APIScope{{Name: "a"}}}},
			Restores: []grant.Restore{{At: p.Now}},
		}
		tt.change(&trust, p)
		p.Changes.Trusts = []store.Trust{trust}
		found := checkTrusts(t.Context(), p)
		if text := fmt.Sprint(found); !strings.Contains(text, tt.want) || found[0].Level != tt.level || (found[0].Advice == "") != (tt.level == levelOK || tt.level == levelNote) {
			t.Errorf("%s: %s, want %s %q", name, text, tt.level, tt.want)
		}
		if advised := strings.Contains(found[0].Advice, "client enable"); advised != (name == "disabled client") {
			t.Errorf("%s: the advice is %q", name, found[0].Advice)
		}
	}
}

// The keys of each issuer are fetched once, as the server fetches them.
func TestDoctorFetchesTheKeysOfIssuers(t *testing.T) {
	t.Parallel()
	asked := map[string]int{}
	var issuer *httptest.Server
	issuer = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer.URL, issuer.URL+"/keys")
		case "/keys":
			fmt.Fprint(w, `{"keys":[{"kty":"EC","kid":"k","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	issuer.Config.ErrorLog = log.New(io.Discard, "", 0)
	issuer.StartTLS()
	t.Cleanup(issuer.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}))
	good := []store.Trust{
		{ID: "1", Issuer: issuer.URL, KeysCA: ca}, {ID: "2", Issuer: issuer.URL, KeysCA: ca}, {ID: "3", Issuer: idp, KeysURI: issuer.URL + "/keys", KeysCA: ca},
		{ID: "4", Issuer: idp, Keys: []byte(`{}`)}, {ID: "5", Issuer: idp, Disabled: true}, {ID: "6", Issuer: idp, Deleted: true},
	}
	p := &Deployment{Changes: store.Changes{Trusts: good}}
	if text := fmt.Sprint(checkIssuerKeys(t.Context(), p)); !strings.Contains(text, "ok 2 key sets of issuers fetched") {
		t.Error(text)
	}
	if asked["/.well-known/openid-configuration"] != 1 || asked["/keys"] != 2 {
		t.Errorf("fetched %v", asked)
	}
	p.Changes.Trusts = append(good, store.Trust{ID: "7", Issuer: idp, KeysURI: issuer.URL + "/none", KeysCA: ca}, store.Trust{ID: "8", Issuer: issuer.URL + "/other", KeysCA: ca})
	found := checkIssuerKeys(t.Context(), p)
	if len(found) != 2 || found[0].Level != levelFault || !strings.Contains(found[0].Text, "/none") || !strings.Contains(found[1].Text, "/other") || found[0].Advice == "" {
		t.Errorf("%+v", found)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found := checkIssuerKeys(ended, p); found[len(found)-1].Level != levelUnknown {
		t.Errorf("%+v", found)
	}
}
