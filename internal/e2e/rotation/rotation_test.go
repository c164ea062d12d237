//go:build e2e

// Package rotation rotates every key of a loaded server, every two seconds or by command,
// and checks that no client and no verifier notices.
package rotation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A verifier caches as much as it may: it keeps the published keys for the whole max-age,
// and never fetches them early for an unknown key. It therefore refuses tokens of keys
// that the server used too soon.
type verifier struct {
	*world
	set     jose.JSONWebKeySet
	fetched time.Time
	maxAge  time.Duration
}

func (v *verifier) verify(ctx context.Context, token string) (kid string, err error) {
	if time.Since(v.fetched) > v.maxAge {
		// The age counts from before the request, because the set may be that old.
		began := time.Now()
		if v.set, v.maxAge, err = v.keys(ctx); err != nil {
			return "", err
		}
		v.fetched = began
	}
	signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return "", err
	}
	kid = signed.Signatures[0].Header.KeyID
	known := v.set.Key(kid)
	if len(known) != 1 {
		return kid, fmt.Errorf("key %s is not among the %d keys fetched %s ago", kid, len(v.set.Keys), time.Since(v.fetched))
	}
	_, err = signed.Verify(known[0])
	return kid, err
}

// A world is the server under test, and counts of the tokens that were checked.
type world struct {
	*binary.Server
	base   string
	client *http.Client

	mu     sync.Mutex
	signed map[string]int // JWTs by the key that signed them
	tokens int            // all tokens that were checked
}

func (w *world) keys(ctx context.Context) (set jose.JSONWebKeySet, maxAge time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/jwks", nil)
	if err != nil {
		return set, 0, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return set, 0, err
	}
	defer resp.Body.Close()
	_, age, ok := strings.Cut(resp.Header.Get("Cache-Control"), "max-age=")
	seconds, err := strconv.Atoi(age)
	if resp.StatusCode != http.StatusOK || !ok || err != nil {
		return set, 0, fmt.Errorf("keys: status %d, Cache-Control %q", resp.StatusCode, resp.Header.Get("Cache-Control"))
	}
	return set, time.Duration(seconds) * time.Second, json.NewDecoder(resp.Body).Decode(&set)
}

