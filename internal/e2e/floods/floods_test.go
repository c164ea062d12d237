//go:build e2e

// Package floods runs attackers that do whatever an unauthenticated client may, from a
// few networks, while users log in from other networks: none of these logins may fail.
//
// The long form takes fifteen minutes:
//
//	SOAK=1 go test -vet=off -tags e2e -v -timeout 30m ./internal/e2e/floods
package floods

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A tally counts responses by status, separately for begun interactions and for guessed
// passwords.
type tally struct {
	mu      sync.Mutex
	answers map[string]int
}

func (c *tally) add(what string, v view, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers = map[string]int{}
	}
	if err != nil {
		c.answers[what+" without an answer"]++
	} else {
		c.answers[fmt.Sprintf("%s %d", what, v.status)]++
	}
}

func (c *tally) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[what]
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, k := range slices.Sorted(maps.Keys(c.answers)) {
		list = append(list, fmt.Sprintf("%s: %d", k, c.answers[k]))
	}
	return strings.Join(list, ", ")
}

// An attacker begins interactions as expensive as possible, and guesses passwords.
type attacker struct {
	*browser
	*tally
	form url.Values // of a login page, without the typed values
	at   time.Time  // when the form was loaded
}

// begin begins the most expensive interaction that an unauthenticated client may begin.
func (a *attacker) begin(ctx context.Context) view {
	v, err := a.send(ctx, http.MethodGet, a.w.ask(strings.Repeat("s", 4096)), nil)
	a.add("begun", v, err)
	return v
}

// page loads a login page, whose form guess sends.
func (a *attacker) page(ctx context.Context) {
	v := a.begin(ctx)
	if v.status != http.StatusSeeOther {
		return
	}
	if v, err := a.send(ctx, http.MethodGet, v.to, nil); err == nil && v.status == http.StatusOK {
		a.form, a.at = fill(v.page, url.Values{}), time.Now()
	}
}

// guess tries a password, every tenth time for the account of the users that log in.
func (a *attacker) guess(ctx context.Context, n int) {
	form := maps.Clone(a.form)
	form.Set("username", fmt.Sprint("nobody", n))
	if n%10 == 0 {
		form.Set("username", a.w.user)
	}
	form.Set("password", "not the password")
	v, err := a.send(ctx, http.MethodPost, a.w.origin+"/oauth2/interaction", form)
	a.add("guessed", v, err)
}

// elsewhere logs users in one after the other, each from its own network, until ctx ends
// and at least n have logged in. No login may fail.
func (w *world) elsewhere(ctx context.Context, n int, each time.Duration, from func(n int) *browser) {
	w.t.Helper()
	done := 0
	var slowest time.Duration
	for ; done < n || ctx.Err() == nil; done++ {
		began := time.Now()
		b := from(done)
		if err := b.login(); err != nil {
			w.t.Errorf("login %d from elsewhere, after %s: %v\n%s", done+1, time.Since(began), err, w.logOf(b))
		}
		slowest = max(slowest, time.Since(began))
		if w.t.Failed() {
			return
		}
		select {
		case <-time.After(each - time.Since(began)):
		case <-ctx.Done():
		}
	}
	w.t.Logf("%d of %d logins from elsewhere succeeded, the slowest in %s", done, done, slowest.Round(time.Millisecond))
}

// logOf returns the log lines about a browser's requests.
func (w *world) logOf(b *browser) string {
	var lines []string
	for line := range strings.Lines(w.Log()) {
		if strings.Contains(line, `"remote_ip":"`+b.address+`"`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestFiveAddressesDoNotCloseTheLogin sends ten requests a second from each of five IPv4
// addresses in different networks.
func TestFiveAddressesDoNotCloseTheLogin(t *testing.T) {
	w := open(t)
	length := time.Duration(binary.Scaled(8, 15*60)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var answers tally
	var attack sync.WaitGroup
	for n := range 5 {
		attack.Go(func() {
			a := &attacker{browser: w.browser(fmt.Sprintf("127.%d.0.1", 10+n), ""), tally: &answers}
			a.page(ctx)
			ticker := time.NewTicker(time.Second / 10)
			defer ticker.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-ticker.C
				switch {
				case time.Since(a.at) > 5*time.Minute:
					a.page(ctx)
				case i%2 == 0:
					attack.Go(func() { a.begin(ctx) })
				default:
					// Send one request at each tick, even if the previous one is not
					// answered yet.
					form := *a
					attack.Go(func() { form.guess(ctx, i/2) })
				}
			}
		})
	}
	w.elsewhere(ctx, 10, time.Second, func(n int) *browser { return w.browser(fmt.Sprintf("127.%d.%d.1", 100+n/250, n%250), "") })
	cancel()
	attack.Wait()
	t.Logf("the five were answered: %s", &answers)
	if answers.count("begun 303") < 50 || answers.count("guessed 422")+answers.count("guessed 503") < 50 {
		t.Error("the attackers sent too few requests")
	}
}

// TestOneSiteOfIPv6DoesNotCloseTheLogin guesses passwords over forty connections as fast
// as the server answers, each time from another /64 of one /48.
func TestOneSiteOfIPv6DoesNotCloseTheLogin(t *testing.T) {
	w := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers tally
	var attack sync.WaitGroup
	from := func(n, i int) string { return fmt.Sprintf("2001:db8:1:%x::1", (n*1601+i*41)%(1<<16)) }
	for n := range 40 {
		attack.Go(func() {
			a := &attacker{browser: w.browser(proxy, from(n, 0)), tally: &answers}
			a.page(ctx)
			for i := 1; ctx.Err() == nil; i++ {
				a.through = from(n, i)
				a.guess(ctx, i)
			}
		})
	}
	for answers.count("guessed 422")+answers.count("guessed 503") < 40 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	after, end := context.WithTimeout(ctx, time.Duration(binary.Scaled(0, 120))*time.Second)
	defer end()
	w.elsewhere(after, 20, 0, func(n int) *browser { return w.browser(proxy, fmt.Sprintf("2001:db8:%x::1", 0x100+n)) })
	cancel()
	attack.Wait()
	t.Logf("the forty were answered: %s", &answers)
}
