package doctor

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// A place is the server at the public address.
type place struct {
	cert, key, ca string
	least, most   uint16 // versions of TLS; 0 means the library's default
	suites        []uint16
	answer        http.HandlerFunc
}

// metadataOf returns the metadata of a server with this configuration.
func metadataOf(p *Deployment) map[string]string {
	return map[string]string{
		"issuer": p.Config.IssuerID(), "token_endpoint": p.endpoint("api/access_token"), "jwks_uri": p.endpoint("api/jwks"),
		"introspection_endpoint": p.endpoint("api/introspect"), "revocation_endpoint": p.endpoint("api/revoke"),
	}
}

// right returns a handler that responds as a server of the deployment would.
func right(p *Deployment) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, ".well-known"):
			json.NewEncoder(w).Encode(metadataOf(p))
		case r.URL.Path == "/oauth2/api/jwks":
			var list []map[string]string
			for _, k := range p.Changes.Keys {
				if k.Purpose.Signs() {
					list = append(list, map[string]string{"kid": k.ID.String()})
				}
			}
			json.NewEncoder(w).Encode(map[string]any{"keys": list})
		default:
			http.NotFound(w, r)
		}
	}
}

// serve starts a server at the public address of p.
func (p *Deployment) serve(t *testing.T, at place) {
	t.Helper()
	s := httptest.NewUnstartedServer(at.answer)
	pair, err := tls.LoadX509KeyPair(at.cert, at.key)
	must(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: at.least, MaxVersion: at.most, CipherSuites: at.suites}
	s.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	p.Connect, p.CAFile = s.Listener.Addr().String(), at.ca
}

func TestThePublicAddressIsLookedAtAsAClientDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		change      func(t *testing.T, p *Deployment, at *place)
		level, text string
	}{
		{"well", func(*testing.T, *Deployment, *place) {}, levelOK, "answers as configured (TLS 1.3"},
		{"another issuer", func(_ *testing.T, p *Deployment, _ *place) { p.Config.Issuer = "https://login.example.com" }, levelWarning, "where clients look that know the issuer"},
		{"a server with another configuration", func(_ *testing.T, p *Deployment, at *place) {
			other := *p
			other.Config.PublicURL = "https://old.example.com"
			at.answer = right(&other)
		}, levelFault, "the issuer there is https://old.example.com/oauth2/api, and here https://auth.example.com/oauth2/api"},
		{"another endpoint", func(_ *testing.T, p *Deployment, at *place) {
			at.answer = func(w http.ResponseWriter, r *http.Request) {
				m := metadataOf(p)
				m["token_endpoint"] = "https://auth.example.com:8443/oauth2/api/access_token"
				json.NewEncoder(w).Encode(m)
			}
		}, levelFault, "token_endpoint there is https://auth.example.com:8443"},
		{"another program", func(_ *testing.T, _ *Deployment, at *place) { at.answer = http.NotFound }, levelFault, "status 404"},
		{"no node that is ready", func(_ *testing.T, _ *Deployment, at *place) {
			at.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		}, levelFault, "no node is ready"},
		{"a page of the proxy", func(_ *testing.T, _ *Deployment, at *place) {
			at.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
		}, levelFault, "is no JSON"},
		{"the well-known locations go elsewhere", func(_ *testing.T, p *Deployment, at *place) {
			at.answer = func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/.well-known/") {
					http.NotFound(w, r)
					return
				}
				right(p)(w, r)
			}
		}, levelWarning, "status 404"},
		{"an authority that nobody knows", func(t *testing.T, _ *Deployment, at *place) { _, _, at.ca = certify(t, "auth.example.com", day) }, levelFault, "signed by an authority that clients do not trust"},
		{"a certificate for another name", func(t *testing.T, _ *Deployment, at *place) {
			at.cert, at.key, at.ca = certify(t, "www.example.com", day)
		}, levelFault, "is for another name"},
		{"an expired certificate", func(t *testing.T, _ *Deployment, at *place) {
			at.cert, at.key, at.ca = certify(t, "auth.example.com", -day)
		}, levelFault, "has expired"},
		{"a certificate that expires soon", func(t *testing.T, _ *Deployment, at *place) {
			at.cert, at.key, at.ca = certify(t, "auth.example.com", 20*day)
		}, levelWarning, "the certificate expires on"},
		{"no TLS 1.3", func(_ *testing.T, _ *Deployment, at *place) { at.most = tls.VersionTLS12 }, levelNote, "does not speak TLS 1.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := healthy(t)
			at := place{answer: right(p)}
			at.cert, at.key, at.ca = certify(t, "auth.example.com", 60*day)
			c.change(t, p, &at)
			p.serve(t, at)
			expect(t, checkPublic(t.Context(), p), c.level, c.text)
		})
	}
	p := healthy(t)
	p.Connect = "127.0.0.1:1"
	expect(t, checkPublic(t.Context(), p), levelFault, "does not answer")
	p.Config.PublicURL = ""
	expect(t, checkPublic(t.Context(), p), levelUnknown, "no public_url")
	p = healthy(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	p.Connect = plain.Listener.Addr().String()
	expect(t, checkPublic(t.Context(), p), levelFault, "")
}

