package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// grown returns the differences between two scrapes, without metrics of Go and the
// process.
func grown(before, after map[string]float64) map[string]float64 {
	diff := map[string]float64{}
	for name, v := range after {
		if d := v - before[name]; d != 0 && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			diff[name] = d
		}
	}
	return diff
}

func wantGrown(t *testing.T, m *metrics.Metrics, what string, do func(), want map[string]float64) {
	t.Helper()
	before := testkit.Series(t, m)
	do()
	if got := grown(before, testkit.Series(t, m)); !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestTheOutcomesOfTokenRequestsAreCountedApart(t *testing.T) {
	m := metrics.New("v1", 0)
	const requests = "mintage_token_requests_total"
	issued := func(of, format string) string {
		return "mintage_tokens_issued_total{format=" + format + ",type=" + of + "}"
	}
	for _, c := range []struct {
		what string
		r    metrics.TokenRequest
		want map[string]float64
	}{
		{"a redemption", metrics.TokenRequest{GrantType: "authorization_code", Format: store.TokenJWT, ClientID: "a"}, map[string]float64{
			requests + "{grant_type=authorization_code,result=ok}": 1, issued("access", "jwt"): 1, issued("refresh", "opaque"): 1,
		}},
		{"a refresh", metrics.TokenRequest{GrantType: "refresh_token", ClientID: "a"}, map[string]float64{
			requests + "{grant_type=refresh_token,result=ok}": 1, issued("access", "opaque"): 1, issued("refresh", "opaque"): 1, "mintage_refreshes_total": 1,
		}},
		{"a second holder, the same pair", metrics.TokenRequest{GrantType: "refresh_token", Repeated: true, Shared: true, ClientID: "a"}, map[string]float64{
			requests + "{grant_type=refresh_token,result=ok}": 1, "mintage_refresh_shared_total": 1,
		}},
		{"a second holder, the next pair", metrics.TokenRequest{GrantType: "refresh_token", Shared: true, ClientID: "a"}, map[string]float64{
			requests + "{grant_type=refresh_token,result=ok}": 1, "mintage_refresh_shared_total": 1, "mintage_refreshes_total": 1,
			"mintage_tokens_issued_total{format=opaque,type=access}": 1, "mintage_tokens_issued_total{format=opaque,type=refresh}": 1,
		}},
		{"a repeat", metrics.TokenRequest{GrantType: "refresh_token", Repeated: true, ClientID: "a"}, map[string]float64{
			requests + "{grant_type=refresh_token,result=ok}": 1, "mintage_refresh_repeats_total": 1,
		}},
		{"a refusal", metrics.TokenRequest{GrantType: "refresh_token", Error: "invalid_grant"}, map[string]float64{
			requests + "{grant_type=refresh_token,result=invalid_grant}": 1,
		}},
		{"a stranger's grant type", metrics.TokenRequest{GrantType: "s3cret", Error: "unsupported_grant_type"}, map[string]float64{
			requests + "{grant_type=unsupported,result=unsupported_grant_type}": 1,
		}},
		{"no grant type", metrics.TokenRequest{Error: "invalid_request"}, map[string]float64{requests + "{grant_type=none,result=invalid_request}": 1}},
		{"an unknown code", metrics.TokenRequest{GrantType: "x", Error: "y"}, map[string]float64{requests + "{grant_type=unsupported,result=other}": 1}},
	} {
		wantGrown(t, m, c.what, func() { m.TokenRequest(c.r) }, c.want)
	}
}

func TestEachEventHasItsCounter(t *testing.T) {
	m := metrics.New("v1", 0)
	for name, do := range map[string]func(){
		"mintage_replays_total{kind=code}":                     func() { m.Replay(metrics.ReplayedCode) },
		"mintage_replays_total{kind=refresh}":                  func() { m.Replay(metrics.ReplayedRefresh) },
		"mintage_store_behind_total":                           m.StoreBehind,
		"mintage_dpop_proofs_total{result=accepted}":           func() { m.Proof(metrics.ProofAccepted) },
		"mintage_dpop_proofs_total{result=replayed}":           func() { m.Proof(metrics.ProofReplayed) },
		"mintage_introspections_total{active=true}":            func() { m.Introspection(true) },
		"mintage_introspections_total{active=false}":           func() { m.Introspection(false) },
		"mintage_client_auth_failures_total{reason=malformed}": func() { m.ClientAuthFailed(metrics.MalformedCredentials) },
		"mintage_client_auth_failures_total{reason=other}":     func() { m.ClientAuthFailed("something new") },
		"mintage_login_attempts_total{result=wrong}":           func() { m.Login(metrics.LoginWrong) },
		"mintage_logouts_total{result=ended}":                  func() { m.Logout(metrics.LogoutEnded) },
		"mintage_throttled_total{limit=login_failures}":        func() { m.Throttled(metrics.LimitLoginFailures) },
		"mintage_shed_total{what=connections_of_address}":      func() { m.Shed(metrics.ShedConnectionsOfAddress) },
		"mintage_shed_total{what=other}":                       func() { m.Shed("something new") },
		"http_server_request_duration_seconds{http_request_method=_OTHER,http_response_status_code=405,http_route=token request}": func() {
			m.Route("token request").Answered("BREW", 405, time.Millisecond)
		},
	} {
		wantGrown(t, m, name, do, map[string]float64{name: 1})
	}
}

func TestANilMetricsCountsNothing(t *testing.T) {
	var m *metrics.Metrics
	m.Route("x").Answered("GET", 200, time.Second)
	m.TokenRequest(metrics.TokenRequest{})
	m.Replay(metrics.ReplayedCode)
	m.StoreBehind()
	m.Introspection(true)
	m.ClientAuthFailed("x")
	m.Login(metrics.LoginOK)
	m.Logout(metrics.LogoutEnded)
	m.Throttled("x")
	m.Shed("x")
}

func TestOnlyTheFirstClientsThatGetTokensHaveLabels(t *testing.T) {
	m := metrics.New("v1", 2)
	const name = "mintage_client_token_requests_total"
	count := func(id, failure string) func() {
		return func() { m.TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", ClientID: id, Error: failure}) }
	}
	own := func(id, failure string) func() {
		return func() {
			m.TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", ClientID: id, Own: true, Error: failure})
		}
	}
	of := func(do func()) string {
		before := testkit.Series(t, m)
		do()
		for series := range grown(before, testkit.Series(t, m)) {
			if strings.HasPrefix(series, name) {
				return strings.TrimPrefix(series, name)
			}
		}
		return ""
	}
	for i, c := range []struct {
		do   func()
		want string
	}{
		{count("made up", "invalid_client"), "{client_id=other,result=invalid_client}"},
		// Anybody can create any number of these clients: they take no label from the
		// others.
		{own("https://agent.example/1", ""), "{client_id=self_registered,result=ok}"},
		{own("https://agent.example/2", ""), "{client_id=self_registered,result=ok}"},
		{own("https://agent.example/2", "invalid_grant"), "{client_id=self_registered,result=invalid_grant}"},
		{count("a", ""), "{client_id=a,result=ok}"},
		{count("a", "invalid_grant"), "{client_id=a,result=invalid_grant}"},
		{count("b", ""), "{client_id=b,result=ok}"},
		{count("c", ""), "{client_id=other,result=ok}"},
		{count("a", ""), "{client_id=a,result=ok}"},
		{count("a", "odd"), "{client_id=a,result=other}"},
	} {
		if got := of(c.do); got != c.want {
			t.Errorf("%d: got %s, want %s", i, got, c.want)
		}
	}
	for series := range testkit.Series(t, metrics.New("v1", 0)) {
		if strings.HasPrefix(series, name) {
			t.Errorf("%s, though nobody asked for labels of clients", series)
		}
	}
}

func TestARefreshThatIsCountedAllocatesNothing(t *testing.T) {
	m := metrics.New("v1", 10)
	route := m.Route("token request")
	count := func() {
		route.Answered("POST", 200, 3*time.Millisecond)
		m.TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", ClientID: "a"})
	}
	count()
	if n := testing.AllocsPerRun(1000, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A fixedStore returns err from every operation.
type fixedStore struct {
	store.Store
	err   error
	next  string
	realm string // the grant's realm
}

func (s *fixedStore) Grant(context.Context, grant.ID) (grant.Grant, error) {
	return grant.Grant{}, s.err
}
func (s *fixedStore) CreateGrant(context.Context, grant.Grant) error { return s.err }
func (s *fixedStore) Commit(context.Context, store.Change) error     { return s.err }
func (s *fixedStore) UpdateGrant(_ context.Context, _ grant.ID, decide store.Decide) error {
	time.Sleep(30 * time.Millisecond)
	decide(grant.Grant{Realm: s.realm})
	return s.err
}

func (s *fixedStore) Sweep(context.Context, store.SweptTable, string, grant.Instant, int) (string, int, error) {
	return s.next, 7, s.err
}

func TestStoreOperationsAreTimedAndTheirFaultsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("v1", 0)
		under := &fixedStore{}
		st := m.Store(under)
		duration := func(op string) string { return "mintage_store_operation_duration_seconds{operation=" + op + "}" }
		update := func(names ...store.EventName) func() {
			return func() {
				st.UpdateGrant(t.Context(), grant.ID{}, func(g grant.Grant) (grant.Grant, []store.Event) {
					var list []store.Event
					for _, n := range names {
						list = append(list, store.Event{Name: n})
					}
					return g, list
				})
			}
		}
		for _, c := range []struct {
			what string
			err  error
			do   func()
			want map[string]float64
		}{
			{"a read", nil, func() { st.Grant(t.Context(), grant.ID{}) }, map[string]float64{duration("grant"): 1}},
			{"a grant that is not", store.ErrNotFound, func() { st.Grant(t.Context(), grant.ID{}) }, map[string]float64{duration("grant"): 1}},
			{"a lost race", store.ErrConflict, func() { st.CreateGrant(t.Context(), grant.Grant{}) }, map[string]float64{duration("create_grant"): 1}},
			{"a full queue", fmt.Errorf("%w: queue", store.ErrBusy), func() { st.CreateGrant(t.Context(), grant.Grant{}) },
				map[string]float64{duration("create_grant"): 1, "mintage_store_faults_total{kind=busy}": 1}},
			{"a broken disk", errors.New("disk"), func() { st.CreateGrant(t.Context(), grant.Grant{}) },
				map[string]float64{duration("create_grant"): 1, "mintage_store_faults_total{kind=other}": 1}},
			{"two documents", nil, func() {
				st.Commit(t.Context(), store.Change{Documents: make([]store.Document, 2), Cutoffs: make([]store.Cutoff, 1), Events: []store.Event{{Name: store.EventDisconnected}}})
			}, map[string]float64{duration("put_document"): 1, "mintage_revocations_total{by=user}": 1}},
			{"an administrator's change", errors.New("disk"), func() {
				st.Commit(t.Context(), store.Change{Entries: make([]store.Entry, 1), Cutoffs: make([]store.Cutoff, 1), Delete: make([]store.DocumentKey, 1)})
			}, map[string]float64{}},
			{"a rotation", nil, update(), map[string]float64{duration("update_grant"): 1}},
			{"a replay", nil, update(store.EventRefreshReplayed), map[string]float64{duration("update_grant"): 1, "mintage_revocations_total{by=replay}": 1}},
			{"a revocation", nil, update(store.EventGrantRevoked), map[string]float64{duration("update_grant"): 1, "mintage_revocations_total{by=client}": 1}},
			{"one that was not written", errors.New("disk"), update(store.EventGrantRevoked),
				map[string]float64{duration("update_grant"): 1, "mintage_store_faults_total{kind=other}": 1}},
		} {
			under.err = c.err
			before := testkit.Series(t, m)
			c.do()
			got := grown(before, testkit.Series(t, m))
			maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.HasPrefix(name, "mintage_sweep_lag") })
			if !maps.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
			}
		}
	})
}

