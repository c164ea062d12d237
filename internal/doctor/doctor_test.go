package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
)

// Each check finds its fault, and finds nothing in a healthy deployment.
func TestEachCheckFindsItsFaultAndNothingElse(t *testing.T) {
	t.Parallel()
	use := func(t *testing.T, p *Deployment, secret string, age time.Duration) {
		must(t, p.Store.NoteSecretUses(t.Context(), map[string]grant.Instant{secret: p.Now.Add(-age)}))
		for i := range p.Changes.Clients {
			c, err := p.Store.Client(t.Context(), p.Changes.Clients[i].ID)
			must(t, err)
			p.Changes.Clients[i] = c
		}
	}
	second := func(t *testing.T, p *Deployment, age time.Duration) {
		p.change(t, func(c *store.Client) {
			p.old(age)(c)
			c.Secrets = append(c.Secrets, store.Secret{ID: "newer", Digest: []byte("x"), CreatedAt: p.Now})
		})
	}
	for _, c := range []struct {
		check, name string
		harm        func(t *testing.T, p *Deployment)
		level, text string
	}{
		{"configuration", "public_url is missing", func(_ *testing.T, p *Deployment) { p.Config.PublicURL = "" }, levelFault, "public_url: missing"},
		{"configuration", "secrets in URLs", func(_ *testing.T, p *Deployment) { p.Config.Compat.QueryParameters = true }, levelWarning, "secrets in URLs"},
		{"configuration", "other lifetimes", func(_ *testing.T, p *Deployment) { p.Config.GrantLifetime = config.Duration(day) }, levelNote, "departure"},

		{"files", "no data directory", func(_ *testing.T, p *Deployment) { p.Config.Data += "/absent" }, levelFault, "data directory"},
		{"files", "others may write", func(t *testing.T, p *Deployment) { must(t, os.Chmod(p.Config.Data, 0o770)) }, levelFault, "can write to the data directory"},
		{"files", "others may look", func(t *testing.T, p *Deployment) { must(t, os.Chmod(p.Config.Data, 0o755)) }, levelWarning, "can read the data directory"},
		{"files", "the key is for everybody", func(t *testing.T, p *Deployment) { must(t, os.Chmod(p.KEKFile, 0o644)) }, levelFault, "everybody on this machine"},
		{"files", "a group may change the key", func(t *testing.T, p *Deployment) { must(t, os.Chmod(p.KEKFile, 0o660)) }, levelWarning, "more than the server"},
		{"files", "the store is for everybody", func(t *testing.T, p *Deployment) {
			must(t, os.Chmod(p.StoreFile, 0o644))
		}, levelWarning, "everybody on this machine"},
		{"files", "the key cannot be seen", func(_ *testing.T, p *Deployment) { p.KEKFile += ".absent" }, levelUnknown, "no such file"},

		{"certificate", "expires soon", func(t *testing.T, p *Deployment) {
			p.Config.TLS.Cert, p.Config.TLS.Key, _ = certify(t, "auth.example.com", 20*day)
		}, levelWarning, "expires on"},
		{"certificate", "has expired", func(t *testing.T, p *Deployment) {
			p.Config.TLS.Cert, p.Config.TLS.Key, _ = certify(t, "auth.example.com", -hour)
		}, levelFault, "expired on"},
		{"certificate", "is for another name", func(t *testing.T, p *Deployment) {
			p.Config.TLS.Cert, p.Config.TLS.Key, _ = certify(t, "other.example.com", 60*day)
		}, levelWarning, "not for the host"},
		{"certificate", "the key is another one's", func(t *testing.T, p *Deployment) { _, p.Config.TLS.Key, _ = certify(t, "auth.example.com", 60*day) }, levelFault, "private key does not match"},
		{"certificate", "there is none", func(_ *testing.T, p *Deployment) { p.Config.TLS = config.TLS{} }, levelNote, "TLS ends at a proxy"},

		{"listeners", "management for everybody", func(_ *testing.T, p *Deployment) { p.Config.Management.Listen = "0.0.0.0:9000" }, levelWarning, "management listener"},
		{"listeners", "profiles for everybody", func(_ *testing.T, p *Deployment) {
			p.Config.Management = config.Management{Listen: ":9000", Pprof: true}
		}, levelFault, "Go's profiles"},
		{"listeners", "admin API for everybody", func(_ *testing.T, p *Deployment) { p.Config.Admin.Listen = "192.0.2.1:8444" }, levelWarning, "admin API"},
		{"listeners", "admin socket for everybody", func(t *testing.T, p *Deployment) {
			must(t, os.WriteFile(filepath.Join(p.Config.Data, "admin.sock"), nil, 0o600))
			must(t, os.Chmod(filepath.Join(p.Config.Data, "admin.sock"), 0o666))
		}, levelFault, "admin socket"},

		{"database", "does not open", func(_ *testing.T, p *Deployment) { p.Store, p.Embedded, p.StoreErr = nil, nil, os.ErrPermission }, levelFault, "does not open"},
		{"database", "does not open, with a line for each host", func(_ *testing.T, p *Deployment) {
			p.Store, p.Embedded, p.StoreErr = nil, nil, errors.New("connect:\n\tdb1: refused\n\tdb2: refused")
		}, levelFault, "connect: db1: refused; db2: refused"},
		{"database", "takes no write", func(t *testing.T, p *Deployment) { must(t, p.Store.Close()) }, levelFault, "takes no write"},

		{"issuer", "another one", func(_ *testing.T, p *Deployment) { p.Config.BasePath = "/openam" }, levelFault, "the issuer was https://auth.example.com/oauth2/api and is https://auth.example.com/openam/oauth2/api"},
		{"issuer", "none is configured", func(_ *testing.T, p *Deployment) { p.Config.PublicURL = "" }, levelUnknown, "no issuer is configured"},

		{"keys", "another key-encryption key", func(t *testing.T, p *Deployment) {
			var err error
			p.KEK, err = keys.ParseKEK(keys.NewKEKText())
			must(t, err)
		}, levelFault, "wrong key-encryption key"},
		{"keys", "no key-encryption key", func(_ *testing.T, p *Deployment) {
			p.KEK, p.KEKErr = nil, errors.New("the key-encryption key is missing")
		}, levelUnknown, "key-encryption key is missing"},
		{"keys", "a key-encryption key that a server may have", func(_ *testing.T, p *Deployment) {
			p.KEK, p.KEKErr = nil, fmt.Errorf("it is missing: %w", fs.ErrNotExist)
			p.Admin = func(context.Context, string, string, any) error { return nil }
		}, levelUnknown, "it is missing"},
		{"keys", "a key-encryption key that nobody has", func(_ *testing.T, p *Deployment) {
			p.KEK, p.KEKErr = nil, fmt.Errorf("it is missing: %w", fs.ErrNotExist)
			p.Admin = func(context.Context, string, string, any) error { return errors.New("no server answers") }
		}, levelFault, "it is missing"},
		{"keys", "a follower was not made", func(_ *testing.T, p *Deployment) { p.Now = p.Now.Add(84 * day) }, levelFault, "a successor of the mac key is due"},
		{"keys", "made in the future", func(_ *testing.T, p *Deployment) { p.Now = p.Now.Add(-hour) }, levelWarning, "was made in the future"},
		{"keys", "there are none", func(_ *testing.T, p *Deployment) { p.Changes.Keys = nil }, levelFault, "has no keys yet"},

		{"backup", "none", func(t *testing.T, p *Deployment) { must(t, os.RemoveAll(p.Config.AuditDirectory())) }, levelWarning, "no backup is on record"},
		{"backup", "an old one", func(_ *testing.T, p *Deployment) { p.Now = p.Now.Add(3 * day) }, levelWarning, "the last backup is 3 days old"},
		{"backup", "one that lacks keys", func(_ *testing.T, p *Deployment) { p.Now = p.Now.Add(8 * day) }, levelWarning, "older than key_lead (7d)"},
		{"backup", "none, with PostgreSQL", func(t *testing.T, p *Deployment) {
			must(t, os.RemoveAll(p.Config.AuditDirectory()))
			p.Config.Store = "postgres://mintage@db/mintage"
		}, levelNote, "database's own tools"},

		{"clients", "without PKCE", func(t *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) { c.NoPKCE = true })
		}, levelNote, "does not need PKCE"},
		{"clients", "a plain redirect", func(t *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) { c.RedirectURIs = []string{"http://127.0.0.1/cb", "http://shop.example/cb"} })
		}, levelWarning, "has the redirect URI http://shop.example/cb"},
		{"clients", "a wide window", func(t *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) { wide := store.Milliseconds(180_000); c.RetryWindow = &wide })
		}, levelWarning, "a retry window of 3m"},
		{"clients", "agents without an API", func(_ *testing.T, p *Deployment) {
			p.Config.ClientMetadata.Documents = []string{config.DocumentsAny}
			p.Changes.APIs = []store.API{{ID: "https://a.example"}, {ID: "https://b.example", Open: true, Deleted: true}}
		}, levelWarning, "no API is open to them"},
		{"clients", "agents with an API", func(_ *testing.T, p *Deployment) {
			p.Config.ClientMetadata.Documents = []string{"agent.example"}
			p.Changes.APIs = []store.API{{ID: "https://a.example", Open: true}}
		}, levelNote, "documents (agent.example), for 1 API"},
		{"clients", "registration without an API", func(_ *testing.T, p *Deployment) {
			p.Config.ClientMetadata.Registration = true
		}, levelWarning, "register themselves, without an initial access token, and no API is open to them"},
		{"clients", "registration with an API", func(_ *testing.T, p *Deployment) {
			p.Config.ClientMetadata.Registration, p.Config.ClientMetadata.RegistrationTokenFile = true, "token"
			p.Changes.APIs = []store.API{{ID: "https://a.example", Open: true}}
		}, levelNote, "register themselves, with the initial access token, for 1 API"},
		{"files", "a registration token for everybody", func(t *testing.T, p *Deployment) {
			p.Config.ClientMetadata.RegistrationTokenFile = filepath.Join(p.Config.Data, "registration")
			must(t, os.WriteFile(p.Config.ClientMetadata.RegistrationTokenFile, []byte("x"), 0o644))
			must(t, os.Chmod(p.Config.ClientMetadata.RegistrationTokenFile, 0o644))
		}, levelFault, "everybody on this machine can read or change"},
		{"clients", "a setting that weakens it", func(t *testing.T, p *Deployment) {
			p.followFAPI(t)
			p.Config.Compat.QueryParameters = true
		}, levelWarning, "compat.query_parameters contradicts it"},
		{"clients", "one without the profile that all must follow", func(_ *testing.T, p *Deployment) {
			p.Config.Authorization.Profile = config.ProfileFAPI2
		}, levelFault, "without the profile that authorization.profile demands"},
		{"clients", "one without it that a trust gives tokens", func(t *testing.T, p *Deployment) {
			p.Config.Authorization.Profile = config.ProfileFAPI2
			p.change(t, func(c *store.Client) { c.GrantTypes = nil })
			p.Changes.Trusts = []store.Trust{{ID: "0000000000000001", Issuer: "https://cluster.example", Kind: store.TrustWorkload, ClientID: "shop"}}
		}, levelFault, "without the profile that authorization.profile demands"},
		{"clients", "no rotation", func(t *testing.T, p *Deployment) { p.change(t, func(c *store.Client) { c.NoRotation = true }) }, levelWarning, "rotation off"},
		{"clients", "one that trusts any owner", func(_ *testing.T, p *Deployment) {
			p.Changes.Clients = append(p.Changes.Clients, store.Client{ID: "ci", State: store.ClientEnabled, Settings: store.Settings{Name: "CI", Auth: store.AuthFederated, Assertion: store.AssertionRule{Issuer: "https://ci.example", Subject: "repo:*/*:*"}}})
		}, levelFault, "any owner"},
		{"clients", "one that trusts our own tokens", func(_ *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) {
				c.Auth, c.Secrets, c.Assertion = store.AuthFederated, nil, store.AssertionRule{Issuer: p.Config.IssuerID(), Subject: "alice"}
			})
		}, levelFault, "trusts this server's own tokens"},
		{"secrets", "expired", func(t *testing.T, p *Deployment) {
			second(t, p, day)
			p.change(t, func(c *store.Client) { c.Secrets[0].ExpiresAt = p.Now.Add(-hour) })
		}, levelWarning, "expired 60 min ago; safe to delete: never used"},
		{"secrets", "expires soon, and is in use", func(t *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) { c.Secrets[0].ExpiresAt = p.Now.Add(3 * day) })
		}, levelWarning, "expires in 3 days; not safe to delete: it is the client's only secret"},
		{"secrets", "expires soon, and the other one is not used", func(t *testing.T, p *Deployment) {
			second(t, p, 60*day)
			p.change(t, func(c *store.Client) { c.Secrets[0].ExpiresAt = p.Now.Add(3 * day) })
			use(t, p, p.Changes.Clients[0].Secrets[0].ID, 2*hour)
		}, levelWarning, "not safe to delete: it was used 2h0m"},
		{"secrets", "all have expired", func(t *testing.T, p *Deployment) {
			p.change(t, func(c *store.Client) { c.Secrets[0].ExpiresAt = p.Now.Add(-hour) })
		}, levelFault, "has no secret that is in force"},

		{"console", "for nobody", func(_ *testing.T, p *Deployment) { p.Config.Console.Listen = "127.0.0.1:8445" }, levelWarning, "the console has no operator"},
		{"console", "by invitation alone", func(t *testing.T, p *Deployment) {
			p.Config.Console.Listen, p.Config.Login.Mode, p.Config.Login.HandoffURL = "127.0.0.1:8445", config.LoginHandoff, "https://login.example/"
			must(t, operator.Add(t.Context(), p.Store, operator.Operator{Name: "alice", Role: operator.Admin}))
		}, levelNote, "by invitation alone"},

		{"demo client", "enabled", func(_ *testing.T, p *Deployment) {
			p.Demo = Demo{File: "dev.json", ClientID: "shop"}
		}, levelFault, "the demo client shop of --dev is enabled"},
		{"demo client", "perhaps enabled", func(_ *testing.T, p *Deployment) { p.Demo = Demo{File: "dev.json", Err: io.ErrUnexpectedEOF} }, levelUnknown, "dev.json"},

		{"audit log", "off", func(_ *testing.T, p *Deployment) { p.Config.Audit.Directory = config.AuditOff }, levelWarning, "switched off"},
		{"audit log", "absent", func(t *testing.T, p *Deployment) { must(t, os.RemoveAll(p.Config.AuditDirectory())) }, levelWarning, "no audit log"},
		{"audit log", "changed", func(t *testing.T, p *Deployment) {
			path := lastOf(t, p)
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "audit_segment", "audit_segmenu", 1)), 0o600))
		}, levelFault, "the audit log is broken"},
		{"audit log", "for everybody", func(t *testing.T, p *Deployment) { must(t, os.Chmod(p.Config.AuditDirectory(), 0o755)) }, levelWarning, "can look into the audit log"},

		{"clock", "not synchronised", func(_ *testing.T, p *Deployment) { p.kernelClock = func() (bool, bool) { return false, true } }, levelWarning, "not synchronised"},
		{"clock", "nobody knows", func(_ *testing.T, p *Deployment) { p.kernelClock = func() (bool, bool) { return false, false } }, levelNote, "does not report"},
		{"clock", "the public address has another time", func(_ *testing.T, p *Deployment) {
			p.seen = &publicAnswer{date: p.Now.Time().Add(-10 * time.Second), at: p.Now.Time()}
		}, levelWarning, "differs from this one by -10s"},
	} {
		t.Run(c.check+", "+c.name, func(t *testing.T) {
			t.Parallel()
			p := healthy(t)
			i := slices.IndexFunc(checkups, func(x checkup) bool { return x.name == c.check })
			if i < 0 {
				t.Fatalf("there is no check %s", c.check)
			}
			for _, f := range p.check(t.Context(), checkups[i]) {
				if f.Level != levelOK && f.Level != levelNote {
					t.Errorf("before: %+v", f)
				}
			}
			c.harm(t, p)
			found := p.check(t.Context(), checkups[i])
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Level == c.level && strings.Contains(f.Text, c.text) }) {
				t.Errorf("not found: %s %q in %+v", c.level, c.text, found)
			}
			for _, f := range found {
				if f.Level == levelOK && c.level != levelNote {
					t.Errorf("the check also reports ok: %+v", f)
				}
				if f.Level != levelOK && f.Level != levelNote && f.Advice == "" {
					t.Errorf("the finding has no advice: %+v", f)
				}
			}
		})
	}
}