// expect requires exactly one finding of a check, and no ok beside it.
func expect(t *testing.T, found findings, level, text string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Level == level && strings.Contains(f.Text, text) }) {
		t.Errorf("not found: %s %q in %+v", level, text, found)
	}
	for _, f := range found {
		if f.Level == levelOK && level != levelOK && level != levelNote || f.Level != levelOK && f.Level != levelNote && level == levelOK {
			t.Errorf("beside %s %q: %+v", level, text, f)
		}
		if f.Level != levelOK && f.Level != levelNote && f.Advice == "" {
			t.Errorf("the finding has no advice: %+v", f)
		}
	}
}

// Nothing listens at the public address, because the server listens on another port: the
// hint names ways to change that. Behind a proxy, that hint would be wrong.
func TestARefusedConnectionIsExplainedByThePortThatIsServed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close()) // connections to it are refused
	for _, c := range []struct {
		name, listen         string
		proxies              []netip.Prefix
		text, advice, absent string
	}{
		{name: "another port", listen: "127.0.0.1:8443", text: "clients connect to port 443 of public_url, and the server listens on 127.0.0.1:8443", advice: "set listen to the port of public_url"},
		{name: "the same port", listen: "127.0.0.1:443", absent: "set listen"},
		{name: "a proxy", listen: "127.0.0.1:8443", proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, absent: "set listen"},
	} {
		p := healthy(t)
		p.Connect, p.Config.Listen, p.Config.TrustedProxies = l.Addr().String(), c.listen, c.proxies
		found := checkPublic(t.Context(), p)
		expect(t, found, levelFault, c.text)
		if len(found) != 1 || !strings.Contains(found[0].Advice, c.advice) || c.absent != "" && strings.Contains(found[0].Advice, c.absent) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

func TestPublishedKeysMustBeThoseOfTheStore(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	expect(t, checkPublishedKeys(t.Context(), p), levelUnknown, "no metadata")
	at := place{answer: right(p)}
	at.cert, at.key, at.ca = certify(t, "auth.example.com", 60*day)
	p.serve(t, at)
	expect(t, checkPublic(t.Context(), p), levelOK, "")
	expect(t, checkPublishedKeys(t.Context(), p), levelOK, "3 keys, those of this store")

	whole := p.Changes.Keys
	other := healthy(t)
	other.Changes.Keys = slices.Clone(whole)
	for i := range other.Changes.Keys {
		other.Changes.Keys[i].ID++
	}
	other.Connect, other.CAFile, other.seen = p.Connect, p.CAFile, p.seen
	found := checkPublishedKeys(t.Context(), other)
	expect(t, found, levelFault, "of this store is not among the published ones")
	expect(t, found, levelFault, "is published and not in this store")
	p.seen.jwks = "https://auth.example.com/elsewhere"
	expect(t, checkPublishedKeys(t.Context(), p), levelFault, "cannot be fetched")
}

func TestPlainHTTPMustNotServeTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		level, text string
	}{
		{http.StatusPermanentRedirect, levelWarning, "is redirected from http (status 308)"},
		{http.StatusMovedPermanently, levelWarning, "is redirected from http (status 301)"},
		{http.StatusOK, levelFault, "answers over plain HTTP"},
		{http.StatusNotFound, levelOK, "is refused over plain HTTP (status 404)"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/oauth2/access_token" || r.Host != "auth.example.com" {
				t.Errorf("%s %s for %s", r.Method, r.URL, r.Host)
			}
			w.Header().Set("Location", "https://auth.example.com/oauth2/access_token")
			w.WriteHeader(c.status)
		}))
		u, err := url.Parse(s.URL)
		must(t, err)
		p := &Deployment{Config: healthyConfig(""), Connect: u.Hostname() + ":443", plainPort: u.Port()}
		expect(t, checkPlainHTTP(t.Context(), p), c.level, c.text)
		s.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	p := &Deployment{Config: healthyConfig(""), Connect: "127.0.0.1:443", plainPort: port}
	expect(t, checkPlainHTTP(t.Context(), p), levelOK, "no server answers")
}

