package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// record stores a consent, like an interaction that the user allows.
func (h *fixture) record(subject, clientID string, scope oauth.Scope, remember bool) {
	h.t.Helper()
	it := &Interaction{Step: StepConsent, Identity: &Identity{Subject: subject}, Request: oauth.AuthorizationRequest{ClientID: clientID, Scope: scope}}
	err := h.Authorizer.begin(h.t.Context(), it, someone(), true)
	if err == nil {
		err = h.decide(h.t.Context(), &Stage{Interaction: it, Client: &store.Client{ID: clientID}, view: h.kit.View()}, Decision{Allow: true, Remember: remember}, true)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) recorded(subject, clientID string) Consent {
	h.t.Helper()
	cs, err := h.consents(h.t.Context(), subject)
	if err != nil {
		h.t.Fatal(err)
	}
	return cs.Of[clientID]
}

func TestConsentsForgetTheOldestWhenFull(t *testing.T) {
	cs := consents{Of: map[string]Consent{}, version: 6}
	long := oauth.Scope(strings.Repeat("s", 800))
	const many = 40
	for i := range many {
		cs.Of[fmt.Sprintf("client-%02d", i)] = Consent{Scope: long, At: grant.Instant(1000 + (i*7)%many)}
	}
	d, err := cs.document()
	if err != nil || len(d.Body) > store.MaxDocument || d.Version != 7 || d.Kind != store.DocumentConsents || d.ExpiresAt != 0 {
		t.Fatalf("%d bytes, version %d, %v", len(d.Body), d.Version, err)
	}
	var kept consents
	if err := json.Unmarshal(d.Body, &kept); err != nil {
		t.Fatal(err)
	}
	if len(kept.Of) < 10 || len(kept.Of) >= many || len(d.Body)+1000 < store.MaxDocument {
		t.Errorf("%d of %d are kept in %d bytes", len(kept.Of), many, len(d.Body))
	}
	for id, c := range kept.Of {
		if c.At < grant.Instant(1000+many-len(kept.Of)) {
			t.Errorf("%s of %d is kept, and a later one is not", id, c.At)
		}
	}
}

func TestAConsentExtendsTheEarlierOne(t *testing.T) {
	h := newFixture(t)
	h.record("alice", "shop", "a", true)
	h.step(time.Second)
	h.record("alice", "shop", "b a", true)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers("a b") || len(c.Scope.Tokens()) != 2 || !c.Remembered.Covers("a b") || c.At != h.now() {
		t.Errorf("%+v", c)
	}
	h.record("alice", "bank", "c", false)
	h.record("bob", "shop", "c", false)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers("a b") {
		t.Errorf("another client's consent changes this one's: %+v", c)
	}
	// Consent without the "remember" box: the page shows the scope as granted before, and
	// the user is still asked.
	h.record("alice", "shop", "c", false)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers("a b c") || !c.Remembered.Covers("a b") || c.Remembered.Covers("c") {
		t.Errorf("%+v", c)
	}
	// Without the box, the scopes that the page showed are no longer remembered.
	h.record("alice", "shop", "a", false)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers("a b c") || c.Remembered != "b" {
		t.Errorf("%+v", c)
	}
	// With the box, only scopes that the page showed are remembered.
	h.record("alice", "shop", "c", true)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers("a b c") || !c.Remembered.Covers("b c") || c.Remembered.Covers("a") {
		t.Errorf("%+v", c)
	}
	// A consent that a cutoff has ended is not extended.
	h.cutOff(store.Cutoff{Subject: "alice", ClientID: "shop"})
	h.step(time.Second)
	h.record("alice", "shop", "c", true)
	if c := h.recorded("alice", "shop"); c.Scope != "c" {
		t.Errorf("after a cutoff: %+v", c)
	}
	// If the union of the scopes is too long for any request, the latest consent replaces
	// it.
	long := oauth.Scope(strings.Repeat("x", 200))
	h.record("alice", "shop", long, true)
	h.record("alice", "shop", oauth.Scope(strings.Repeat("y", 200)), true)
	if c := h.recorded("alice", "shop"); !c.Scope.Covers(oauth.Scope(strings.Repeat("y", 200))) {
		t.Errorf("the latest consent is lost among %d bytes", len(c.Scope))
	}
}

// Two tabs consent at the same time: both consents are recorded.
func TestConcurrentConsentsAreBothRecorded(t *testing.T) {
	h := newFixture(t)
	bank := h.client(client.Registration{ID: "bank", Settings: store.Settings{Name: "Bank"}})
	v := h.signedIn("alice")
	here, there := h.begin(asking(h.c, scope("a")), v, StepConsent), h.begin(asking(bank, scope("b")), v, StepConsent)
	h.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
		h.code(h.allow(t.Context(), there, v, true))
	}))
	h.code(h.allow(t.Context(), here, v, true))
	if a, b := h.recorded("alice", "shop"), h.recorded("alice", "bank"); a.Scope != "a" || b.Scope != "b" {
		t.Errorf("shop %+v, bank %+v", a, b)
	}
}

