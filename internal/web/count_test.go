package web_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// logins is the count of each result.
func logins(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "mintage_login_attempts_total" {
			for _, metric := range f.GetMetric() {
				all[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return all
}

func TestALoginIsCountedByWhatBecameOfIt(t *testing.T) {
	m := metrics.New("v1", 0)
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{fmt.Errorf("%w", account.ErrWrong), "wrong"},
		{&account.Throttled{RetryAfter: time.Minute}, "throttled"},
		{web.ErrRejected, "rejected"},
		{upstream.ErrDenied, "rejected"},
		{&upstream.InteractionRequired{}, "rejected"},
		{upstream.ErrUnavailable, "failed"},
		{errors.New("disk"), "failed"},
	} {
		before := logins(t, m)
		web.CountLogin(m, c.err)
		for result, n := range logins(t, m) {
			want := before[result]
			if result == c.want {
				want++
			}
			if n != want {
				t.Errorf("after %v, %s is %v, want %v", c.err, result, n, want)
			}
		}
	}
}