func TestWhatAProxyMakesOfARequestIsJudged(t *testing.T) {
	t.Parallel()
	arrived := func(change func(*probed)) probed {
		a := probed{
			Arrival: server.Arrival{
				Arrived: 1, Peer: "10.0.0.2", Declared: true, RemoteIP: "10.0.0.9", Secure: true, Protocol: "HTTP/1.1", Method: "POST", Host: "auth.example.com",
				ForwardedFor: 1, ForwardedProto: []string{"https"}, Authorization: true, ContentType: "application/x-www-form-urlencoded", RequestID: "aa",
			},
			local: "10.0.0.9", status: 400, code: oauth.UnsupportedGrantType, noStore: true, requestID: "aa", contentType: "application/json",
		}
		change(&a)
		return a
	}
	for _, c := range []struct {
		name        string
		change      func(*probed)
		level, text string
	}{
		{"well", func(*probed) {}, "", ""},
		{"well, with the port of https", func(a *probed) { a.Host = "auth.example.com:443" }, "", ""},
		{"another port", func(a *probed) { a.Host = "auth.example.com:8443" }, levelWarning, "arrive for the host auth.example.com:8443"},
		{"well, without a proxy", func(a *probed) {
			a.Peer, a.Declared, a.TLS, a.ForwardedFor, a.ForwardedProto = "10.0.0.9", false, true, 0, nil
		}, "", ""},
		{"behind address translation", func(a *probed) { a.RemoteIP = "203.0.113.1" }, levelNote, "is seen as from 203.0.113.1"},
		{"not declared", func(a *probed) { a.Declared, a.Secure, a.RemoteIP = false, false, a.Peer }, levelFault, "which is not in trusted_proxies: every one is refused"},
		{"not declared, over TLS", func(a *probed) { a.Declared, a.RemoteIP = false, a.Peer }, levelFault, "share its limit of failures"},
		{"no X-Forwarded-Proto", func(a *probed) { a.ForwardedProto, a.Secure = nil, false }, levelFault, "does not send X-Forwarded-Proto"},
		{"http in X-Forwarded-Proto", func(a *probed) { a.ForwardedProto, a.Secure = []string{"http"}, false }, levelFault, `arrives as "http"`},
		{"two of them", func(a *probed) { a.ForwardedProto, a.Secure = []string{"https", "https"}, false }, levelFault, "arrives 2 times"},
		{"no X-Forwarded-For", func(a *probed) { a.ForwardedFor, a.RemoteIP = 0, a.Peer }, levelFault, "does not send X-Forwarded-For"},
		{"an inner proxy's own address", func(a *probed) { a.RemoteIP = "10.0.0.3" }, levelFault, "which trusted_proxies names"},
		{"another host", func(a *probed) { a.Host = "10.0.0.5:8443" }, levelWarning, "arrive for the host 10.0.0.5:8443"},
		{"no Authorization", func(a *probed) { a.Authorization = false }, levelFault, "Authorization does not arrive"},
		{"another Content-Type", func(a *probed) { a.ContentType = "text/plain" }, levelFault, `Content-Type arrives as "text/plain"`},
		{"an error page of the proxy", func(a *probed) { a.status, a.code, a.contentType = 502, "", "text/html" }, levelFault, `status 502, type "text/html"`},
		{"a cache in between", func(a *probed) { a.noStore = false }, levelWarning, "without Cache-Control"},
		{"another X-Request-Id", func(a *probed) { a.requestID = "bb" }, levelWarning, "X-Request-Id does not come back"},
	} {
		p := &Deployment{Config: healthyConfig("")}
		p.Config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32"), netip.MustParsePrefix("10.0.0.3/32")}
		var f findings
		f.judgeProbe(p, arrived(c.change))
		if c.level == "" {
			if len(f) > 0 {
				t.Errorf("%s: %+v", c.name, f)
			}
			continue
		}
		expect(t, f, c.level, c.text)
	}
}

func TestTheRunningServerIsAskedHowItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, ready, metrics string
		level, text          string
	}{
		{"well", "ok", "# HELP x\nmintage_sweep_lag_seconds{table=\"grants\"} 60\nmintage_clock_fault 0\nmintage_audit_lost_total 0\n", levelOK, "ready, on"},
		{"not ready", "clock: off\nstore: disk full\n", "", levelFault, "the server is not ready: clock: off; store: disk full"},
		{"the sweep is late", "ok", "mintage_sweep_lag_seconds{table=\"grants\"} 30000\n", levelWarning, "the last complete sweep was 8 h ago"},
		{"a wrong clock", "ok", "mintage_clock_fault 1\n", levelFault, "clock differs"},
		{"keys that are due", "ok", "mintage_keys_due 2\n", levelWarning, "2 keys are due"},
		{"lost records", "ok", "mintage_audit_lost_total 3\n", levelWarning, "3 audit records could not be written"},
		{"records that wait", "ok", "mintage_audit_fault 1\n", levelFault, "cannot write its audit log"},
		{"records without room", "ok", "mintage_audit_left_out_total{reason=\"space\"} 3\n", levelWarning, "3 audit records of everyday events were left out"},
		{"sampled records", "ok", "mintage_audit_left_out_total{reason=\"rate\"} 3\n", levelNote, "3 audit records were left out since the start: one grant"},
		{"lost commits", "ok", "mintage_store_behind_total 7\n", levelFault, "has lost commits: 7 requests"},
		{"lost commits of a realm", "ok", "mintage_store_behind_total{realm=\"/api\"} 0\nmintage_store_behind_total{realm=\"/staff\"} 7\n", levelFault, "has lost commits: 7 requests"},
		{"a certificate that cannot be used", "ok", "mintage_certificate_refused 1\n", levelFault, "an earlier certificate is in service"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/metrics":
				fmt.Fprint(w, c.metrics)
			case c.ready != "ok":
				w.WriteHeader(http.StatusServiceUnavailable)
				fallthrough
			default:
				fmt.Fprintln(w, c.ready)
			}
		}))
		p := &Deployment{Config: healthyConfig("")}
		p.Config.Management.Listen = s.Listener.Addr().String()
		expect(t, checkServer(t.Context(), p), c.level, c.text)
		s.Close()
		expect(t, checkServer(t.Context(), p), levelUnknown, "no server answers")
	}
}

