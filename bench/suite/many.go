package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// maxAPIs is how many APIs a realm can have, minus room for those that the run creates.
const maxAPIs = 50_000

// maxUsers is the number of built-in users, of at most account.MaxUsers.
const maxUsers = account.MaxUsers - 2000

// A crowd measures the cost of a directory with many clients, APIs, users and consents to
// self-registered clients: as many of each as -entries says, up to the limits. It uses
// the real server's admin API, on both engines.
type crowd struct {
	options
	dir, program string
	data         *dataset
	open         opener
	args         []string // flags of serve
	server       *child
	admin        http.Client
	lines        []line
}

// A line is a figure of the report. bad reports that it misses its limit.
type line struct{ engine, name, value, bar, verdict string }

// onEachEngine calls measure for each engine, with a data directory of its own, until
// measure returns an error.
func onEachEngine(ctx context.Context, opt options, measure func(engine string, c crowd) error) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := opt.build(ctx, dir)
	if err != nil {
		return err
	}
	database, err := newCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.stop()) }()
	for _, engine := range []struct {
		name string
		open opener
		args []string
	}{
		{"SQLite", embedded, nil},
		{"PostgreSQL", database.open, []string{"--store", database.url()}},
	} {
		c := crowd{options: opt, dir: filepath.Join(dir, engine.name), program: program, open: engine.open, args: engine.args}
		if err := measure(engine.name, c); err != nil {
			return fmt.Errorf("%s: %w", engine.name, err)
		}
	}
	return nil
}

// measureMany fills a store of each engine and reports how long a change, a page, a
// search and a start take.
func measureMany(ctx context.Context, opt options) error {
	var lines []line
	err := onEachEngine(ctx, opt, func(engine string, c crowd) error {
		err := c.measure(ctx)
		if c.server != nil {
			c.server.kill()
		}
		for _, l := range c.lines {
			l.engine = engine
			lines = append(lines, l)
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s. %s clients and as many agreements of self-registered clients, %s APIs, %s users; times are the median (largest) of %d.\n\n| engine | figure | measured | bar | |\n| --- | --- | ---: | ---: | --- |\n",
		machine(), thousands(float64(opt.entries)), thousands(float64(min(opt.entries, maxAPIs))), thousands(float64(min(opt.entries, maxUsers))), opt.rounds)
	for _, l := range lines {
		fmt.Printf("| %s | %s | %s | %s | %s |\n", l.engine, l.name, l.value, l.bar, l.verdict)
	}
	return nil
}

func (c *crowd) measure(ctx context.Context) (err error) {
	if c.data, err = makeDataset(ctx, c.dir, c.open, 0); err != nil {
		return err
	}
	// The first start makes certificates, and measures a server without many entries.
	first, err := serve(ctx, c.program, c.data, c.args...)
	if err != nil {
		return err
	}
	target := first.target
	before, err := bench.ReadUsage(first.pid())
	if err = errors.Join(err, first.stop()); err != nil {
		return err
	}
	note("filling the store")
	if err := c.fill(ctx); err != nil {
		return err
	}
	var starts []time.Duration
	for range c.rounds {
		if c.server != nil {
			if err := c.server.stop(); err != nil {
				return err
			}
		}
		began := time.Now()
		if c.server, err = peer(ctx, c.program, c.dir, c.data, target, c.args...); err != nil {
			return err
		}
		starts = append(starts, time.Since(began))
	}
	c.time("start until it serves", starts, 2*time.Second)
	after, err := bench.ReadUsage(c.server.pid())
	if err != nil {
		return err
	}
	entries := c.entries + min(c.entries, maxAPIs)
	c.report("memory of the server, for each client or API", fmt.Sprintf("%d bytes (%s of %s MB)", (after.Resident-before.Resident)/int64(entries), megabytes(after.Resident-before.Resident), megabytes(after.Resident)), "", "")
	c.admin.Transport = &http.Transport{MaxIdleConnsPerHost: 8, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.dir, "admin.sock"))
	}}
	if err := c.idle(ctx); err != nil {
		return err
	}
	if err := c.read(ctx); err != nil {
		return err
	}
	if err := c.create(ctx); err != nil {
		return err
	}
	return c.spread(ctx, target)
}