// Clients of a realm that is not in the configuration, such as a removed one or one that
// another node already has, belong to no configured realm.
func TestClientsOfOtherRealmsAreNotExamined(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	other := p.Changes.Clients[0].Clone()
	other.ID, other.Realm, other.NoPKCE, other.State = "theirs", "/staff", true, store.ClientEnabled
	p.Changes.Clients = append(p.Changes.Clients, other)
	for _, f := range p.Examine(t.Context(), true, func(Finding) {}) {
		if strings.Contains(f.Text, "theirs") || strings.Contains(f.Text, "2 enabled") {
			t.Errorf("%+v", f)
		}
	}
}

// It is no fault of the deployment that a user other than the server's has no access.
func TestAnotherUserMayNotLook(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	p.Store, p.Embedded, p.StoreErr, p.Server = nil, nil, fmt.Errorf("open store: %w", fs.ErrPermission), "mintage"
	if f := checkDatabase(t.Context(), p); len(f) != 1 || f[0].Level != levelUnknown || !strings.Contains(f[0].Advice, "sudo -u mintage") {
		t.Errorf("%+v", f)
	}
	p.StoreErr = errors.New("damaged")
	if f := checkDatabase(t.Context(), p); len(f) != 1 || f[0].Level != levelFault {
		t.Errorf("another fault is hidden: %+v", f)
	}
}