func TestTheLagOfTheSweepGrowsUntilAWalkIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("v1", 0)
		under := &fixedStore{}
		st := m.Store(under)
		lag := func() float64 { return testkit.Series(t, m)["mintage_sweep_lag_seconds{table=grants}"] }
		time.Sleep(time.Hour)
		if lag() != 3600 {
			t.Errorf("%v seconds after an hour without a walk", lag())
		}
		under.next = "next"
		st.Sweep(t.Context(), store.SweptGrants, "", 0, 10)
		if lag() != 3600 {
			t.Error("an incomplete walk counts as complete")
		}
		under.next, under.err = "", errors.New("disk")
		st.Sweep(t.Context(), store.SweptGrants, "", 0, 10)
		if lag() != 3600 {
			t.Error("a walk that failed counts as complete")
		}
		under.err = nil
		st.Sweep(t.Context(), store.SweptGrants, "", 0, 10)
		if lag() != 0 {
			t.Errorf("%v seconds just after a walk", lag())
		}
		if n := testkit.Series(t, m)["mintage_sweep_removed_total{table=grants}"]; n != 21 {
			t.Errorf("%v rows removed, want 21", n)
		}
	})
}

func TestTheStateIsReadWhenSomebodyAsks(t *testing.T) {
	m := metrics.New("v1", 0)
	if _, there := testkit.Series(t, m)["mintage_ready"]; there {
		t.Error("a state before there is one")
	}
	expiry := time.Unix(1_800_000_000, 0)
	s := metrics.State{
		Ready: true, DirectoryAge: 1500 * time.Millisecond, KeysDue: 2, Working: 8, Waiting: 9,
		Keys:         []metrics.Key{{ID: "00000001", Purpose: "mac", Age: time.Hour, Expiry: expiry}, {ID: "00000002", Purpose: "pepper", Age: time.Minute}},
		Secrets:      []metrics.Secret{{ClientID: "a", ID: "s1", Expiry: expiry, Replaced: true}},
		Load:         store.Load{Waiting: 3, Batches: store.Batches{Cumulative: [9]uint64{1, 1, 2, 2, 2, 2, 2, 2, 2}, Count: 3, Operations: 400}},
		AuditWritten: 10, AuditLost: 1, AuditOverRate: 2, AuditWithoutRoom: 3, AuditFault: true,
	}
	m.Watch(func() metrics.State { return s })
	got := testkit.Series(t, m)
	for name, want := range map[string]float64{
		"mintage_ready": 1, "mintage_clock_fault": 0, "mintage_directory_age_seconds": 1.5, "mintage_keys_due": 2,
		"mintage_key_age_seconds{kid=00000001,purpose=mac}":                                   3600,
		"mintage_key_expiry_timestamp_seconds{kid=00000001,purpose=mac}":                      1.8e9,
		"mintage_client_secret_expiry_timestamp_seconds{client_id=a,replaced=true,secret=s1}": 1.8e9,
		"mintage_requests{state=working}":                                                     8, "mintage_requests{state=waiting}": 9, "mintage_store_queue_depth": 3, "mintage_store_batch_size": 3,
		"mintage_audit_written_total": 10, "mintage_audit_lost_total": 1, "mintage_audit_fault": 1,
		"mintage_audit_left_out_total{reason=rate}": 2, "mintage_audit_left_out_total{reason=space}": 3,
	} {
		if have, there := got[name]; !there || have != want {
			t.Errorf("%s is %v (%t), want %v", name, have, there, want)
		}
	}
	for _, name := range []string{
		"mintage_key_expiry_timestamp_seconds{kid=00000002,purpose=pepper}", "mintage_certificate_expiry_timestamp_seconds", "mintage_restore_until_timestamp_seconds",
	} {
		if v, there := got[name]; there {
			t.Errorf("%s is %v, and nobody knows it", name, v)
		}
	}
	s.Ready, s.ClockFault, s.Certificate, s.CertOverdue, s.RestoreUntil = false, true, expiry, true, expiry
	got = testkit.Series(t, m)
	if got["mintage_ready"] != 0 || got["mintage_certificate_overdue"] != 1 || got["mintage_clock_fault"] != 1 || got["mintage_certificate_expiry_timestamp_seconds"] != 1.8e9 || got["mintage_restore_until_timestamp_seconds"] != 1.8e9 {
		t.Errorf("after the state has changed: %v", got)
	}
}