// fill stores the entries, many per commit.
func (c *crowd) fill(ctx context.Context) (err error) {
	st, err := c.open(ctx, c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	now := grant.At(time.Now())
	slow := keys.UnmatchableHash()
	numbers := make([]int, c.entries)
	for i := range numbers {
		numbers[i] = i + 1
	}
	for part := range slices.Chunk(numbers, 500) {
		var change store.Change
		for _, n := range part {
			client := store.Client{ID: fmt.Sprintf("client-%06d", n), Realm: realm, Version: 1, State: store.ClientEnabled, CreatedAt: now, UpdatedAt: now,
				Secrets: []store.Secret{{ID: fmt.Sprintf("secret-%06d", n), Digest: make([]byte, 32), CreatedAt: now}},
				Settings: store.Settings{Name: fmt.Sprintf("Application of customer %06d", n*7919%len(numbers)), Scope: "read write", Auth: store.AuthBasic,
					GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{callback}}}
			change.Entries = append(change.Entries, client.Entry())
			if n <= maxAPIs {
				api := store.API{ID: fmt.Sprintf("https://api-%06d.example.com/", n), Realm: realm, Name: fmt.Sprintf("Interface %06d", n), Number: uint16(n), Version: 1,
					LastScope: 1, Scopes: []store.APIScope{{Name: fmt.Sprintf("scope-%06d", n), Number: 1}}, CreatedAt: now, UpdatedAt: now}
				change.Entries = append(change.Entries, api.Entry())
			}
			own := client
			own.ID, own.RegisteredBy, own.Secrets, own.Version = fmt.Sprintf("https://agent-%06d.example.com/client.json", n), store.ByDocument, nil, 0
			change.Documents = append(change.Documents, own.Record(now.Add(-day), now.Add(90*day)))
		}
		if err := st.Commit(ctx, change); err != nil {
			return err
		}
		var users []account.User
		for _, n := range part {
			u, err := account.NewUser(account.Registration{Realm: realm, Username: fmt.Sprintf("user-%06d", n), Name: fmt.Sprintf("Person %06d", n), PasswordHash: slow}, now)
			if err != nil {
				return err
			}
			if n <= maxUsers {
				users = append(users, u)
			}
		}
		_, err := account.CreateAll(ctx, st, realm, users, false, func(u account.User) (store.Event, error) {
			return store.Event{At: now, Name: store.EventUserCreated, About: store.AboutSubject(u.Subject)}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) report(name, value, bar, verdict string) {
	note("  %s: %s %s %s", name, value, bar, verdict)
	c.lines = append(c.lines, line{name: name, value: value, bar: bar, verdict: verdict})
}

// time reports durations; bar is the limit of their median.
func (c *crowd) time(name string, list []time.Duration, bar time.Duration) {
	slices.Sort(list)
	typical, verdict := list[len(list)/2], "met"
	if typical > bar {
		verdict = "missed"
	}
	c.report(name, fmt.Sprintf("%s (%s)", milliseconds(typical), milliseconds(list[len(list)-1])), "≤ "+bar.String(), verdict)
}

// idle reports the cost of polls that find nothing.
func (c *crowd) idle(ctx context.Context) error {
	time.Sleep(2 * time.Second)
	before, err := bench.ReadUsage(c.server.pid())
	if err != nil {
		return err
	}
	const wait = 10 * time.Second
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
	}
	after, err := bench.ReadUsage(c.server.pid())
	c.report("processor time without requests", fmt.Sprintf("%.1f ms/s", float64(after.CPU-before.CPU)/float64(wait)*1000), "", "")
	return err
}

// call makes a request of the admin API and returns the answer.
func (c *crowd) call(ctx context.Context, method, path string, body any) (map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.admin.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	var members map[string]any
	err = json.Unmarshal(text, &members)
	return members, err
}

// read reports pages and searches.
func (c *crowd) read(ctx context.Context) error {
	middle := c.entries / 2
	middleUser := min(c.entries, maxUsers) / 2
	lists := []struct{ name, path, member, after, match string }{
		{"clients", "/admin/v1/clients", "clients", fmt.Sprintf("client-%06d", middle), fmt.Sprintf("customer %06d", middle)},
		{"APIs", "/admin/v1/apis", "apis", fmt.Sprintf("https://api-%06d.example.com/", min(c.entries, maxAPIs)/2), fmt.Sprintf("api-%06d", min(c.entries, maxAPIs)/2)},
		{"users", "/admin/v1/users", "users", fmt.Sprintf("user-%06d", middleUser), fmt.Sprintf("person %06d", middleUser)},
		{"self-registered clients", "/admin/v1/clients?self_registered=true", "clients", fmt.Sprintf("https://agent-%06d.example.com/client.json", middle), fmt.Sprintf("agent-%06d", middle)},
	}
	for _, l := range lists {
		for _, way := range []struct {
			name  string
			query url.Values
			want  int
		}{
			{"the first page of ", url.Values{"limit": {"50"}}, 50},
			{"a page in the middle of ", url.Values{"limit": {"50"}, "after": {l.after}}, 50},
			{"a search for one of ", url.Values{"limit": {"50"}, "match": {l.match}}, 1},
		} {
			path := l.path + "?" + way.query.Encode()
			if strings.Contains(l.path, "?") {
				path = l.path + "&" + way.query.Encode()
			}
			var took []time.Duration
			for range c.rounds {
				began := time.Now()
				answer, err := c.call(ctx, http.MethodGet, path, nil)
				if err != nil {
					return err
				}
				took = append(took, time.Since(began))
				if items, _ := answer[l.member].([]any); len(items) != way.want {
					return fmt.Errorf("%s has %d items, want %d", path, len(items), way.want)
				}
			}
			c.time(way.name+l.name, took, 20*time.Millisecond)
		}
	}
	return nil
}

// create reports how many entries four concurrent callers can create in a second.
func (c *crowd) create(ctx context.Context) error {
	slow := keys.UnmatchableHash()
	for _, kind := range []struct {
		name, path string
		callers    int
		body       func(n string) any
	}{
		{"clients", "/admin/v1/clients", 4, func(n string) any {
			return map[string]any{"name": "New " + n, "redirect_uris": []string{callback}, "scope": "read write", "auth_method": "basic"}
		}},
		{"APIs, by one caller", "/admin/v1/apis", 1, func(n string) any {
			return map[string]any{"id": "https://new-" + n + ".example.com", "name": "New " + n, "scopes": []map[string]any{{"name": "new-" + n}}}
		}},
		{"users, with a hash", "/admin/v1/users", 4, func(n string) any { return map[string]any{"username": "new-" + n, "password_hash": slow} }},
	} {
		var mu sync.Mutex
		var failed error
		made := 0
		began := time.Now()
		var callers sync.WaitGroup
		for caller := range kind.callers {
			callers.Go(func() {
				for n := 0; time.Since(began) < c.duration; n++ {
					_, err := c.call(ctx, http.MethodPost, kind.path, kind.body(fmt.Sprintf("%d-%d", caller, n)))
					mu.Lock()
					made++
					failed = errors.Join(failed, err)
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		callers.Wait()
		if failed != nil {
			return failed
		}
		rate, verdict := float64(made)/time.Since(began).Seconds(), "met"
		if rate < 300 {
			verdict = "missed"
		}
		c.report("new "+kind.name+", a second", thousands(rate), "≥ 300", verdict)
	}
	return nil
}

// spread reports the time until another node knows a new client; with the embedded store,
// until this one does.
func (c *crowd) spread(ctx context.Context, target bench.Target) error {
	other := c.server
	if len(c.args) > 0 {
		var err error
		if other, err = peer(ctx, c.program, c.dir+"-2", c.data, target, c.args...); err != nil {
			return err
		}
		defer other.kill()
	}
	caller := http.Client{Transport: &http.Transport{TLSClientConfig: target.TLS}}
	var took []time.Duration
	for n := range c.rounds {
		made, err := c.call(ctx, http.MethodPost, "/admin/v1/clients", map[string]any{"name": fmt.Sprint("Job ", n), "scope": "read", "grant_types": []string{store.GrantClientCredentials}, "auth_method": "basic"})
		if err != nil {
			return err
		}
		id, _ := made["client_id"].(string)
		secret, _ := made["client_secret"].(string)
		for began := time.Now(); ; time.Sleep(250 * time.Millisecond) { // few attempts, because the server limits failures
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, other.target.Endpoint, strings.NewReader("grant_type=client_credentials"))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
			answer, err := caller.Do(r)
			if err != nil {
				return err
			}
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				took = append(took, time.Since(began))
				break
			}
			if time.Since(began) > 10*time.Second {
				return fmt.Errorf("a new client is unknown after ten seconds: %s", answer.Status)
			}
		}
	}
	c.time("a new client has its token from another node after", took, 2*time.Second)
	return nil
}