// The counter of a server that has not been restarted keeps its value.
func TestADeclaredRestoreExplainsLostCommits(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "mintage_store_behind_total 7") }))
	defer s.Close()
	p := &Deployment{Config: healthyConfig(""), Now: grant.At(time.Now())}
	p.Config.Management.Listen = s.Listener.Addr().String()
	expect(t, checkServer(t.Context(), p), levelFault, "has lost commits")
	p.Changes.Restores = []grant.Restore{{At: p.Now, Until: p.Now + 1}}
	expect(t, checkServer(t.Context(), p), levelOK, "ready, on")
}

func TestADatabaseServerIsJudgedByItsSettings(t *testing.T) {
	t.Parallel()
	good := func() store.ServerCondition {
		return store.ServerCondition{Live: 1000, Dead: 10, Settings: map[string]string{
			"server_version": "15.8 (Debian)", "synchronous_commit": "on", "synchronous_standby_names": "ANY 1 (b, c)", "fsync": "on", "full_page_writes": "on",
			"transaction_read_only": "off", "autovacuum": "on",
		}}
	}
	var f findings
	f.judgeServer(good())
	f.judgeServer(store.ServerCondition{Live: -1, Dead: -1}) // an engine without these values
	if len(f) > 0 {
		t.Errorf("a correct server: %+v", f)
	}
	for _, c := range []struct {
		change      func(*store.ServerCondition)
		level, text string
	}{
		{func(c *store.ServerCondition) { c.Standby = true }, levelFault, "only reads"},
		{func(c *store.ServerCondition) { c.Settings["transaction_read_only"] = "on" }, levelFault, "only reads"},
		{func(c *store.ServerCondition) { c.Settings["fsync"] = "off" }, levelFault, "fsync is off"},
		{func(c *store.ServerCondition) { c.Settings["full_page_writes"] = "off" }, levelFault, "full_page_writes is off"},
		{func(c *store.ServerCondition) { c.Settings["synchronous_commit"] = "off" }, levelFault, "synchronous_commit is off"},
		{func(c *store.ServerCondition) { c.Settings["synchronous_commit"] = "local" }, levelWarning, "synchronous_commit is local"},
		{func(c *store.ServerCondition) { c.Settings["synchronous_standby_names"] = "" }, levelWarning, "no standby confirms commits"},
		{func(c *store.ServerCondition) { c.Settings["autovacuum"] = "off" }, levelFault, "autovacuum is off"},
		{func(c *store.ServerCondition) { c.Denied = "grants" }, levelFault, "in the tables grants"},
		{func(c *store.ServerCondition) { c.Dead = 200_000 }, levelWarning, "200000 dead rows"},
	} {
		condition := good()
		c.change(&condition)
		var f findings
		f.judgeServer(condition)
		expect(t, f, c.level, c.text)
	}
}

func TestAFileIsJudgedByItsSettingsAndItsDisk(t *testing.T) {
	t.Parallel()
	good := store.FileCondition{JournalMode: "wal", Synchronous: 2, Size: 1 << 20, Free: 10 << 30}
	var f findings
	if f.judgeFile(good); len(f) > 0 {
		t.Errorf("a correct file: %+v", f)
	}
	for _, c := range []struct {
		change      func(*store.FileCondition)
		level, text string
	}{
		{func(c *store.FileCondition) { c.JournalMode = "delete" }, levelFault, "journal_mode is delete"},
		{func(c *store.FileCondition) { c.Synchronous = 1 }, levelFault, "synchronous is 1"},
		{func(c *store.FileCondition) { c.Network = "NFS" }, levelFault, "network file system (NFS)"},
		{func(c *store.FileCondition) { c.Free = 100 << 20 }, levelFault, "the disk has 100.0 MiB left"},
		{func(c *store.FileCondition) { c.Free = 900 << 20 }, levelWarning, "the disk has 900.0 MiB left"},
		{func(c *store.FileCondition) { c.Size = 50 << 30 }, levelWarning, "the store has 50.0 GiB"},
		{func(c *store.FileCondition) { c.WAL = 1 << 30 }, levelWarning, "log of the store has grown to 1.0 GiB"},
	} {
		condition := good
		c.change(&condition)
		var f findings
		f.judgeFile(condition)
		expect(t, f, c.level, c.text)
	}
}

