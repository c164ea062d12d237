package admin_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/server/token"
)

func TestAProbeReportsOnlyHowItArrived(t *testing.T) {
	a := newAdminAPI(t)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	probes := &server.Probes{}
	api := admin.NewAPI(a.cases(), a.iss, nil, admin.Access{Configured: adminToken}, log)
	api.Probes = probes
	a.iss.ID = "https://auth.example.com/oauth2/api"
	srv := server.New(a.iss.Directory, server.Options{
		Site:    server.Site{PublicURL: "https://auth.example.com", Realm: "/api"},
		Proxies: server.Proxies{PlainHTTP: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}},
		Queue:   server.NewQueue(overload.Capacity{}, nil, log), Throttle: overload.NewThrottle(overload.RateLimits{}, nil), Probes: probes,
	}, log)
	srv.Mount((&token.Endpoints{Issuer: a.iss}).Routes()...)
	public := srv.Handler()

	ask := func(method, path string, status int, out any) {
		t.Helper()
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+adminToken)
		w := httptest.NewRecorder()
		api.Handler().ServeHTTP(w, r)
		if w.Code != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
		}
		if strings.Contains(w.Body.String(), "c2VjcmV0") || strings.Contains(w.Body.String(), "mintage_rt_") {
			t.Errorf("the arrival tells what was sent: %s", w.Body)
		}
		if out != nil {
			if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
				t.Fatal(err)
			}
		}
	}
	send := func(agent string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://backend:8443/oauth2/access_token?realm=/api", strings.NewReader("grant_type=x&refresh_token=mintage_rt_x"))
		r.RemoteAddr = "10.0.0.2:4711"
		r.Header.Set("User-Agent", agent)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		public.ServeHTTP(w, r)
		return w
	}

	send(server.ProbeAgent + "0123") // not announced
	var announced adminapi.Probe
	ask(http.MethodPost, "/admin/v1/probes", http.StatusCreated, &announced)
	at := "/admin/v1/probes/" + announced.Probe
	send("curl/8.0")
	send(server.ProbeAgent + announced.Probe + "0")
	var got server.Arrival
	ask(http.MethodGet, at, http.StatusOK, &got)
	if got.Arrived != 0 || got.Peer != "" {
		t.Errorf("before the probe: %+v", got)
	}
	w := send(server.ProbeAgent+announced.Probe, "X-Forwarded-For", "203.0.113.9, 192.0.2.7", "X-Forwarded-Proto", "https", "Authorization", "Basic c2VjcmV0")
	ask(http.MethodGet, at, http.StatusOK, &got)
	if got.Arrived != 1 || got.Peer != "10.0.0.2" || !got.Declared || got.RemoteIP != "192.0.2.7" || !got.Secure || got.TLS || got.Host != "backend:8443" ||
		got.ForwardedFor != 2 || len(got.ForwardedProto) != 1 || !got.Authorization || got.RequestID != w.Header().Get("X-Request-Id") || got.Path != "/oauth2/access_token" {
		t.Errorf("the probe: %+v", got)
	}
	send(server.ProbeAgent + announced.Probe)
	ask(http.MethodGet, at, http.StatusOK, &got)
	if got.Arrived != 2 || got.Secure || got.ForwardedFor != 0 || got.Authorization {
		t.Errorf("again, without headers: %+v", got)
	}

	// Pending probes are limited in number and time.
	for range 8 {
		ask(http.MethodPost, "/admin/v1/probes", http.StatusCreated, nil)
	}
	ask(http.MethodGet, at, http.StatusNotFound, nil)
	ask(http.MethodPost, "/admin/v1/probes", http.StatusCreated, &announced)
	a.now = a.now.Add(time.Minute + time.Second)
	ask(http.MethodGet, "/admin/v1/probes/"+announced.Probe, http.StatusNotFound, nil)
	send(server.ProbeAgent + announced.Probe)
	ask(http.MethodGet, "/admin/v1/probes/"+announced.Probe, http.StatusNotFound, nil)
}
