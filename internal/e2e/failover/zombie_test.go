//go:build e2e

package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// ignored checks that no node uses the old primary, which is back and considers itself
// the primary. With alone, it also checks this while no other server is reachable.
func (w *world) ignored(alone bool) {
	w.Helper()
	before := w.content()
	// The new primary refuses connections for a moment, so that the nodes try the old
	// one.
	w.new().line.Target("127.0.0.1:1")
	w.new().line.Sever()
	w.load.Mark()
	for end := time.Now().Add(patience); w.old().server.Run(w, "mintage", `SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'`) != "t"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("no node has tried the old primary: nothing was tested")
		}
	}
	time.Sleep(500 * time.Millisecond)
	w.unserved()
	w.new().line.Target(w.new().server.Address())
	w.load.Mark()
	w.recovered("beside the old primary", 15*time.Second)
	if alone {
		w.refused()
	}
	if after := w.content(); after != before {
		w.Errorf("the old primary has accepted a write: %q, before %q", after, before)
	}
}

// content summarizes the grants that the old primary has stored.
func (w *world) content() string {
	return w.old().server.Run(w, "mintage", `SELECT count(*), sum(version), sum(generation), sum(state) FROM grants`)
}

// refused cuts the new primary off, so that only the old one is reachable, and presents
// valid codes and tokens: every answer must be 503.
func (w *world) refused() {
	w.Helper()
	const length = 8 * time.Second // longer than the five seconds without news after which nodes stop serving
	type good struct {
		token, access string
		codes         []string
	}
	kept := make([]good, len(w.nodes))
	for i, n := range w.nodes {
		// The codes are known to nobody else, and no node has cached them.
		for range 40 {
			w.soon("a code is issued", func() error {
				code, err := n.FastCode(w.Context(), "zombie")
				if err == nil {
					kept[i].codes = append(kept[i].codes, code)
				}
				return err
			})
		}
		var a binary.Answer
		w.soon("a code is redeemed", func() (err error) {
			if a, err = n.Post(w.Context(), w.client, n.ExchangeForm(kept[i].codes[0])); err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("status %d", a.Status)
			}
			return err
		})
		kept[i].token, kept[i].access, kept[i].codes = a.RefreshToken, a.AccessToken, kept[i].codes[1:]
	}
	w.new().line.Cut()
	w.load.Mark()
	var asking sync.WaitGroup
	began := time.Now()
	for i, n := range w.nodes {
		asking.Go(func() {
			for k := 0; time.Since(began) < length && k < len(kept[i].codes); k++ {
				asking.Go(func() { w.unavailable(n.TokenEndpoint, n.ExchangeForm(kept[i].codes[k])) })
				asking.Go(func() { w.unavailable(n.TokenEndpoint, n.RefreshForm(kept[i].token)) })
				for _, token := range []string{kept[i].access, kept[i].token} {
					asking.Go(func() { w.unavailable(endpoint(n, "introspect"), about(n, token)) })
				}
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	asking.Wait()
	w.unserved()
	w.new().line.Heal()
	w.load.Mark()
	w.recovered("in reach again", 15*time.Second)
	for i, n := range w.nodes {
		w.soon("a token that was refused for want of a database is good", func() error {
			a, err := n.Post(w.Context(), w.client, n.RefreshForm(kept[i].token))
			switch {
			case err == nil && a.Status == http.StatusServiceUnavailable:
				err = errors.New(a.Error)
			case err == nil && a.Status != http.StatusOK:
				w.Fatalf("refresh a token that was answered 503 without a primary: %d %s", a.Status, a.Error)
			}
			return err
		})
	}
}

// soon repeats do while a node may still find dead connections.
func (w *world) soon(what string, do func() error) {
	w.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			w.Fatalf("%s: %v", what, err)
		}
	}
}

// endpoint returns the address of another endpoint of a node.
func endpoint(n *binary.Server, name string) string {
	return strings.Replace(n.TokenEndpoint, "access_token", name, 1)
}

// about returns a form for the introspection or revocation of a token.
func about(n *binary.Server, token string) url.Values {
	return url.Values{"token": {token}, "client_id": {n.ClientID}, "client_secret": {n.ClientSecret}}
}

// An outcome is a node's answer to a form.
type outcome struct {
	status     int
	retryAfter string
	Active     bool   `json:"active"`
	Error      string `json:"error"`
}

func (w *world) send(address string, form url.Values) (o outcome, err error) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(w.Context()), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return o, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := w.client.Do(req)
	if err != nil {
		return o, err
	}
	defer resp.Body.Close()
	o.status, o.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil && err != io.EOF { // a revocation has no body
		return o, err
	}
	return o, nil
}

// unavailable sends a form and requires 503, within the time limit of a request.
func (w *world) unavailable(address string, form url.Values) {
	began := time.Now()
	o, err := w.send(address, form)
	if err != nil {
		w.Errorf("while only the old primary is reachable: %v", err)
		return
	}
	if o.status != http.StatusServiceUnavailable || o.retryAfter == "" || o.Active {
		w.Errorf("while only the old primary is reachable, %s answers %+v, want 503", address, o)
	}
	// A request may take five seconds, and more on a busy machine.
	if d := time.Since(began); d > 15*time.Second {
		w.Errorf("while only the old primary is reachable, an answer took %v", d)
	}
}