// A key file that the server's own group may read, such as root:mintage 0640, is correct.
func TestTheServersOwnGroupMayReadTheKey(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	must(t, os.Chmod(p.KEKFile, 0o640))
	if f := checkFiles(t.Context(), p); len(f) != 1 || f[0].Level != levelOK {
		t.Errorf("%+v", f)
	}
}

// A public client must use PKCE whatever its registration says.
func TestAPublicClientIsNotReportedForPKCE(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	p.change(t, func(c *store.Client) { c.Auth, c.NoPKCE, c.Secrets = store.AuthNone, true, nil })
	for _, f := range checkClients(t.Context(), p) {
		if strings.Contains(f.Text, "PKCE") {
			t.Errorf("%+v", f)
		}
	}
}

// A secret is reported from thirty days before its end, and not earlier.
func TestASecretIsReportedThirtyDaysBeforeItsEnd(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	for left, level := range map[time.Duration]string{30*day - time.Second: levelWarning, 30*day + time.Second: levelOK} {
		p.change(t, func(c *store.Client) { c.Secrets[0].ExpiresAt = p.Now.Add(left) })
		if f := checkSecrets(t.Context(), p); len(f) != 1 || f[0].Level != level {
			t.Errorf("%s before its end: %+v, want %s", left, f, level)
		}
	}
}