// Several realms are counted separately, with a label that a single realm lacks.
func TestRealmsAreCountedApart(t *testing.T) {
	synctest.Test(t, testRealmsApart) // the clock stands still
}

func testRealmsApart(t *testing.T) {
	m := metrics.New("v1", 1, "/api", "/staff")
	staff := m.Realm("/staff")
	const requests = "mintage_token_requests_total{grant_type=refresh_token"
	wantGrown(t, m, "a refresh of a realm", func() {
		staff.TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", ClientID: "a"})
		m.Realm("/api").TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", Error: "invalid_grant", ClientID: "a"})
		m.Realm("/api").TokenRequest(metrics.TokenRequest{GrantType: "refresh_token", ClientID: "a"}) // the first client gets a label, among all realms
	}, map[string]float64{
		requests + ",realm=/staff,result=ok}": 1, requests + ",realm=/api,result=invalid_grant}": 1, requests + ",realm=/api,result=ok}": 1,
		"mintage_refreshes_total{realm=/staff}": 1, "mintage_refreshes_total{realm=/api}": 1,
		"mintage_tokens_issued_total{format=opaque,realm=/staff,type=access}": 1, "mintage_tokens_issued_total{format=opaque,realm=/staff,type=refresh}": 1,
		"mintage_tokens_issued_total{format=opaque,realm=/api,type=access}": 1, "mintage_tokens_issued_total{format=opaque,realm=/api,type=refresh}": 1,
		"mintage_client_token_requests_total{client_id=a,realm=/staff,result=ok}":              1,
		"mintage_client_token_requests_total{client_id=other,realm=/api,result=ok}":            1,
		"mintage_client_token_requests_total{client_id=other,realm=/api,result=invalid_grant}": 1,
	})
	wantGrown(t, m, "durations, and what belongs to no realm", func() {
		staff.Route("token request").Answered("POST", 200, time.Millisecond)
		staff.Shed(metrics.ShedLate)
		m.Shed(metrics.ShedLate)
	}, map[string]float64{
		"http_server_request_duration_seconds{http_request_method=POST,http_response_status_code=200,http_route=token request,realm=/staff}": 1,
		"mintage_shed_total{what=late}": 2,
	})
	st := m.Store(&fixedStore{realm: "/staff"})
	wantGrown(t, m, "a revocation", func() {
		if err := st.UpdateGrant(t.Context(), grant.ID{}, func(g grant.Grant) (grant.Grant, []store.Event) {
			return g, []store.Event{{Name: store.EventGrantRevoked}}
		}); err != nil {
			t.Fatal(err)
		}
	}, map[string]float64{
		"mintage_revocations_total{by=client,realm=/staff}": 1, "mintage_store_operation_duration_seconds{operation=update_grant}": 1,
		"mintage_sweep_lag_seconds{table=documents}": 0.03, "mintage_sweep_lag_seconds{table=grants}": 0.03, // the duration of the update
	})
	expiry := time.Unix(1_800_000_000, 0)
	wantGrown(t, m, "the state", func() {
		m.Watch(func() metrics.State {
			return metrics.State{
				Secrets: []metrics.Secret{{Realm: "/staff", ClientID: "a", ID: "s1", Expiry: expiry}},
				Logouts: []metrics.Logouts{{Realm: "/api"}, {Realm: "/staff", Failing: 2, Waiting: time.Minute}},
			}
		})
	}, map[string]float64{
		"mintage_client_secret_expiry_timestamp_seconds{client_id=a,realm=/staff,replaced=false,secret=s1}": 1.8e9,
		"mintage_logout_clients_failing{realm=/staff}":                                                      2, "mintage_logout_oldest_seconds{realm=/staff}": 60,
	})
}

