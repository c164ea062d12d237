package conformance_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store/storetest"
)

// node adds another server with the same store, and with its own directory, clock and
// address.
func (d *deployment) node() *deployment {
	d.t.Helper()
	n := &deployment{t: d.t, dir: d.dir, log: d.log, store: d.store, sqlite: d.sqlite, kek: d.kek, roots: d.roots, ended: d.ended, a: d.a, b: d.b}
	n.clock.Store(d.clock.Load())
	log := slog.New(slog.NewJSONHandler(n.log, nil))
	var err error
	if n.directory, err = directory.Open(d.t.Context(), d.store, d.kek, keySchedule, log, time.Now); err != nil {
		d.t.Fatal(err)
	}
	n.issuer = issuer.New(issuer.Issuer{
		Realm: realm, ID: issuerID, Store: d.store, Directory: n.directory, Policy: d.issuer.Policy,
		RetryWindowPublic: d.issuer.RetryWindowPublic, CodeLifetime: d.issuer.CodeLifetime, RevocationsMaxAge: d.issuer.RevocationsMaxAge,
		Now: n.now, Log: log,
	})
	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.directory.Run(background) })

	o := options{Options: server.Options{Site: server.Site{PublicURL: publicURL}, BasicAuthStatus: 401}, Front: n.newFront()}
	srv := server.HTTPServer(newServer(n.issuer, &o, log).Handler(), log)
	certFile, keyFile, _ := certificate(d.t)
	cert, err := server.LoadCertificate(certFile, keyFile, log)
	if err != nil {
		d.t.Fatal(err)
	}
	srv.TLSConfig = server.TLSConfig(cert)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	n.address = listener.Addr().String()
	running.Go(func() { srv.ServeTLS(listener, "", "") })
	d.t.Cleanup(func() {
		srv.Close()
		stop()
		running.Wait()
	})
	return n
}

// form returns a browser's POST to a page of the server, as a raw request.
func (b *browser) form(address string, pairs ...string) *request {
	r := newRequest(pairsOf(pairs))
	r.target = target(address)
	at, _ := url.Parse(publicURL)
	for _, c := range b.Jar.Cookies(at) {
		r.header = append(r.header, "Cookie: "+c.Name+"="+c.Value)
	}
	r.set("Sec-Fetch-Site", "same-origin")
	return r
}

// meet holds the first n calls of a method until all have arrived, so that all decide on
// the same state before one of them writes.
func meet(f *storetest.Faulty, m storetest.Method, n int) {
	var all sync.WaitGroup
	all.Add(n)
	f.Inject(m, n, storetest.Meanwhile(func() {
		all.Done()
		all.Wait()
	}))
}

// One consent never gives two codes: fifty submissions of one form, at two nodes with
// different clocks, all read the interaction before it is decided.
func TestAZ62_OneConsentGivesOneCodeHoweverOftenItIsSent(t *testing.T) {
	const submissions = 50
	d, b := signedIn(t)
	other := d.node()
	other.step(time.Second)
	id := b.follow(b.get(asking(d.a))).field("id")
	forms := func(n int) (list []*request) {
		for range n {
			list = append(list, b.form(interactionURL, "id="+id, "step=consent", "decision=allow", "remember=yes"))
		}
		return list
	}
	meet(d.faulty, storetest.CommitDocument, submissions)
	var here, there []answer
	var both sync.WaitGroup
	both.Go(func() { here = d.together(forms(submissions / 2)...) })
	both.Go(func() { there = other.together(forms(submissions / 2)...) })
	both.Wait()
	places := map[string]int{}
	for _, a := range append(here, there...) {
		granted(t, a.status, a.to(), redirect)
		places[a.to()]++
	}
	if len(places) != 1 || len(here)+len(there) != submissions {
		t.Fatalf("%d submissions gave %d answers", len(here)+len(there), len(places))
	}
	first := granted(t, here[0].status, here[0].to(), redirect).Get("code")
	pair := d.mustRedeem(d.a, first)
	if list := d.grants(); len(list) != 1 || list[0].State != grant.Active {
		t.Errorf("%d grants of one consent", len(list))
	}
	// Later submissions at either node do not end the grant.
	for _, a := range []answer{d.send(forms(1)[0]), other.send(forms(1)[0])} {
		a.isRefusedPage(t, "a submission after the code was used", 409)
	}
	d.alive(d.a, pair.RefreshToken)
	// Every node has the remembered consent.
	b.get(asking(d.a, "prompt=none")).granted(t, redirect)
	a := other.sendRaw(b, "GET", target(asking(d.a, "prompt=none")))
	granted(t, a.status, a.to(), redirect)
}

// If both buttons are sent simultaneously, one decision counts, and the other gets an
// error page.
func TestAZ62_AllowAndDenyAtOnce(t *testing.T) {
	d, b := signedIn(t)
	for range 3 {
		id := b.follow(b.get(asking(d.a, "prompt=consent"))).field("id")
		allow := b.form(interactionURL, "id="+id, "step=consent", "decision=allow")
		deny := b.form(interactionURL, "id="+id, "step=consent", "decision=deny")
		meet(d.faulty, storetest.CommitDocument, 8)
		answers := d.together(allow, deny, allow, deny, allow, deny, allow, deny)
		said := map[string]bool{}
		for _, a := range answers {
			switch {
			case a.status == http.StatusSeeOther && strings.HasPrefix(a.to(), redirect+"?"):
				said[a.to()] = true
			case a.status != 409:
				t.Errorf("status %d to %.60q", a.status, a.to())
			}
		}
		if len(said) != 1 {
			t.Errorf("%d answers to the client", len(said))
		}
	}
}