func lastOf(t *testing.T, p *Deployment) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Config.AuditDirectory(), "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no audit log: %v", err)
	}
	return files[len(files)-1]
}

func TestDoctorFindsADamagedStore(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	if f := checkIntegrity(t.Context(), p); len(f) != 1 || f[0].Level != levelOK {
		t.Fatalf("an undamaged store: %+v", f)
	}
	d := store.Document{Kind: store.DocumentConsents, Key: store.DocumentKey{1}, Version: 1, Body: make([]byte, 10<<10)}
	must(t, p.Store.Commit(t.Context(), store.Change{Documents: []store.Document{d}}))
	must(t, p.Store.Close())
	text, err := os.ReadFile(p.StoreFile)
	must(t, err)
	for page := len(text) - 8*1024; page < len(text); page += 1024 {
		copy(text[page:], "\xff\xff\xff\xff") // the number of the overflow page
	}
	must(t, os.WriteFile(p.StoreFile, text, 0o600))
	p.open(t)
	if f := checkIntegrity(t.Context(), p); len(f) != 1 || f[0].Level != levelFault || !strings.Contains(f[0].Text, "damaged") {
		t.Errorf("a damaged one: %+v", f)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f := checkIntegrity(ended, p); len(f) != 1 || f[0].Level != levelUnknown {
		t.Errorf("one that could not be read in time: %+v", f)
	}
}

func TestAHangingCheckIsNotOK(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	p := &Deployment{}
	began := time.Now()
	found := p.check(t.Context(), checkup{name: "hangs", limit: 20 * time.Millisecond, run: func(context.Context, *Deployment) findings {
		<-release
		return findings{{Level: levelOK}}
	}})
	if len(found) != 1 || found[0].Level != levelUnknown || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %+v", time.Since(began), found)
	}
}

