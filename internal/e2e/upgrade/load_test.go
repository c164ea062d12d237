//go:build e2e

package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A place is a node behind a load balancer, which can take it out of rotation.
type place struct {
	*binary.Server
	busy sync.RWMutex // held for reading by each request
}

// A load runs clients that use the nodes in turn, and checks the response to each
// request.
type load struct {
	t           *testing.T
	places      []*place
	client      *http.Client
	api, secret string // the client of a resource server
	turn        atomic.Int64
	stop        chan struct{}
	running     sync.WaitGroup
	rounds      atomic.Int64
}

// begin starts clients that run until end.
func begin(t *testing.T, clients int, nodes ...*binary.Server) *load {
	t.Helper()
	l := &load{t: t, client: &http.Client{Transport: nodes[0].Transport(t, ""), Timeout: 30 * time.Second}, stop: make(chan struct{})}
	for _, n := range nodes {
		l.places = append(l.places, &place{Server: n})
	}
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal([]byte(nodes[0].Run(t, "client", "create", "--json", "--name", "API", "--introspect")), &made); err != nil {
		t.Fatal(err)
	}
	l.api, l.secret = made.ID, made.Secret
	// Every node knows the clients after two seconds at most.
	for i := range nodes {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if _, err := l.introspect(nodes[i], "x"); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	for i := range clients {
		l.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := l.round(fmt.Sprintf("user%d-%d", i, n)); err != nil {
					t.Errorf("client %d, round %d: %v", i, n, err)
					return
				}
				l.rounds.Add(1)
			}
		})
	}
	return l
}

func (l *load) end() {
	close(l.stop)
	l.running.Wait()
}

// lasts lets the clients work until they have completed a number of rounds, and for at
// least d.
func (l *load) lasts(rounds int64, d time.Duration) {
	l.t.Helper()
	began, from := time.Now(), l.rounds.Load()
	for l.rounds.Load()-from < rounds || time.Since(began) < d {
		if l.t.Failed() {
			l.t.FailNow()
		}
		if time.Since(began) > d+time.Minute {
			l.t.Fatalf("%d rounds in %v, want %d", l.rounds.Load()-from, time.Since(began), rounds)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// without takes a node out of rotation, as a load balancer does before a restart, calls
// f, and puts the node back.
func (l *load) without(i int, f func(n *binary.Server)) {
	p := l.places[i]
	p.busy.Lock()
	defer p.busy.Unlock()
	f(p.Server)
	l.client.CloseIdleConnections()
}

// on sends a request to the next node in rotation.
func (l *load) on(f func(n *binary.Server) error) error {
	for {
		p := l.places[int(l.turn.Add(1))%len(l.places)]
		if !p.busy.TryRLock() {
			time.Sleep(time.Millisecond)
			continue
		}
		defer p.busy.RUnlock()
		return f(p.Server)
	}
}

// post requires a pair if wanted, and otherwise invalid_grant.
func (l *load) post(form url.Values, wanted bool) (a binary.Answer, err error) {
	err = l.on(func(n *binary.Server) error {
		if a, err = n.Post(l.t.Context(), l.client, form); err != nil {
			return err
		}
		if good := a.Status == http.StatusOK; good != wanted || !good && a.Error != "invalid_grant" {
			return fmt.Errorf("%s is answered %d %s %q; want a pair: %t", form.Get("grant_type"), a.Status, a.Error, a.Description, wanted)
		}
		return nil
	})
	return a, err
}

func (l *load) introspect(n *binary.Server, token string) (active bool, err error) {
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, address(n, "introspect"), strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(l.api, l.secret)
	resp, err := l.client.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var body struct{ Active *bool }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != http.StatusOK || body.Active == nil {
		return false, fmt.Errorf("introspection is answered %s, %w", resp.Status, err)
	}
	return *body.Active, nil
}

// isActive introspects an access token at the next node.
func (l *load) isActive(token string, want bool) error {
	return l.on(func(n *binary.Server) error {
		active, err := l.introspect(n, token)
		if err == nil && active != want {
			err = fmt.Errorf("an access token is active: %t, want %t", active, want)
		}
		return err
	})
}

func (l *load) revoke(token string) error {
	return l.on(func(n *binary.Server) error {
		resp, err := l.client.PostForm(address(n, "token/revoke"), url.Values{"token": {token}, "client_id": {n.ClientID}, "client_secret": {n.ClientSecret}})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("a revocation is answered %s", resp.Status)
		}
		return nil
	})
}

// address returns another endpoint of a node.
func address(n *binary.Server, path string) string {
	base, _, _ := strings.Cut(n.TokenEndpoint, "access_token")
	return base + path
}

func (l *load) code(subject string) (code string, err error) {
	err = l.on(func(n *binary.Server) error {
		ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
		defer cancel()
		code, err = n.FastCode(ctx, subject)
		return err
	})
	return code, err
}

// round runs a grant's whole life, with each step at the next node.
func (l *load) round(subject string) error {
	demo := l.places[0].Server
	code, err := l.code(subject)
	if err != nil {
		return err
	}
	pair, err := l.post(demo.ExchangeForm(code), true)
	if err != nil {
		return err
	}
	spent := pair
	for range 3 {
		spent = pair
		if pair, err = l.post(demo.RefreshForm(spent.RefreshToken), true); err != nil {
			return err
		}
		// Repeat the request, as a client that lost the response would.
		again, err := l.post(demo.RefreshForm(spent.RefreshToken), true)
		if err != nil {
			return err
		}
		if again.RefreshToken != pair.RefreshToken || again.AccessToken != pair.AccessToken {
			return errors.New("a repeated refresh got another pair")
		}
	}
	if err := l.isActive(pair.AccessToken, true); err != nil {
		return err
	}
	if len(subject)%2 == 0 {
		err = l.revoke(pair.RefreshToken)
	} else if _, err = l.post(demo.RefreshForm(pair.RefreshToken), true); err == nil {
		// Once the successor was used, its spent predecessor is a replay.
		_, err = l.post(demo.RefreshForm(spent.RefreshToken), false)
	}
	if err != nil {
		return err
	}
	if err := l.isActive(pair.AccessToken, false); err != nil {
		return err
	}
	_, err = l.post(demo.RefreshForm(pair.RefreshToken), false)
	return err
}