// active introspects a token at the server.
func (w *world) active(ctx context.Context, id, secret, token string) error {
	form := url.Values{"token": {token}, "client_id": {id}, "client_secret": {secret}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/introspect", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var a struct {
		Active bool `json:"active"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || !a.Active {
		return fmt.Errorf("introspection: status %d, active %t, %v", resp.StatusCode, a.Active, err)
	}
	return nil
}

// chain redeems a code and refreshes until ctx ends. It keeps the last access tokens to
// check them again.
func (w *world) chain(ctx context.Context, id, secret, code string, pause time.Duration) error {
	v := &verifier{world: w}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {w.RedirectURI}, "client_id": {id}, "client_secret": {secret}}
	var kept []string
	for ctx.Err() == nil {
		a, err := w.Post(ctx, w.client, form)
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil || a.Status != http.StatusOK {
			return fmt.Errorf("%s: status %d %s, %v", form.Get("grant_type"), a.Status, a.Error, err)
		}
		kept = append(kept, a.AccessToken)
		// Check the newest token, whose key may have just come into use, and the oldest
		// one, whose key was retired long ago.
		for _, token := range []string{kept[len(kept)-1], kept[0]} {
			if err := w.check(ctx, v, id, secret, token); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if len(kept) == 100 {
			kept = kept[1:]
		}
		form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {a.RefreshToken}, "client_id": {id}, "client_secret": {secret}}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func (w *world) check(ctx context.Context, v *verifier, id, secret, token string) error {
	if err := w.active(ctx, id, secret, token); err != nil {
		return err
	}
	kid := "mac"
	if strings.Count(token, ".") == 2 {
		var err error
		if kid, err = v.verify(ctx, token); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signed[kid]++
	w.tokens++
	return nil
}

// A registered is a registered client.
type registered struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

// oneOfEach configures JWTs for the demo client, and registers a client with opaque
// tokens.
func (w *world) oneOfEach(t *testing.T) (opaque registered) {
	t.Helper()
	w.Run(t, "client", "update", w.ClientID, "--access-token-format", "jwt")
	out := w.Run(t, "client", "create", "--json", "--name", "Opaque", "--no-pkce", "--redirect-uri", w.RedirectURI, "--scope", "read")
	if err := json.Unmarshal([]byte(out), &opaque); err != nil {
		t.Fatal(err)
	}
	return opaque
}

// TestMD19_KeysRotateUnderLoadAndNobodyNotices rotates keys every two seconds. Codes
// outlive several rotations of the sealing key, refresh tokens several of the MAC key,
// and verifiers cache the published keys as long as they may.
func TestMD19_KeysRotateUnderLoadAndNobodyNotices(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "--key-lifetime", "2s", "--key-lead", "16s", "--jwks-max-age", "1s")
	base, _, _ := strings.Cut(s.TokenEndpoint, "/access_token")
	w := &world{Server: s, base: base, client: &http.Client{Transport: s.Transport(t, "")}, signed: map[string]int{}}
	opaque := w.oneOfEach(t)
	length := time.Duration(binary.Scaled(24, 180)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length+2*time.Minute)
	defer cancel()
	// The first rotation is eleven seconds after the start, when all verifiers can have
	// the key; then there is one every two seconds.
	enough := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.signed)-1 >= 4 && w.tokens >= 200
	}
	var wg sync.WaitGroup
	run := func(id, secret, code string, pause time.Duration) {
		wg.Go(func() {
			if err := w.chain(ctx, id, secret, code, pause); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	run(opaque.ID, opaque.Secret, s.Code(t, "carol", "--client", opaque.ID), 50*time.Millisecond)
	run(opaque.ID, opaque.Secret, s.Code(t, "dave", "--client", opaque.ID), 7*time.Second)
	for i := range 4 {
		code, err := s.FastCode(ctx, fmt.Sprintf("user-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		// One client refreshes every seven seconds: three keys later.
		run(s.ClientID, s.ClientSecret, code, []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 7 * time.Second}[i])
	}
	// Redeem codes six seconds after their issue: three keys later.
	for end := time.Now().Add(length); ctx.Err() == nil; {
		if time.Now().After(end) && enough() {
			cancel()
			break
		}
		code, err := s.FastCode(ctx, "late")
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(6 * time.Second):
			a, err := s.Post(ctx, w.client, s.ExchangeForm(code))
			if ctx.Err() == nil && (err != nil || a.Status != http.StatusOK) {
				t.Errorf("redeem a code after six seconds: status %d %s, %v", a.Status, a.Error, err)
				cancel()
			}
		}
	}
	wg.Wait()
	if !enough() {
		t.Errorf("%d tokens, signed by %d keys: too few for a conclusion", w.tokens, len(w.signed)-1)
	}
	t.Logf("%d tokens of %d signing keys", w.tokens, len(w.signed)-1)
}

// TestMD19_AnEarlyRotationUnderLoadLosesNoRequestAndNoToken rotates all keys by command
// long before they are due, as after an incident. Every request succeeds, and tokens of
// the old keys stay valid.
func TestMD19_AnEarlyRotationUnderLoadLosesNoRequestAndNoToken(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "--key-lead", "16s", "--jwks-max-age", "1s")
	base, _, _ := strings.Cut(s.TokenEndpoint, "/access_token")
	w := &world{Server: s, base: base, client: &http.Client{Transport: s.Transport(t, "")}, signed: map[string]int{}}
	opaque := w.oneOfEach(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	run := func(id, secret, code string, pause time.Duration) {
		wg.Go(func() {
			if err := w.chain(ctx, id, secret, code, pause); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	run(opaque.ID, opaque.Secret, s.Code(t, "carol", "--client", opaque.ID), 50*time.Millisecond)
	for i := range 3 {
		run(s.ClientID, s.ClientSecret, s.Code(t, fmt.Sprintf("user-%d", i)), []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second}[i])
	}
	early, err := s.FastCode(ctx, "early")
	if err != nil {
		t.Fatal(err)
	}
	rotate := binary.Command(t, "keys", "rotate", "--data", s.Dir)
	rotate.Env = append(rotate.Env, "MINTAGE_JWKS_MAX_AGE=1s") // the server's setting
	if out, err := rotate.CombinedOutput(); err != nil {
		t.Fatalf("keys rotate: %v\n%s", err, out)
	}
	enough := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		kids := 0
		for kid, n := range w.signed {
			if kid != "mac" && n > 50 {
				kids++
			}
		}
		return kids == 2
	}
	for !enough() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	if !enough() {
		t.Errorf("JWTs by %v: the new keys were not used within three minutes", w.signed)
	}
	// The sealing key was rotated, too.
	if a, err := s.Post(t.Context(), w.client, s.ExchangeForm(early)); err != nil || a.Status != http.StatusOK {
		t.Errorf("redeem a code of before the rotation: status %d %s, %v", a.Status, a.Error, err)
	}
	cancel()
	wg.Wait()
}