// Without a store, the dependent checks are not ok; offline, the omitted checks are
// neither ok nor faults.
func TestWhatCannotBeCheckedIsSaidSo(t *testing.T) {
	t.Parallel()
	p := &Deployment{Config: config.Default(), StoreErr: os.ErrPermission, kernelClock: func() (bool, bool) { return true, true }, Now: grant.At(time.Now())}
	p.Config.Data, p.Config.Management.Listen = t.TempDir(), "127.0.0.1:1"
	level := map[string]string{}
	for _, f := range p.Examine(t.Context(), true, func(Finding) {}) {
		level[f.Check] = f.Level
	}
	for _, c := range checkups {
		want := map[bool]string{true: levelUnknown, false: ""}[c.stored && c.name != "database"]
		if c.network {
			want = levelNote
		}
		if want != "" && level[c.name] != want || level[c.name] == "" {
			t.Errorf("%s: %q, want %q", c.name, level[c.name], want)
		}
	}
	if level["database"] != levelFault || level["server"] != levelUnknown {
		t.Errorf("database %q, server %q", level["database"], level["server"])
	}
}

func TestTheExitStatusIsThatOfTheWorstFinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		levels             []string
		exit               int
		verdict, complaint string
	}{
		{nil, 0, levelOK, ""},
		{[]string{levelOK, levelNote}, 0, levelOK, ""},
		{[]string{levelOK, levelWarning}, 3, levelWarning, "1 warning"},
		{[]string{levelUnknown, levelUnknown}, 3, levelUnknown, "2 checks could not be made"},
		{[]string{levelWarning, levelFault, levelUnknown, levelWarning}, 1, levelFault, "1 fault, 2 warnings, 1 check could not be made"},
	} {
		var found []Finding
		for _, l := range c.levels {
			found = append(found, Finding{Level: l})
		}
		r := Conclude(found)
		if r.Exit != c.exit || r.Verdict != c.verdict || r.Complaint() != c.complaint {
			t.Errorf("%v: exit status %d, verdict %s, %q", c.levels, r.Exit, r.Verdict, r.Complaint())
		}
		if n := r.OK + r.Notes + r.Unknown + r.Warnings + r.Faults; n != len(c.levels) {
			t.Errorf("%v: %d counted", c.levels, n)
		}
	}
}

