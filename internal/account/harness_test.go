package account

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm   = "/api"
	right   = "correct horse"
	wrong   = "wrong horse"
	started = grant.Instant(1_700_000_000_123)
)

var (
	home      = netip.MustParseAddr("192.0.2.1")
	elsewhere = netip.MustParseAddr("198.51.100.7")
)

// A fixture is built-in users on the real engine, with a clock that stands still, a store
// with fault injection, and a count of hash operations.
type fixture struct {
	*Users
	t      *testing.T
	faulty *storetest.Faulty

	mu     sync.Mutex
	now    grant.Instant
	hashes []string // the parameters of every compared hash
	typed  int      // the length of the longest password that was hashed
	log    strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	_, faulty := testkit.Store(t)
	h := &fixture{t: t, faulty: faulty, now: started}
	ring := newRing(t)
	h.Users = New(Users{
		Realm: realm, Store: h.faulty, Ring: func() (*keys.Ring, error) { return ring, nil },
		Now: func() time.Time { return h.clock().Time() }, Log: slog.New(slog.NewTextHandler(h, nil)),
	})
	h.countHashes()
	return h
}

func newRing(t *testing.T) *keys.Ring {
	t.Helper()
	kek := testkit.KEK(t)
	var records []keys.Stored
	for _, p := range keys.Purposes {
		rec, err := keys.New(kek, p, started, started)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	ring, err := keys.Open(kek, records)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// countHashes records every hash comparison before it is made.
func (h *fixture) countHashes() {
	match := h.match
	h.match = func(ctx context.Context, phc string, spellings []oauth.Secret, shares ...keys.Share) (int, error) {
		h.mu.Lock()
		fields := strings.Split(phc, "$")
		for _, s := range spellings {
			h.typed = max(h.typed, len(s))
			h.hashes = append(h.hashes, strings.Join(fields[:min(4, len(fields))], "$"))
		}
		h.mu.Unlock()
		return match(ctx, phc, spellings, shares...)
	}
}

// hashed returns and clears the parameters of the compared hashes.
func (h *fixture) hashed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.hashes
	h.hashes = nil
	return list
}

func (h *fixture) clock() grant.Instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *fixture) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// Write records the log.
func (h *fixture) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

func (h *fixture) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// cheaply makes password hashes cost a ten-thousandth, for tests that are not about
// hashing.
func (h *fixture) cheaply() { h.dummy = cheap("nobody's") }

func cheap(password string) string {
	salt := []byte("sixteen bytes ok")
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", enc.EncodeToString(salt), enc.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)))
}

// add stores a user with the right password, cheaply hashed.
func (h *fixture) add(username string) User {
	h.t.Helper()
	u := User{Realm: realm, Username: username, Subject: "s-" + username, State: Enabled, Password: cheap(right), CreatedAt: started}.changed(started)
	h.put(u)
	return u
}

func (h *fixture) put(u User) {
	h.t.Helper()
	if err := Put(h.t.Context(), h.faulty, u, store.Change{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) stored(username string) User {
	h.t.Helper()
	u, err := Find(h.t.Context(), h.faulty, realm, username)
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

func (h *fixture) try(username, password string, v Visitor) error {
	_, err := h.Password(h.t.Context(), username, password, v)
	return err
}

// verdict returns an error as one word.
func verdict(err error) string {
	var throttled *Throttled
	switch {
	case err == nil:
		return "right"
	case errors.Is(err, ErrWrong) && !errors.Is(err, store.ErrUnavailable):
		return "wrong"
	case errors.As(err, &throttled):
		return "throttled"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	}
	return err.Error()
}

// is requires a verdict on an attempt.
func (h *fixture) is(want string, err error, about string) {
	h.t.Helper()
	if got := verdict(err); got != want {
		h.t.Errorf("%s: %s, want %s", about, got, want)
	}
}

func document(t *testing.T, u User) store.Document {
	t.Helper()
	d, err := u.Document()
	if err != nil {
		t.Fatal(err)
	}
	return d
}
