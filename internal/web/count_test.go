package web_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

func TestALoginIsCountedByItsResult(t *testing.T) {
	m := metrics.New("v1", 0)
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{fmt.Errorf("%w", account.ErrWrong), "wrong"},
		{&account.Throttled{RetryAfter: time.Minute}, "throttled"},
		{login.ErrRejected, "rejected"},
		{upstream.ErrDenied, "rejected"},
		{&upstream.InteractionRequired{}, "rejected"},
		{upstream.ErrUnavailable, "failed"},
		{errors.New("disk"), "failed"},
	} {
		before, counted := testkit.Series(t, m), "mintage_login_attempts_total{result="+c.want+"}"
		web.CountLogin(m, c.err)
		after := testkit.Series(t, m)
		if after[counted] != before[counted]+1 {
			t.Errorf("after %v, %s is %v, and was %v", c.err, counted, after[counted], before[counted])
		}
		for series, n := range after {
			if strings.HasPrefix(series, "mintage_login_attempts_total") && series != counted && n != before[series] {
				t.Errorf("after %v, %s is %v, and was %v", c.err, series, n, before[series])
			}
		}
	}
}

// A logout that another site posts is stored, like a login. It counts towards the limits
// of its address and of its network.
func TestAnInteractionCountsForItsAddressAndNetwork(t *testing.T) {
	if v := web.Charged(netip.MustParseAddr("192.0.2.1")); v.Charge == nil || v.Network != overload.Party(netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("charged %t, of the network %s", v.Charge != nil, v.Network)
	}
	if v := web.Charged(netip.Addr{}); v.Charge != nil || v.Network.IsValid() {
		t.Errorf("a visitor without an address is charged, or counts for the network %s", v.Network)
	}
}

// A callback that is shed for lack of a slot does not count towards the limit of its
// address, because the browser sends it again.
func TestACallbackThatIsShedIsNotCharged(t *testing.T) {
	throttle := overload.NewThrottle(overload.RateLimits{Interactions: 3}, func(string) {})
	queue := overload.NewQueue(overload.Capacity{Requests: 6}, func(string) {})
	from := netip.MustParseAddr("192.0.2.1")
	done, err := web.EnterUpstream(throttle, queue, from)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := web.EnterUpstream(throttle, queue, from); !errors.Is(err, overload.ErrShed) {
			t.Fatalf("beside another callback of the same network: %v", err)
		}
	}
	done()
	if _, err := web.EnterUpstream(throttle, queue, from); err != nil {
		t.Errorf("after it: %v", err)
	}
}