func TestDoctorJudgesTheAPIsOfClients(t *testing.T) {
	const gone, brief = "https://gone.example", "https://brief.example"
	minutes := func(n int) *store.Milliseconds {
		ms := store.Milliseconds((time.Duration(n) * time.Minute).Milliseconds())
		return &ms
	}
	for _, tt := range []struct {
		api    string
		window int
		want   string
	}{
		{gone, 2, "allowed the API " + gone + ", which does not exist"},
		{brief, 2, "which ends after 1m0s: tokens of the API " + brief},
		{brief, 1, ""},
	} {
		p := &Deployment{Config: config.Default(), Changes: store.Changes{
			Clients: []store.Client{{ID: "shop", State: store.ClientEnabled, Settings: store.Settings{APIs: []string{tt.api + " a"}, RetryWindow: minutes(tt.window)}}},
			APIs:    []store.API{{ID: gone, Version: 2, Deleted: true}, {ID: brief, Version: 1, AccessLifetime: minutes(2)}},
		}}
		text := ""
		for _, f := range checkClients(t.Context(), p) {
			if f.Level == levelWarning {
				text += f.Text + "\n"
			}
		}
		if !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%s with %d minutes: %q", tt.api, tt.window, text)
		}
	}
}

func TestDoctorJudgesTokenExchange(t *testing.T) {
	const orders, gone = "https://orders.example", "https://gone.example"
	for _, tt := range []struct {
		c    store.Settings
		want string
	}{
		{store.Settings{ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders + " a"}, MayAct: "shop"}, ""},
		{store.Settings{ExchangeFrom: []string{"*"}, ExchangeAPIs: []string{orders}}, ""},
		{store.Settings{ExchangeFrom: []string{"shop"}, ExchangeAPIs: []string{gone + " a"}}, "names the API " + gone},
		{store.Settings{ExchangeFrom: []string{"shop"}, ServesAPIs: []string{gone}, ExchangeAPIs: []string{orders}}, "names the API " + gone},
		{store.Settings{ExchangeFrom: []string{"nobody"}, ExchangeAPIs: []string{orders}}, "tokens of the client nobody"},
		{store.Settings{ExchangeFrom: []string{"closed"}, ExchangeAPIs: []string{orders}}, "tokens of the client closed"},
		{store.Settings{MayAct: "closed"}, "only closed may act"},
		{store.Settings{GrantTypes: []string{store.GrantDeviceCode}, Auth: store.AuthBasic}, "golang.org/x/oauth2 does not"},
		{store.Settings{GrantTypes: []string{store.GrantDeviceCode}, Auth: store.AuthEither}, ""},
	} {
		p := &Deployment{Config: config.Default(), Changes: store.Changes{
			Clients: []store.Client{{ID: "gateway", State: store.ClientEnabled, Settings: tt.c}, {ID: "shop", State: store.ClientEnabled}, {ID: "closed", State: store.ClientDisabled}},
			APIs:    []store.API{{ID: gone, Version: 2, Deleted: true}, {ID: orders, Version: 1}},
		}}
		p.Config.Login.Mode = config.LoginUsers
		text := ""
		for _, f := range checkClients(t.Context(), p) {
			if f.Level == levelWarning {
				text += f.Text + "\n"
			}
		}
		if !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%+v: %q, want %q", tt.c, text, tt.want)
		}
	}
}

