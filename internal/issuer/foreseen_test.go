package issuer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// ForeseenScopes predicts the outcome of an assertion.
func TestForeseenScopes(t *testing.T) {
	s := withTrusts(t, func(iss *issuer.Issuer) {
		iss.Users = func(_ context.Context, subject string) (known, enabled bool, err error) {
			if subject == "broken" {
				return false, false, errors.New("no store")
			}
			return subject == "alice", true, nil
		}
	})
	type request = issuer.AssertionRequest
	foreseen := issuer.Assertions{Issuer: s.Issuer}.Foreseen
	for name, change := range map[string]func(*request){
		"everything of the trust":  func(*request) {},
		"one API":                  func(r *request) { r.Resources = []string{orders} },
		"no API of the trust":      func(r *request) { r.Resources = []string{"https://x.example"} },
		"more than it allows":      func(r *request) { r.NamesAny, r.Named = true, "orders:read admin" },
		"nothing that it allows":   func(r *request) { r.NamesAny, r.Named = true, "admin" },
		"the subject of a user":    func(r *request) { r.Subject = "alice" },
		"no answer about the user": func(r *request) { r.Subject = "broken" },
		"a workload":               func(r *request) { *r = s.ofJob("job") },
		"a workload named as user": func(r *request) { *r = s.ofJob("job"); r.Subject = "alice" },
	} {
		r := s.assertion(name)
		change(&r)
		scope, why := foreseen(t.Context(), r)
		got, err := s.assert(t.Context(), r.Trust.ClientID, r)
		if why == nil && err == nil && scope == got.Scope && scope != "" {
			continue
		}
		if why == nil || err == nil || why.Error() != err.Error() || errors.Is(why, store.ErrUnavailable) != (name == "no answer about the user") {
			t.Errorf("%s: predicted %q, %v, and got %q, %v", name, scope, why, got.Scope, err)
		}
	}
	// The prediction for a self-registered client is the same before and after it is
	// recorded.
	s.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == agentID })
	api := testkit.OrdersAPI()
	api.Open = true
	s.PutAPI(api)
	trust := users()
	trust.ClientID = agentID
	s.Put(trust)
	s.Clock.Advance(time.Second)
	for range 2 {
		r := s.assertion("described")
		r.Trust = &trust
		if scope, err := foreseen(t.Context(), r); err != nil || scope != "orders:read orders:write" {
			t.Errorf("predicted %q, %v for a self-registered client", scope, err)
		}
		s.Agent()
	}
	s.Administer("agent", func(c *store.Client) { c.State = store.ClientDisabled })
	if scope, err := foreseen(t.Context(), s.assertion("later")); err == nil {
		t.Errorf("predicted %q for a disabled client", scope)
	}
}
