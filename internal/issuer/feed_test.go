package issuer_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	jwtClient = "jwt-billing"
)

// newFeed is a service with a client of JWT access tokens.
func newFeed(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	s := newService(t, append([]func(*issuer.Issuer){func(iss *issuer.Issuer) {
		iss.ID, iss.RevocationsMaxAge = issuerID, 5*time.Second
	}}, change...)...)
	s.Register(client.Registration{
		ID: jwtClient, Settings: store.Settings{Name: "JWT", RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither, TokenFormat: store.TokenJWT, NoPKCE: true},
	})
	return s
}

// verified reads a JWT with the published keys, like a resource server.
func (s *service) verified(text string, claims any) (typ string) {
	s.T.Helper()
	keys, err := s.Signer().PublicKeys()
	if err != nil {
		s.T.Fatal(err)
	}
	signed, err := jose.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		s.T.Fatal(err)
	}
	payload, err := signed.Verify(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		s.T.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	if _, isList := claims.(*list); isList {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(claims); err != nil {
		s.T.Fatal(err)
	}
	typ, _ = signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string)
	return typ
}

func (s *service) listText() string {
	s.T.Helper()
	text, err := s.Revocations(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return text
}

// list returns the list a second later, when the cached copy has expired.
func (s *service) list() (l list) {
	s.T.Helper()
	s.Clock.Advance(time.Second)
	if typ := s.verified(s.listText(), &l); typ != "revocations+jwt" {
		s.T.Errorf("the list's type is %q", typ)
	}
	now := s.Clock.Now().Unix()
	if l.Issuer != issuerID || l.IssuedAt > now || l.IssuedAt < now-15 || l.ExpiresAt != l.IssuedAt+40 || l.Grants == nil || l.Cutoffs == nil {
		s.T.Errorf("iss %q, iat now%+d, exp iat%+d, %d grants, %d cutoffs", l.Issuer, l.IssuedAt-now, l.ExpiresAt-l.IssuedAt, len(l.Grants), len(l.Cutoffs))
	}
	return l
}

func (s *service) loginJWT(who string) issuer.Tokens {
	s.T.Helper()
	code, err := s.Codes().Issue(s.T.Context(), issuer.Authorization{ClientID: jwtClient, RedirectURI: redirectURI, Subject: who})
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Exchange(s.T.Context(), s.Listed(jwtClient), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
}

func (s *service) refreshJWT(tokens issuer.Tokens) (issuer.Tokens, error) {
	return s.Refresh(s.T.Context(), s.Listed(jwtClient), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin})
}

// revoke revokes a token of the JWT client.
func (s *service) revoke(text string) {
	s.T.Helper()
	if _, err := s.Revoke(s.T.Context(), s.Listed(jwtClient), text, testkit.Origin); err != nil {
		s.T.Fatal(err)
	}
}

func (s *service) token(text string) (tok jwtToken) {
	s.T.Helper()
	s.verified(text, &tok)
	return tok
}

func TestFeedListsWhatEndedWithinASecond(t *testing.T) {
	t.Parallel()
	s := newFeed(t)
	end := map[string]func(issuer.Tokens){
		"revoked":      func(tokens issuer.Tokens) { s.revoke(tokens.RefreshToken) },
		"access token": func(tokens issuer.Tokens) { s.revoke(tokens.AccessToken) },
		"replayed": func(tokens issuer.Tokens) {
			second := s.Must(s.refreshJWT(tokens))
			s.Must(s.refreshJWT(second))
			s.Refused(grant.RefreshReplayed)(s.refreshJWT(tokens))
		},
	}
	for name, f := range end {
		tokens, other := s.loginJWT(subject), s.loginJWT(subject)
		before := s.list()
		s.Clock.Advance(time.Second)
		f(tokens)
		l := s.list()
		if listed, _ := before.refuses(s.token(tokens.AccessToken)); listed {
			t.Errorf("%s: listed before", name)
		}
		if listed, _ := l.refuses(s.token(tokens.AccessToken)); !listed {
			t.Errorf("%s: not listed", name)
		}
		if listed, _ := l.refuses(s.token(other.AccessToken)); listed {
			t.Errorf("%s: a token of another grant is listed", name)
		}
		floor, want := l.Grants[grantName(tokens.GrantID[:])], int64(253402300799999)
		if name == "access token" {
			want = int64(s.Row(tokens.GrantID).AccessFloor)
		}
		if floor != want {
			t.Errorf("%s: floor %d, want %d", name, floor, want)
		}
		// Otherwise a subscriber could mistake the older list for the newer one.
		if l.IssuedAt <= before.IssuedAt {
			t.Errorf("%s: the list with the revocation is dated %d, the list before it %d", name, l.IssuedAt, before.IssuedAt)
		}
		if added := len(l.Grants) - len(before.Grants); added != 1 || len(l.Cutoffs) != 0 {
			t.Errorf("%s: %d more grants and %d cutoffs, want 1 and none", name, added, len(l.Cutoffs))
		}
	}
}

func TestFeedLeavesATokenAliveThatWasIssuedAfterTheFloor(t *testing.T) {
	s := newFeed(t)
	first := s.loginJWT(subject)
	s.revoke(first.AccessToken)
	second := s.Must(s.refreshJWT(first)) // in the same millisecond
	l := s.list()
	if listed, _ := l.refuses(s.token(first.AccessToken)); !listed {
		t.Error("the revoked token is not listed")
	}
	if listed, tooOld := l.refuses(s.token(second.AccessToken)); listed || tooOld {
		t.Error("its successor is refused")
	}
}

func TestFeedListsCutoffsOfTheRealm(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Second} {
		s := newFeed(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
		at := s.At()
		s.CutOff(store.Cutoff{Realm: realm, Subject: "alice", At: at})
		s.CutOff(store.Cutoff{Realm: realm, ClientID: jwtClient, At: at + 1})
		s.CutOff(store.Cutoff{Realm: realm, Subject: "bob", ClientID: jwtClient, At: at + 2})
		s.CutOff(store.Cutoff{Realm: "/other", Subject: "carol", At: at})
		want := map[string]int64{
			cutoffName("alice", ""):      int64(at.Add(skew)),
			cutoffName("", jwtClient):    int64(at.Add(skew)) + 1,
			cutoffName("bob", jwtClient): int64(at.Add(skew)) + 2,
		}
		if l := s.list(); !maps.Equal(l.Cutoffs, want) || len(l.Grants) != 0 {
			t.Errorf("skew %s: %d cutoffs and %d grants: %v, want %v", skew, len(l.Cutoffs), len(l.Grants), l.Cutoffs, want)
		}
	}
}

func TestFeedListsAClientWhileItIsDisabled(t *testing.T) {
	s := newFeed(t)
	tok := s.token(s.loginJWT(subject).AccessToken)
	set := func(state store.ClientState) list {
		s.Administer(jwtClient, func(c *store.Client) { c.State, c.UpdatedAt = state, s.At() })
		return s.list()
	}
	if listed, _ := set(store.ClientDisabled).refuses(tok); !listed {
		t.Error("the token of a disabled client is not listed")
	}
	if listed, _ := set(store.ClientEnabled).refuses(tok); listed {
		t.Error("the token of a client that is enabled again is listed")
	}
	if listed, _ := set(store.ClientDeleted).refuses(tok); !listed {
		t.Error("the token of a deleted client is not listed")
	}
	s.Clock.Advance(6 * time.Minute)
	if l := s.list(); len(l.Cutoffs) != 0 {
		t.Error("a client that has had no token for a minute is listed")
	}
}

func TestFeedForgetsWhatHasExpired(t *testing.T) {
	s := newFeed(t)
	tokens := s.loginJWT(subject)
	tok := s.token(tokens.AccessToken)
	s.revoke(tokens.RefreshToken)
	s.CutOff(store.Cutoff{Realm: realm, Subject: "bob", At: s.At()})
	for s.At() < grant.Instant(tok.Expires*1000)-1000 {
		l := s.list()
		if listed, _ := l.refuses(tok); !listed || len(l.Cutoffs) != 1 {
			t.Fatalf("%d s before the token expires: listed: %t, %d cutoffs", tok.Expires-s.Clock.Now().Unix(), listed, len(l.Cutoffs))
		}
	}
	// 22 s cover the second to which expiry is rounded, one period of the list, and the
	// time until another node has the cutoff.
	s.Clock.Advance(22 * time.Second)
	if l := s.list(); len(l.Grants)+len(l.Cutoffs) != 0 {
		t.Errorf("%d grants and %d cutoffs are listed after their tokens have expired", len(l.Grants), len(l.Cutoffs))
	}
}

func TestFeedIsMadeAtMostOnceASecond(t *testing.T) {
	s := newFeed(t)
	s.Faulty.Calls()
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if _, err := s.Revocations(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	s.Clock.Advance(999 * time.Millisecond)
	s.listText()
	if n := s.Faulty.Calls()[storetest.Revocations]; n != 1 {
		t.Errorf("the store was called %d times in a second", n)
	}
	s.Clock.Advance(time.Millisecond)
	s.listText()
	if n := s.Faulty.Calls()[storetest.Revocations]; n != 1 {
		t.Errorf("the store was called %d times after a second", n)
	}
}

// node opens another node on the same store.
func (s *service) node() *issuer.Issuer {
	s.T.Helper()
	directory, err := directory.Open(s.T.Context(), s.Engine, s.KEK, testkit.Schedule(), s.Log, s.Uptime.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	other := *s.Issuer
	other.Store, other.Directory, other.Feed = s.Engine, directory, nil
	return issuer.New(other)
}

// A node may serve for five seconds without polling the directory, and so issue tokens
// that a new cutoff ends.
func TestFeedListsACutoffAsLongAsTheTokensOfANodeThatHasNotPolledIt(t *testing.T) {
	s := newFeed(t)
	node, tokens := s.node(), s.loginJWT(subject)
	// This makes a period of the list begin in the token's last seconds.
	s.Clock.Advance(27*time.Second - time.Duration(s.At()%15_000)*time.Millisecond)
	s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At()})
	s.Clock.Advance(4900 * time.Millisecond)
	tokens, err := node.Refresh(t.Context(), s.Listed(jwtClient), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin})
	if err != nil {
		t.Fatalf("the other node has the cutoff already: %v", err)
	}
	tok := s.token(tokens.AccessToken)
	for s.Clock.Now().Unix() < tok.Expires-1 {
		if listed, _ := s.list().refuses(tok); !listed {
			t.Fatalf("not listed %d s before it expires", tok.Expires-s.Clock.Now().Unix())
		}
	}
}