func TestClocksOfNodesThatRunAreCompared(t *testing.T) {
	t.Parallel()
	now := grant.Instant(1_700_000_000_000)
	second := func(n int64) grant.Instant { return now + grant.Instant(n*1000) }
	before := []store.Node{{ID: store.NodeID{1}, Clock: second(-3)}, {ID: store.NodeID{2}, Clock: second(-900)}, {ID: store.NodeID{3}, Clock: second(-33)}, {ID: store.NodeID{4}, Clock: second(27)}}
	after := []store.Node{{ID: store.NodeID{1}, Name: "a", Clock: second(-1)}, {ID: store.NodeID{2}, Name: "ended", Clock: second(-900)},
		{ID: store.NodeID{3}, Name: "behind", Clock: second(-31)}, {ID: store.NodeID{4}, Name: "ahead", Clock: second(29)}}
	var f findings
	if n := f.compareClocks(before, after, now, 2*time.Second); n != 3 || len(f) != 2 {
		t.Errorf("%d compared: %+v", n, f)
	}
	expect(t, f, levelFault, "node behind differs from this machine's by 28 s")
	expect(t, f, levelFault, "node ahead differs from this machine's by 29 s")
}

// followFAPI makes the only client follow the profile.
func (p *Deployment) followFAPI(t *testing.T) {
	p.change(t, func(c *store.Client) { c.Profile, c.NoRotation = store.ProfileFAPI2, true })
}

func TestThePublicAddressOfAProfile(t *testing.T) {
	t.Parallel()
	strict := func(p *Deployment) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
			right(p)(w, r)
		}
	}
	own := server.TLSConfig(nil)
	for _, c := range []struct {
		name        string
		change      func(t *testing.T, p *Deployment, at *place)
		level, text string
	}{
		{"as this server answers", func(_ *testing.T, p *Deployment, _ *place) {}, levelOK, "answers as configured"},
		{"without HSTS", func(_ *testing.T, p *Deployment, at *place) { at.answer = right(p) }, levelFault, "section 5.2.3"},
		{"with weak cipher suites", func(_ *testing.T, _ *Deployment, at *place) { at.suites = nil }, levelFault, "the public address accepts TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: FAPI 2.0 section 5.2.2"},
		{"with TLS 1.1", func(_ *testing.T, _ *Deployment, at *place) { at.least, at.suites = tls.VersionTLS11, nil }, levelFault, "accepts TLS 1.1 or 1.0: FAPI 2.0 section 5.2.1"},
		{"with neither, and no profile", func(t *testing.T, p *Deployment, at *place) {
			p.change(t, func(c *store.Client) { c.Profile = "" })
			at.answer, at.suites = right(p), nil
		}, levelOK, "answers as configured"},
		{"with neither, and a configuration that demands the profile", func(t *testing.T, p *Deployment, at *place) {
			p.change(t, func(c *store.Client) { c.Profile = "" })
			p.Config.Authorization.Profile = config.ProfileFAPI2
			at.answer = right(p)
		}, levelFault, "section 5.2.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := healthy(t)
			p.followFAPI(t)
			at := place{answer: strict(p), suites: own.CipherSuites}
			at.cert, at.key, at.ca = certify(t, "auth.example.com", 60*day)
			c.change(t, p, &at)
			p.serve(t, at)
			expect(t, checkPublic(t.Context(), p), c.level, c.text)
		})
	}
	p := healthy(t)
	p.followFAPI(t)
	expect(t, checkClients(t.Context(), p), levelOK, "none of them weak") // the profile requires no rotation
}