// everything returns a Metrics in which each family has a series.
func everything() *metrics.Metrics {
	m := metrics.New("v1", 1)
	m.Route("token request").Answered("POST", 200, time.Millisecond)
	m.Store(&fixedStore{})
	at := time.Unix(1_800_000_000, 0)
	m.Watch(func() metrics.State {
		return metrics.State{
			Keys: []metrics.Key{{Expiry: at}}, Secrets: []metrics.Secret{{Expiry: at}}, Certificate: at, RestoreUntil: at, Logouts: make([]metrics.Logouts, 1),
		}
	})
	return m
}

func TestTheReferenceListsWhatIsCountedAndNothingElse(t *testing.T) {
	gathered, err := everything().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]*dto.MetricFamily{}
	for _, f := range gathered {
		if !strings.HasPrefix(f.GetName(), "go_") && !strings.HasPrefix(f.GetName(), "process_") {
			have[f.GetName()] = f
		}
	}
	kinds := map[metrics.Kind]dto.MetricType{
		metrics.Counter: dto.MetricType_COUNTER, metrics.Gauge: dto.MetricType_GAUGE, metrics.Histogram: dto.MetricType_HISTOGRAM,
	}
	for _, want := range metrics.Families() {
		f := have[want.Name]
		if f == nil {
			t.Errorf("%s is described, and not there", want.Name)
			continue
		}
		delete(have, want.Name)
		if f.GetType() != kinds[want.Kind] || f.GetHelp() != want.Help {
			t.Errorf("%s is a %s %q, and described as a %s %q", want.Name, f.GetType(), f.GetHelp(), want.Kind, want.Help)
		}
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		if !slices.Equal(names, slices.Sorted(slices.Values(want.Labels))) {
			t.Errorf("%s has the labels %v, and is described with %v", want.Name, names, want.Labels)
		}
	}
	for name := range have {
		t.Errorf("%s is not described", name)
	}
	for _, l := range metrics.Labels() {
		if l.Values == "" {
			t.Errorf("nobody says what the label %s of %s can be", l.Label, l.Family)
		}
	}
}