func TestFeedsTextChangesWithItsContentAndEveryFifteenSeconds(t *testing.T) {
	s := newFeed(t)
	node := s.node()
	s.Clock.Advance(15*time.Second - time.Duration(s.At()%15_000)*time.Millisecond)
	tokens := s.loginJWT(subject)
	texts := map[string]int{}
	for second := range 60 {
		if second == 20 {
			s.revoke(tokens.RefreshToken)
		}
		text := s.listText()
		texts[text]++
		if same, err := node.Revocations(t.Context()); err != nil || same != text {
			t.Errorf("another node has another list: %v", err)
		}
		s.Clock.Advance(time.Second)
	}
	// The text changes at 15, 30 and 45 seconds, and at 20 with the revocation.
	if len(texts) != 5 {
		t.Errorf("%d texts in a minute with one revocation, want 5: %v", len(texts), texts)
	}
}

func TestFeedIsUnavailableRatherThanOld(t *testing.T) {
	s := newFeed(t)
	s.listText()
	s.Clock.Advance(time.Second)
	s.Faulty.Inject(storetest.Revocations, 1, storetest.Unanswered)
	s.Faulty.Calls()
	for range 3 {
		if text, err := s.Revocations(t.Context()); !errors.Is(err, store.ErrUnavailable) || text != "" {
			t.Errorf("with a store that fails: %v", err)
		}
	}
	if n := s.Faulty.Calls()[storetest.Revocations]; n != 1 {
		t.Errorf("a store that fails was called %d times in a second", n)
	}
	s.Clock.Advance(time.Second)
	s.listText()
	s.Uptime.Advance(6 * time.Second) // without a poll
	if _, err := s.Revocations(t.Context()); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, directory.ErrStale) {
		t.Errorf("by a directory that may have missed a cutoff: %v", err)
	}
}

// A caller that waits for another caller's read of the store stops when its own context
// ends.
func TestACallerOfTheFeedStopsWithItsContext(t *testing.T) {
	s := newFeed(t)
	release := make(chan struct{})
	asked := make(chan struct{})
	s.Faulty.Inject(storetest.Revocations, 1, func(_ context.Context, do func() error) error {
		close(asked)
		<-release
		return do()
	})
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := s.Revocations(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-asked
	if _, err := s.Revocations(s.ShortContext()); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the read of another caller hangs: %v", err)
	}
	close(release)
	first.Wait()
}

// A clock that is ahead dates a token later, and a clock that is behind accepts it longer:
// the list must cover both.
func TestTheListCoversTokensByClocksThatDiffer(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Second} {
		s := newFeed(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
		tokens := s.loginJWT("alice")
		s.revoke(tokens.RefreshToken)
		l := s.list()
		age := time.Duration(s.Clock.Now().UnixMilli()-l.IssuedAt*1000) * time.Millisecond
		if want := 5*time.Minute + 2*skew + time.Second; l.Covers != want.Milliseconds() || age > 15*time.Second {
			t.Errorf("skew %s: the list covers %d ms, want %d", skew, l.Covers, want.Milliseconds())
		}
	}
}
