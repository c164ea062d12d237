package issuer_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

func TestOP13_ARestoreEndsNoGrantAndAReplayIsStillDetected(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.Login()
	old := s.Row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.Must(s.Renew(first.RefreshToken))
	s.Clock.Advance(time.Hour)
	third := s.Must(s.Renew(second.RefreshToken))
	s.RowAgain(old)

	s.Refused(grant.StoreBehind)(s.Renew(third.RefreshToken)) // no restore is declared
	if _, err := s.Inspect(t.Context(), third.AccessToken); err == nil {
		t.Error("an access token is active of which the store has no row")
	}
	s.Restored()
	if tok, err := s.Inspect(t.Context(), third.AccessToken); err != nil || tok.Subject != subject {
		t.Errorf("the access token from before the backup: %v", err)
	}
	fourth := s.Must(s.Renew(third.RefreshToken))
	if fourth.Generation != 4 {
		t.Errorf("the grant goes on in generation %d, want 4", fourth.Generation)
	}
	if again := s.Must(s.Renew(third.RefreshToken)); again.RefreshToken != fourth.RefreshToken || !again.Repeated {
		t.Error("the same request did not get the same pair")
	}
	s.Refused(grant.RefreshReplayed)(s.Renew(second.RefreshToken))
	s.Refused(grant.GrantRevoked)(s.Renew(fourth.RefreshToken))
	if list := s.recorded(first.GrantID); len(list) != 1 || list[0].Name != "refresh_replayed" {
		t.Errorf("recorded: %v", list)
	}
}

func TestOP13_TheSecondHolderOfAnEarlierTokenEndsTheGrant(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.Login()
	old := s.Row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.Must(s.Renew(first.RefreshToken))
	s.RowAgain(old)
	s.Restored()
	third := s.Must(s.Renew(first.RefreshToken)) // the thief's, say
	s.Refused(grant.RefreshReplayed)(s.Renew(second.RefreshToken))
	s.Refused(grant.GrantRevoked)(s.Renew(third.RefreshToken))
}

func TestOP13_AGrantMadeAfterTheBackupIsLost(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tokens := s.Login()
	if _, n, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", grant.Never, 10); err != nil || n != 1 {
		t.Fatalf("%d rows removed: %v", n, err)
	}
	s.Refused(grant.StoreBehind)(s.Renew(tokens.RefreshToken))
	s.Restored()
	s.Refused(grant.RestoredLost)(s.Renew(tokens.RefreshToken))
	if tok, err := s.Revoke(t.Context(), s.Listed(clientID), tokens.RefreshToken, testkit.Origin); err != nil {
		t.Errorf("revoking %s: %v, want success: it has ended", tok.GrantID, err)
	}
}

func TestOP13_ACodeFromBeforeTheRestoreIsRefusedAndALaterOneAccepted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	code := s.NewCode()
	r := s.Restored()
	s.Refused(grant.CodeBeforeRestore)(s.Redeem(code))
	s.Clock.Advance(-500 * time.Millisecond) // a node whose clock is behind the one that restored
	tokens := s.Must(s.Redeem(s.NewCode()))
	if g := s.Row(tokens.GrantID); g.AuthorizedAt < r.At || g.RotatedAt < r.At {
		t.Errorf("authorized %d ms and issued %d ms after the restore", g.AuthorizedAt-r.At, g.RotatedAt-r.At)
	}
}

func TestOP13_AShorterLaterRestoreDoesNotShortenTheEarlierOne(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.Login()
	old := s.Row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.Must(s.Renew(first.RefreshToken))
	s.RowAgain(old)
	earlier := s.Restored()
	// An operator with a lower lifetime of refresh tokens runs the later restore.
	s.Clock.Advance(time.Hour)
	later := grant.Restore{Backup: earlier.Backup, At: s.At(), Until: s.At().Add(time.Hour)}
	if err := s.Engine.Commit(t.Context(), store.Change{Restores: []grant.Restore{later}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	want := grant.Restore{Backup: later.Backup, At: later.At, Until: earlier.Until}
	fresh, err := directory.Open(t.Context(), s.Engine, s.KEK, testkit.Schedule(), slog.New(slog.DiscardHandler), s.Uptime.Now)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*directory.Directory{"heard of one after the other": s.Directory, "read both at once": fresh} {
		if v, err := d.View(); err != nil || v.Restore() != want {
			t.Errorf("%s: %+v, %v; want %+v", name, v.Restore(), err, want)
		}
	}
	s.Clock.Advance(2 * time.Hour)
	s.Poll()
	s.Must(s.Renew(second.RefreshToken))
}

// recorded returns the audit events of a grant.
func (s *service) recorded(id grant.ID) []store.Event {
	s.T.Helper()
	list, err := s.Engine.Events(s.T.Context(), id.String(), 100)
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}

// A restore may have lost that the grant of an assertion ended, or that the assertion was
// presented.
func TestAnAssertionFromBeforeTheRestoreIsRefused(t *testing.T) {
	s := withTrusts(t)
	once, never := s.assertion("once"), s.assertion("never")
	if _, err := s.assert(t.Context(), "agent", once); err != nil {
		t.Fatal(err)
	}
	s.Restored()
	for _, r := range []issuer.AssertionRequest{once, never} {
		if got := s.granted(s.assert(t.Context(), "agent", r)); got != "code_before_restore" {
			t.Errorf("%s: %s", r.ID, got)
		}
	}
	if g, err := s.Engine.Grant(t.Context(), store.AssertionID(realm, idp, never.ID)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused assertion has a row: %+v, %v", g, err)
	}
}
