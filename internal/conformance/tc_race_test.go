package conformance_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func s256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// atOnce sends one form n times simultaneously.
func (d *deployment) atOnce(n int, form url.Values) []answer {
	d.t.Helper()
	return d.together(slices.Repeat([]*request{newRequest(form)}, n)...)
}

// together sends each request without its last byte on its own connection, and then all
// last bytes simultaneously.
func (d *deployment) together(list ...*request) []answer {
	d.t.Helper()
	conns, last := make([]net.Conn, len(list)), make([]string, len(list))
	for i, r := range list {
		text := r.text()
		last[i] = text[len(text)-1:]
		conns[i] = d.dial(local())
		defer conns[i].Close()
		conns[i].SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(conns[i], text[:len(text)-1]); err != nil {
			d.t.Fatal(err)
		}
	}
	answers, errs := make([]answer, len(list)), make([]error, len(list))
	var done sync.WaitGroup
	release := make(chan struct{})
	for i, conn := range conns {
		done.Go(func() {
			<-release
			if _, errs[i] = io.WriteString(conn, last[i]); errs[i] == nil {
				answers[i], errs[i] = readAnswer(bufio.NewReader(conn), list[i].method)
			}
		})
	}
	close(release)
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		d.t.Fatal(err)
	}
	return answers
}

// winners returns the successes among answers; the others must be invalid_grant.
func winners(t *testing.T, answers []answer) (pairs []tokens) {
	t.Helper()
	for _, a := range answers {
		if a.status == 200 {
			pairs = append(pairs, a.tokens)
			continue
		}
		want(t, a, 400, "invalid_grant")
	}
	return pairs
}

func TestTC19_ConcurrentRedemptionHasOneWinner(t *testing.T) {
	d := start(t, strict)
	for _, n := range []int{2, 8, 64, 100} {
		for _, forced := range []bool{false, true} {
			if forced {
				// All requests decide to create the grant before one of them does.
				d.faulty.Before(gather(n, storetest.CreateGrant))
			}
			code := d.code(d.a)
			pairs := winners(t, d.atOnce(n, d.a.redeem(code.Code)))
			d.faulty.Heal()
			if len(pairs) != 1 {
				t.Fatalf("%d winners of %d (forced: %v)", len(pairs), n, forced)
			}
			// The losers were replays, so the winner's tokens are revoked.
			d.dead(d.a, pairs[0].RefreshToken, code.GrantID, grant.ReasonCodeReplayed)
			if g := d.row(code.GrantID); g.Generation != 1 {
				t.Errorf("generation %d: more than one pair was issued", g.Generation)
			}
		}
	}
}

// The loser reads the winner's grant before the winner has its response.
func TestTC21_ALoserRevokesWhatTheWinnerIsAboutToGet(t *testing.T) {
	d := start(t, strict)
	code := d.code(d.a)
	created, release := make(chan struct{}), make(chan struct{})
	d.faulty.After(func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.CreateGrant {
			close(created)
			<-release
		}
		return nil
	})
	client := d.httpClient()
	type outcome struct {
		answer
		err error
	}
	winner := make(chan outcome, 1)
	go func() {
		a, err := d.postVia(client, d.a.redeem(code.Code))
		winner <- outcome{a, err}
	}()
	<-created
	want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
	close(release)
	won := <-winner
	if won.err != nil {
		t.Fatal(won.err)
	}
	d.faulty.Heal()
	d.dead(d.a, d.mustIssue(won.answer).RefreshToken, code.GrantID, grant.ReasonCodeReplayed)
}

// Only the owner of a code may find that refusing it takes longer than refusing an
// invented one. The test counts the store operations of each refusal, which are all that
// timing could reveal.
func TestTC33_AStrangersCodeNeverReachesTheStore(t *testing.T) {
	d := start(t, strict)
	fresh, spent, expired := d.code(d.a, pkce), d.code(d.a), d.code(d.a)
	d.mustIssue(d.post(d.a.redeem(spent.Code)))
	operations := func(form url.Values) int32 {
		t.Helper()
		var n atomic.Int32
		d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
			if op != storetest.Changes {
				n.Add(1)
			}
			return nil
		})
		defer d.faulty.Heal()
		want(t, d.post(form), 400, "invalid_grant")
		return n.Load()
	}
	for name, form := range map[string]url.Values{
		"made up":            d.a.redeem("made-up"),
		"altered":            d.a.redeem(fresh.Code[:len(fresh.Code)-1] + "A"),
		"foreign":            d.b.redeem(fresh.Code),
		"foreign and spent":  d.b.redeem(spent.Code),
		"another URI":        with(d.a.redeem(fresh.Code), "redirect_uri", otherRedirect, "code_verifier", verifier),
		"another URI, spent": with(d.a.redeem(spent.Code), "redirect_uri", otherRedirect),
		"without proof":      d.a.redeem(fresh.Code),
		"made-up token":      d.a.refresh("made-up"),
	} {
		if n := operations(form); n != 0 {
			t.Errorf("%s: %d operations on the store", name, n)
		}
	}
	d.step(time.Minute)
	if n := operations(d.a.redeem(expired.Code)); n != 1 {
		t.Errorf("expired: %d operations on the store, want the one look-up", n)
	}
}

// A write that failed leaves the code valid.
func TestTC22_AFailedRedemptionLeavesTheCodeWhole(t *testing.T) {
	d := start(t, strict)
	code := d.code(d.a)
	for range 3 {
		d.faulty.Before(failing(storetest.CreateGrant))
		want(t, d.post(d.a.redeem(code.Code)), 503, "temporarily_unavailable")
		d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
			if op == storetest.CreateGrant {
				panic("bug")
			}
			return nil
		})
		want(t, d.post(d.a.redeem(code.Code)), 500, "server_error")
	}
	d.faulty.Heal()
	if _, err := d.sqlite.Grant(t.Context(), code.GrantID); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("a grant exists without an answer: %v", err)
	}
	d.mustIssue(d.post(d.a.redeem(code.Code)))
	want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
}

func TestTC34_TK03_NothingAtRestCanBeReplayed(t *testing.T) {
	d := start(t)
	imported := d.client(client.Registration{Secret: "an imported secret of somebody"})
	var secrets []string
	for i, c := range []oauthClient{d.a, imported} {
		for range 3 {
			code := d.code(c, pkce, func(a *issuer.Authorization) { a.Subject = fmt.Sprint("subject", i) })
			first := d.mustIssue(d.post(with(c.redeem(code.Code), "code_verifier", verifier)))
			second := d.alive(c, first.RefreshToken)
			secrets = append(secrets, code.Code, first.RefreshToken, first.AccessToken, second.RefreshToken, second.AccessToken)
		}
		secrets = append(secrets, c.secret)
	}
	secrets = append(secrets, verifier)
	d.searchFiles(secrets)
}
