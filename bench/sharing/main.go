// Sharing computes, with the rules of package grant and a simulated clock, what
// reuse_grace and the retry window do to users whose processes share a token file,
// and to the detection of theft. It prints the two tables of decision 3.
package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

const (
	users = 100
	day   = 24 * time.Hour
)

// A rule is a policy for public clients.
type rule struct {
	name          string
	window, grace time.Duration
}

var rules = []rule{
	{"retry window 10 s", 10 * time.Second, 0},
	{"retry window 60 s", time.Minute, 0},
	{"grace 1 h", time.Minute, time.Hour},
	{"grace 24 h", time.Minute, day},
}

func (r rule) policy() grant.Policy {
	return grant.Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * day, RetryWindow: r.window, ReuseGrace: r.grace}
}

func main() {
	fmt.Println(sharingTable())
	fmt.Println(theftTable())
}

// A holder has a copy of a refresh token, and an access token.
type holder struct {
	generation uint32
	issuedAt   grant.Instant
	access     grant.Instant // expiry of the access token
}

// login returns a grant and the holder of its first pair.
func login(p grant.Policy) (grant.Grant, holder) {
	c := grant.Code{AuthorizedAt: start, ExpiresAt: start.Add(time.Minute), Scope: "read", RedirectHash: grant.HashRedirectURI("")}
	d := c.Redeem(grant.Redemption{Allowed: c.Scope, KeyID: 1}, p, start)
	return d.Next, holder{d.Next.Generation, d.Next.RotatedAt, d.Access.ExpiresAt}
}

const start grant.Instant = 1_800_000_000_000

// refresh presents the holder's token at an instant. It reports whether the refresh
// succeeded.
func (h *holder) refresh(g *grant.Grant, p grant.Policy, now grant.Instant) bool {
	d := g.Refresh(grant.Refresh{
		Allowed: g.Scope, Generation: h.generation, IssuedAt: h.issuedAt, ExpiresAt: h.issuedAt.Add(p.RefreshLifetime),
		Maker: grant.Maker{Key: 1}, KeyID: 1,
	}, p, now)
	*g = d.Next
	if d.Refusal != grant.Allowed {
		return false
	}
	*h = holder{g.Generation, g.RotatedAt, d.Access.ExpiresAt}
	return true
}

// A pause draws the time until a process makes its next call.
type pause func(*rand.Rand) time.Duration

// poisson makes independent calls, one every mean on average.
func poisson(mean time.Duration) pause {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}

// steady makes calls exactly every interval.
func steady(every time.Duration) pause {
	return func(*rand.Rand) time.Duration { return every }
}

// share runs processes that read one token file and then keep their copies in memory;
// each refreshes at its first call after the expiry of its access token. It returns the
// time until one of them is refused, or length.
func share(p grant.Policy, processes int, next pause, length time.Duration, r *rand.Rand) time.Duration {
	g, first := login(p)
	holders := slices.Repeat([]holder{first}, processes)
	calls := make([]grant.Instant, processes)
	for i := range calls {
		calls[i] = start.Add(time.Duration(r.Float64() * float64(next(r))))
	}
	for {
		i := 0
		for j := range calls {
			if calls[j] < calls[i] {
				i = j
			}
		}
		now := calls[i]
		if now >= start.Add(length) {
			return length
		}
		if now >= holders[i].access && !holders[i].refresh(&g, p, now) {
			return now.Since(start)
		}
		for calls[i] == now || calls[i] < holders[i].access {
			calls[i] = max(calls[i].Add(next(r)), now+1)
		}
	}
}

// sharingTable returns the share of users for whom a process was refused within a day.
func sharingTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| processes | a call every |")
	for _, rule := range rules[1:] {
		fmt.Fprintf(&b, " %s |", rule.name)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", len(rules)+1))
	for _, processes := range []int{2, 5, 24} {
		for _, every := range []time.Duration{20 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour} {
			fmt.Fprintf(&b, "| %d | %s |", processes, short(every))
			for _, rule := range rules[1:] {
				out, median := loggedOut(rule, processes, every)
				fmt.Fprintf(&b, " %d %%", out)
				if median > 0 {
					fmt.Fprintf(&b, ", after %s", short(median))
				}
				fmt.Fprint(&b, " |")
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// loggedOut returns the percentage of users who are logged out within a day, and
// the median of their time until then.
func loggedOut(r rule, processes int, every time.Duration) (percent int, median time.Duration) {
	var times []time.Duration
	for user := range uint64(users) {
		t := share(r.policy(), processes, poisson(every), day, rand.New(rand.NewPCG(user, 1)))
		if t < day {
			times = append(times, t)
		}
	}
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return 100 * len(times) / users, times[len(times)/2]
}

// short formats a duration as people do: 20 s, 12 min, 1.5 h.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 10*time.Hour && d%time.Hour != 0:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