// A client with a scope of an API, but without that API, gets tokens for itself that the
// API refuses.
func TestDoctorNamesClientsWithTheScopeOfAnAPIAlone(t *testing.T) {
	const orders, deleted = "https://orders.example", "https://deleted.example"
	own := []string{store.GrantClientCredentials}
	for _, tt := range []struct {
		about string
		c     store.Settings
		scope oauth.Scope
		warns bool
	}{
		{"the API's scope", store.Settings{GrantTypes: own}, "read orders", true},
		{"another API beside it", store.Settings{GrantTypes: own, APIs: []string{"https://other.example orders"}}, "orders", true},
		{"with the API", store.Settings{GrantTypes: own, APIs: []string{"https://Orders.example/ orders"}}, "orders", false},
		{"the API is its audience", store.Settings{GrantTypes: own, Audience: []string{orders}}, "orders", false},
		{"a scope of no API", store.Settings{GrantTypes: own}, "read", false},
		{"the scope of a deleted API", store.Settings{GrantTypes: own}, "gone", false},
		{"tokens of users alone", store.Settings{}, "orders", false},
	} {
		c := store.Client{ID: "billing", State: store.ClientEnabled, Settings: tt.c}
		c.Name, c.Scope = "Billing", tt.scope
		p := &Deployment{Config: config.Default(), Changes: store.Changes{Clients: []store.Client{c}, APIs: []store.API{
			{ID: orders, Version: 1, Scopes: []store.APIScope{{Name: "orders"}}},
			{ID: "https://other.example", Version: 1},
			{ID: deleted, Version: 2, Deleted: true, Scopes: []store.APIScope{{Name: "gone"}}},
		}}}
		warned := false
		for _, f := range checkClients(t.Context(), p) {
			if f.Level != levelWarning {
				continue
			}
			warned = true
			if want := `client billing (Billing) has the scope "orders" of the API ` + orders; !strings.HasPrefix(f.Text, want) || f.Advice != "mintage client update ID --add-api API" {
				t.Errorf("%s: %+v", tt.about, f)
			}
		}
		if warned != tt.warns {
			t.Errorf("%s: a warning: %t", tt.about, warned)
		}
	}
}

// TestDoctorAsksNoSecretOfMachineClients: client assertions replace secrets.
func TestDoctorAsksNoSecretOfMachineClients(t *testing.T) {
	t.Parallel()
	for _, rule := range []store.AuthRule{store.AuthPrivateKeyJWT, store.AuthFederated} {
		p := healthy(t)
		p.change(t, func(c *store.Client) {
			c.Auth, c.Secrets, c.Assertion = rule, nil, store.AssertionRule{Issuer: "https://platform.example", Subject: "shop"}
		})
		for _, f := range slices.Concat(checkSecrets(t.Context(), p), checkClients(t.Context(), p)) {
			if f.Level != levelOK && f.Level != levelNote {
				t.Errorf("%s: %+v", rule, f)
			}
		}
	}
}