// A decision and its consent are one write. If the write fails, nothing is recorded, and
// the user can submit again.
func TestAllowIsUnavailableIfTheConsentCannotBeKept(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	for name, inject := range map[string]func(){
		"commit":    func() { h.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost) },
		"conflicts": func() { h.kit.Faulty.Inject(storetest.CommitDocument, 100, storetest.Conflicts) },
		"consents": func() { // the session is read first
			h.kit.Faulty.Inject(storetest.Document, 1, func(_ ctx, do func() error) error { return do() })
			h.kit.Faulty.Inject(storetest.Document, 1, storetest.Lost)
		},
	} {
		found := h.again(it, v)
		inject()
		st, err := h.allow(t.Context(), found, v, true)
		h.kit.Faulty.Heal()
		if !errors.Is(err, store.ErrUnavailable) || st.URL != "" {
			t.Errorf("%s: %v", name, err)
		}
		if got := h.again(it, v); got.Decision != nil || h.recorded("alice", "shop").At != 0 {
			t.Errorf("%s: a part is recorded: %+v", name, got.Decision)
		}
	}
	if _, err := h.redeem(h.code(h.allow(t.Context(), h.again(it, v), v, true))); err != nil {
		t.Errorf("pressed again: %v", err)
	}
	if h.code(h.Authorize(t.Context(), asking(h.c), v)) == "" {
		t.Error("the consent is not remembered")
	}
}

func TestConnectionsAndDisconnect(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	bank := h.client(client.Registration{ID: "bank", Settings: store.Settings{Name: "Bank"}})
	idle := h.client(client.Registration{ID: "idle", Settings: store.Settings{Name: "Idle"}})
	connect := func(c store.Client, remember bool, want oauth.Scope) string {
		t.Helper()
		it := h.begin(asking(c, scope(want)), v, StepConsent)
		return h.code(h.allow(t.Context(), it, v, remember))
	}
	first, err := h.redeem(connect(h.c, true, "a"))
	if err != nil {
		t.Fatal(err)
	}
	h.step(time.Minute)
	connect(bank, true, "b") // remembered, but its code is not redeemed
	connect(idle, false, "c")
	h.step(time.Minute)
	waiting := h.code(h.Authorize(t.Context(), asking(h.c, scope("a")), v))
	s, err := h.Session(t.Context(), v.Session)
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Connections(t.Context(), s)
	if err != nil || len(list) != 2 || list[0].ClientID != "bank" || list[1].ClientID != "shop" {
		t.Fatalf("%+v, %v", list, err)
	}
	if c := list[1]; c.Client == nil || c.Scope != "a" || c.Since != started || c.LastUsed == 0 || list[0].LastUsed != 0 || list[0].Scope != "b" {
		t.Errorf("%+v and %+v", list[0], c)
	}

	if err := h.Disconnect(t.Context(), s, "shop", grant.Origin{RequestID: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Issuer.Refresh(t.Context(), &h.c, issuer.RefreshRequest{RefreshToken: first.RefreshToken}); err == nil {
		t.Error("the refresh token of a disconnected client is good")
	}
	if _, err := h.redeem(waiting); err == nil {
		t.Error("a code from before the disconnection is redeemed")
	}
	if list, err := h.Connections(t.Context(), s); err != nil || len(list) != 1 || list[0].ClientID != "bank" {
		t.Errorf("left are %+v, %v", list, err)
	}
	it := h.begin(asking(h.c, scope("a")), v, StepConsent)
	// A connection that is made again at the same instant is not ended by the
	// disconnection.
	if _, err := h.redeem(h.code(h.allow(t.Context(), it, v, true))); err != nil {
		t.Errorf("connected again: %v", err)
	}
	events, err := h.kit.Engine.Events(t.Context(), "subject:alice", 10)
	if err != nil || len(events) != 1 || events[0].Name != store.EventDisconnected || !strings.Contains(events[0].Detail, `"shop"`) {
		t.Errorf("events %+v, %v", events, err)
	}
	// Consents of other subjects are unchanged.
	if _, ok := h.living(h.kit.View(), consents{Of: map[string]Consent{"shop": {At: started}}}, "bob", "shop"); !ok {
		t.Error("another subject's consent has ended")
	}
	// Disconnecting an unknown client writes nothing.
	h.kit.Faulty.Calls()
	if err := h.Disconnect(t.Context(), s, "thought up", grant.Origin{}); err != nil {
		t.Error(err)
	}
	if calls := h.kit.Faulty.Calls(); calls[storetest.CommitDocument] != 0 {
		t.Errorf("calls %v", calls)
	}
	h.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	if err := h.Disconnect(t.Context(), s, "bank", grant.Origin{}); err == nil {
		t.Error("a disconnection that was not stored is no error")
	}
}
