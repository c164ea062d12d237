package issuer_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	e2e "github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// A list has the members of the list of revocations that a subscriber reads.
type list struct {
	Issuer    string           `json:"iss"`
	IssuedAt  int64            `json:"iat"`
	ExpiresAt int64            `json:"exp"`
	Covers    int64            `json:"covers_ms"`
	Grants    map[string]int64 `json:"grants"`
	Cutoffs   map[string]int64 `json:"cutoffs"`
}

// A jwtToken has the claims of an access token that a subscriber reads.
type jwtToken struct {
	Subject  string `json:"sub"`
	ClientID string `json:"client_id"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
}

// grantName and cutoffName compute entries of the list independently, as
// docs/reference/revocations.md defines them.

func grantName(id []byte) string { return short("mintage/grant\x00" + string(id)) }

func cutoffName(subject, client string) string {
	return short("mintage/cutoff\x00/api\x00" + subject + "\x00" + client)
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// refuses reports whether a subscriber refuses an unexpired token: because it is listed,
// or because it is older than the list covers.
func (l list) refuses(tok jwtToken) (listed, tooOld bool) {
	id, err := base64.RawURLEncoding.DecodeString(tok.ID)
	if err != nil || len(id) != 32 {
		panic("a jti is 32 bytes")
	}
	instant := func(b []byte) int64 { return int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...))) }
	issued, authorized := instant(id[20:]), instant(id[26:])
	if floor, ok := l.Grants[grantName(id[:16])]; ok && issued <= floor {
		listed = true
	}
	for _, name := range []string{cutoffName(tok.Subject, ""), cutoffName("", tok.ClientID), cutoffName(tok.Subject, tok.ClientID)} {
		if at, ok := l.Cutoffs[name]; ok && authorized <= at {
			listed = true
		}
	}
	return listed, issued < l.IssuedAt*1000-l.Covers
}

// The list has the entries of the example in docs/reference/revocations.md.
func TestTheListHasTheNamesOfItsDocumentation(t *testing.T) {
	s := newFeed(t)
	at := s.At()
	s.CutOff(store.Cutoff{Realm: realm, Subject: "alice", At: at})
	s.CutOff(store.Cutoff{Realm: realm, ClientID: "billing", At: at})
	s.CutOff(store.Cutoff{Realm: realm, Subject: "alice", ClientID: "billing", At: at})
	l := s.list()
	for _, name := range []string{"LY8npOm-Y7JT2v3MThOhdg", "f8g1JibmXOx1RROu4T6JfQ", "7h9hSj4jEhquRmYEGazo5g"} {
		if l.Cutoffs[name] != int64(at) {
			t.Errorf("the list has %v, and not %s", l.Cutoffs, name)
		}
	}
	if name := grantName([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")); name != "vuX-AzwSjeOL6pB1cG_z3A" {
		t.Errorf("the grant is called %s", name)
	}
	tok := jwtToken{Subject: "alice", ClientID: "billing", ID: "AAECAwQFBgcICQoLDA0ODwAAAAcBi8_laHsBi89M0YA"}
	for issued, want := range map[int64]bool{1700000000122: false, 1700000000123: true} {
		if listed, _ := (list{Grants: map[string]int64{"vuX-AzwSjeOL6pB1cG_z3A": issued}}).refuses(tok); listed != want {
			t.Errorf("a floor of %d: %t", issued, listed)
		}
	}
	for authorized, want := range map[int64]bool{1699989999999: false, 1699990000000: true} {
		if listed, _ := (list{Cutoffs: map[string]int64{"f8g1JibmXOx1RROu4T6JfQ": authorized}}).refuses(tok); listed != want {
			t.Errorf("a cutoff of %d: %t", authorized, listed)
		}
	}
}

// A list is of one issuer, so its entries contain no name of a realm: a subscriber reads
// the issuer's id, and not the realm's name.
func TestNamesOfTheListAreTheSameInEachRealm(t *testing.T) {
	s := newFeed(t, func(iss *issuer.Issuer) { iss.Realm = "/staff" })
	at := s.At()
	s.CutOff(store.Cutoff{Realm: "/staff", Subject: "alice", At: at})
	s.CutOff(store.Cutoff{Realm: realm, Subject: "bob", At: at})
	if l := s.list(); len(l.Cutoffs) != 1 || l.Cutoffs[cutoffName("alice", "")] != int64(at) {
		t.Errorf("the list has %v, and not that of alice alone", l.Cutoffs)
	}
}

func TestFeedCoversEveryTokenThatHasNotExpired(t *testing.T) {
	s := newFeed(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = 2 * time.Second })
	var all []jwtToken
	for range 320 {
		all = append(all, s.token(s.loginJWT(subject).AccessToken))
		s.Clock.Advance(963 * time.Millisecond)
		l := s.list()
		for _, tok := range all {
			if _, tooOld := l.refuses(tok); tooOld && s.Clock.Now().Unix() < tok.Expires {
				t.Fatalf("a token is too old for the list %d s before it expires", tok.Expires-s.Clock.Now().Unix())
			}
		}
	}
}

func TestFeedWithTooManyEntriesCoversLess(t *testing.T) {
	s := newFeed(t)
	s.SetFeedLimit(20)
	var dead, alive []jwtToken
	for range 50 {
		s.Clock.Advance(time.Second)
		tokens, kept := s.loginJWT("bob"), s.loginJWT("carol")
		s.revoke(tokens.RefreshToken)
		dead, alive = append(dead, s.token(tokens.AccessToken)), append(alive, s.token(kept.AccessToken))
	}
	l := s.list()
	if len(l.Grants) != 20 || l.Covers > 21_000 || l.Covers < 18_000 {
		t.Errorf("%d grants, %d ms", len(l.Grants), l.Covers)
	}
	for i, tok := range dead {
		if listed, tooOld := l.refuses(tok); !listed && !tooOld {
			t.Errorf("revoked token %d of %d passes", i, len(dead))
		}
	}
	passing := 0
	for _, tok := range alive {
		if listed, tooOld := l.refuses(tok); !listed && !tooOld {
			passing++
		}
	}
	if passing < 18 || passing > 21 {
		t.Errorf("%d live tokens pass, want those of the last 20 seconds", passing)
	}
	// The list covers every unexpired token again when the listed ones have expired.
	s.Clock.Advance(6 * time.Minute)
	if l := s.list(); len(l.Grants) != 0 || l.Covers != (5*time.Minute+time.Second).Milliseconds() {
		t.Errorf("afterwards: %d grants, %d ms", len(l.Grants), l.Covers)
	}
}

func TestFeedWithTooManyCutoffsCoversLess(t *testing.T) {
	s := newFeed(t)
	s.SetFeedLimit(5)
	var dead []jwtToken
	for i := range 12 {
		who := strings.Repeat("x", i+1)
		dead = append(dead, s.token(s.loginJWT(who).AccessToken))
		s.Clock.Advance(2 * time.Second)
		s.CutOff(store.Cutoff{Realm: realm, Subject: who, At: s.At()})
	}
	l := s.list()
	if len(l.Cutoffs) != 5 || l.Covers > 12_000 {
		t.Errorf("%d cutoffs, %d ms", len(l.Cutoffs), l.Covers)
	}
	for i, tok := range dead {
		if listed, tooOld := l.refuses(tok); !listed && !tooOld {
			t.Errorf("token %d of %d passes", i, len(dead))
		}
	}
}

func TestFeedIsUnavailableIfOneInstantExceedsItsLimit(t *testing.T) {
	s := newFeed(t)
	s.SetFeedLimit(5)
	for range 6 {
		s.revoke(s.loginJWT(subject).RefreshToken)
	}
	if _, err := s.Revocations(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("six revocations at once: %v", err)
	}
	s.Clock.Advance(15 * time.Second)
	s.list()
}

// A subscriber to the list refuses exactly the tokens that introspection refuses.
func TestSubscribersToTheFeedAgreeWithIntrospection(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 2 * time.Second} {
		s := newFeed(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
		random := rand.New(rand.NewPCG(7, uint64(skew)))
		people := []string{"alice", "bob", "carol"}
		var grants []issuer.Tokens
		seen, texts := map[string]bool{}, map[string]jwtToken{} // the latter have not expired
		enabled := true
		set := func(state store.ClientState) {
			enabled = state == store.ClientEnabled
			s.Administer(jwtClient, func(c *store.Client) { c.State, c.UpdatedAt = state, s.At() })
		}
		dead, alive := 0, 0
		for range e2e.Scaled(180, 250) {
			who := people[random.IntN(len(people))]
			choice := random.IntN(40)
			if !enabled {
				choice = 39
			}
			switch {
			case choice < 12 || len(grants) == 0:
				grants = append(grants, s.loginJWT(who))
			case choice < 24:
				i := random.IntN(len(grants))
				if tokens, err := s.refreshJWT(grants[i]); err == nil {
					grants[i] = tokens
				}
			case choice < 28:
				s.revoke(grants[random.IntN(len(grants))].AccessToken)
			case choice < 31:
				s.revoke(grants[random.IntN(len(grants))].RefreshToken)
			case choice < 33:
				s.CutOff(store.Cutoff{Realm: realm, Subject: who, At: s.At()})
			case choice < 34:
				s.CutOff(store.Cutoff{Realm: realm, Subject: who, ClientID: jwtClient, At: s.At()})
			case choice < 35:
				s.CutOff(store.Cutoff{Realm: realm, ClientID: jwtClient, At: s.At()})
			case choice < 37:
				s.Clock.Advance(time.Duration(random.IntN(60_000)) * time.Millisecond)
			case choice < 38:
				set(store.ClientDisabled)
			default:
				set(store.ClientEnabled)
			}
			for _, tokens := range grants {
				if !seen[tokens.AccessToken] {
					seen[tokens.AccessToken], texts[tokens.AccessToken] = true, s.token(tokens.AccessToken)
				}
			}
			l := s.list()
			for text, tok := range texts {
				if s.Clock.Now().Unix() >= tok.Expires {
					delete(texts, text)
					continue
				}
				_, err := s.Inspect(t.Context(), text)
				listed, tooOld := l.refuses(tok)
				if (err != nil) != (listed || tooOld) {
					t.Fatalf("introspection says %v; listed: %t, too old: %t", err, listed, tooOld)
				}
				if err == nil {
					alive++
				} else {
					dead++
				}
			}
		}
		if dead < 500 || alive < 500 {
			t.Errorf("only %d answers about dead tokens and %d about live ones were compared", dead, alive)
		}
	}
}
