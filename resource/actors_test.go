package resource_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

// exchangedJTI returns the jti of an exchanged token of a grant.
func exchangedJTI(grant, own byte, issued, authorized, exchanged time.Time) string {
	b, err := base64.RawURLEncoding.DecodeString(jti(grant, issued, authorized))
	if err != nil {
		panic(err)
	}
	b = append(append(b, make([]byte, 15)...), own)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(exchanged.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, ms[2:]...))
}

func act(subject string, before any) map[string]any {
	a := map[string]any{"sub": subject}
	if before != nil {
		a["act"] = before
	}
	return a
}

// A principal has the actors of a token of either form. An API may require or refuse
// actors.
func TestActors(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		chain := map[string]any{"act": act("gateway", map[string]any{"iss": "https://idp.example", "sub": "agent"}), "client_id": "gateway", "granted_client_id": "shop"}
		direct, delegated := s.token(), s.token(chain)
		opaque := s.issue("opaque", chain)
		for rule, want := range map[resource.ActorRule][2]error{
			resource.ActorsAllowed: {nil, nil}, resource.ActorsRequired: {resource.ErrInsufficientScope, nil}, resource.ActorsRefused: {nil, resource.ErrInsufficientScope},
		} {
			cfg := s.config()
			cfg.Actors = rule
			v := verifier(t, cfg)
			wants(t, fmt.Sprintf("%q: direct", rule), v, direct, want[0])
			for _, token := range []string{delegated, opaque} {
				wants(t, fmt.Sprintf("%q: delegated", rule), v, token, want[1])
				p, err := v.Verify(t.Context(), token)
				if err != nil {
					continue
				}
				if a, ok := p.Actor(); !ok || a != (resource.Actor{Subject: "gateway"}) || len(p.Actors) != 2 || p.Actors[1].Issuer != "https://idp.example" {
					t.Errorf("actors %+v", p.Actors)
				}
			}
			v.Close()
		}
		p, err := verifier(t, s.config()).Verify(t.Context(), direct)
		if a, ok := p.Actor(); ok || a != (resource.Actor{}) || err != nil {
			t.Errorf("an actor %+v of a direct token, %v", a, err)
		}
		v := verifier(t, s.config())
		for what, claim := range map[string]any{"a text": "gateway", "no name": map[string]any{"iss": "https://idp.example"}, "a list": []string{"gateway"}, "one without a name within": act("gateway", map[string]any{})} {
			wants(t, what, v, s.token(map[string]any{"act": claim}), resource.ErrInvalidToken)
		}
		var long any
		for range 16 {
			long = act("agent", long)
		}
		wants(t, "16 actors", v, s.token(map[string]any{"act": long}), nil)
		wants(t, "17 actors", v, s.token(map[string]any{"act": act("agent", long)}), resource.ErrInvalidToken)
		cfg := s.config()
		cfg.Actors = "some"
		if _, err := resource.New(cfg); err == nil {
			t.Error("a rule that is none is accepted")
		}
	})
}

// A refusal because of actors names no scope, because the token may have all scopes.
func TestRefusalsOfActorsNameNoScope(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		for rule, c := range map[resource.ActorRule]struct{ token, text string }{
			resource.ActorsRequired: {s.token(), "the access token names no actor\n"},
			resource.ActorsRefused:  {s.token(map[string]any{"act": act("gateway", nil)}), "the access token names an actor\n"},
		} {
			cfg := s.config()
			cfg.Actors = rule
			v := verifier(t, cfg)
			for scope, want := range map[string]string{"read": `error="insufficient_scope"`, "admin": `error="insufficient_scope", scope="admin"`} {
				resp := askHandler(v.Require(scope)(http.NotFoundHandler()), "Authorization: Bearer "+c.token)
				body, _ := io.ReadAll(resp.Body)
				if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 403 || challenge != `Bearer realm="`+audience+`", `+want {
					t.Errorf("%s, %s: %d %s", rule, scope, resp.StatusCode, challenge)
				}
				if scope == "read" && string(body) != c.text {
					t.Errorf("%s: %q", rule, body)
				}
			}
			v.Close()
		}
	})
}

// The list refuses an exchanged token by its own id, its grant, the grant's client, or a
// client among its actors.
func TestTheListDecidesWhichExchangedTokensAreRevoked(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		now := time.Now()
		authorized := now.Add(-time.Hour)
		claims := map[string]any{
			"jti": exchangedJTI(1, 9, now, authorized, now), "client_id": "mesh", "granted_client_id": "shop", "act": act("mesh", act("gateway", map[string]any{"iss": "https://idp.example", "sub": "agent"})),
		}
		token := s.token(claims)
		for _, tt := range []struct {
			what string
			list func(*feed)
			dead bool
		}{
			{"nothing was revoked", func(*feed) {}, false},
			{"its grant was revoked", func(f *feed) { f.revoke(1, never) }, true},
			{"the access tokens of the grant so far", func(f *feed) { f.revoke(1, now.UnixMilli()) }, true},
			{"it was revoked alone", func(f *feed) { f.revoke(9, never) }, true},
			{"another token was", func(f *feed) { f.revoke(8, never) }, false},
			{"its subject was cut off when the grant began", func(f *feed) { f.cutOff("alice", "", authorized) }, true},
			{"the grant's client was cut off", func(f *feed) { f.cutOff("", "shop", authorized) }, true},
			{"the subject at the grant's client", func(f *feed) { f.cutOff("alice", "shop", authorized) }, true},
			{"its client was cut off", func(f *feed) { f.cutOff("", "mesh", now) }, true},
			{"its client was cut off before the exchange", func(f *feed) { f.cutOff("", "mesh", now.Add(-time.Millisecond)) }, false},
			{"an actor of the chain was cut off", func(f *feed) { f.cutOff("", "gateway", now) }, true},
			{"the subject at an actor", func(f *feed) { f.cutOff("alice", "gateway", now) }, true},
			{"what an actor has for itself", func(f *feed) { f.cutOff("gateway", "gateway", now) }, true},
			{"a client called like another issuer's agent", func(f *feed) { f.cutOff("", "agent", now) }, false},
			{"another client", func(f *feed) { f.cutOff("", "bank", now) }, false},
		} {
			s.change(func() { s.list = newFeed(); tt.list(&s.list) })
			v := following(t, s)
			var want error
			if tt.dead {
				want = resource.ErrInvalidToken
			}
			wants(t, tt.what, v, token, want)
			v.Close()
		}
		s.change(func() { s.list = newFeed() })
		v := following(t, s)
		wants(t, "without the client of its grant", v, s.token(claims, map[string]any{"granted_client_id": nil}), resource.ErrInvalidToken)
		wants(t, "a direct one with such a client", v, s.token(map[string]any{"granted_client_id": "shop"}), resource.ErrInvalidToken)
	})
}
