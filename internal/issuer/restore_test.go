package issuer_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// rowAgain makes a grant's row what it was once.
func (s *service) rowAgain(old grant.Grant) {
	s.T.Helper()
	err := s.Engine.UpdateGrant(s.T.Context(), old.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
		old.Version = g.Version + 1
		return old, nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// restored declares a restore that has just happened.
func (s *service) restored() grant.Restore {
	s.T.Helper()
	s.Clock.Advance(time.Second)
	r := grant.Restore{Backup: s.At() - 1000, At: s.At(), Until: s.At().Add(31 * 24 * time.Hour)}
	if err := s.Engine.Commit(s.T.Context(), store.Change{Restores: []grant.Restore{r}}); err != nil {
		s.T.Fatal(err)
	}
	s.Poll()
	return r
}

func TestOP13_ARestoreLogsNobodyOutAndAReplayIsStillOne(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.login()
	old := s.row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.must(s.refresh(first.RefreshToken))
	s.Clock.Advance(time.Hour)
	third := s.must(s.refresh(second.RefreshToken))
	s.rowAgain(old)

	s.refused(grant.StoreBehind)(s.refresh(third.RefreshToken)) // nobody has said why
	if _, err := s.Inspect(t.Context(), third.AccessToken); err == nil {
		t.Error("an access token is alive that the store knows nothing of")
	}
	s.restored()
	if tok, err := s.Inspect(t.Context(), third.AccessToken); err != nil || tok.Subject != subject {
		t.Errorf("the access token of before: %v", err)
	}
	fourth := s.must(s.refresh(third.RefreshToken))
	if fourth.Generation != 4 {
		t.Errorf("the grant goes on in generation %d, want 4", fourth.Generation)
	}
	if again := s.must(s.refresh(third.RefreshToken)); again.RefreshToken != fourth.RefreshToken || !again.Repeated {
		t.Error("the same request did not get the same pair")
	}
	s.refused(grant.RefreshReplayed)(s.refresh(second.RefreshToken))
	s.refused(grant.GrantRevoked)(s.refresh(fourth.RefreshToken))
	if list := s.recorded(first.GrantID); len(list) != 1 || list[0].Name != "refresh_replayed" {
		t.Errorf("recorded: %v", list)
	}
}

func TestOP13_OfTwoHoldersOfTokensOfBeforeTheSecondEndsTheGrant(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.login()
	old := s.row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.must(s.refresh(first.RefreshToken))
	s.rowAgain(old)
	s.restored()
	third := s.must(s.refresh(first.RefreshToken)) // the thief's, say
	s.refused(grant.RefreshReplayed)(s.refresh(second.RefreshToken))
	s.refused(grant.GrantRevoked)(s.refresh(third.RefreshToken))
}

func TestOP13_AGrantOfAfterTheBackupIsLostForGood(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tokens := s.login()
	if _, n, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", grant.Never, 10); err != nil || n != 1 {
		t.Fatalf("%d rows removed: %v", n, err)
	}
	s.refused(grant.StoreBehind)(s.refresh(tokens.RefreshToken))
	s.restored()
	s.refused(grant.RestoredLost)(s.refresh(tokens.RefreshToken))
	if id, err := s.Revoke(t.Context(), s.client(clientID), tokens.RefreshToken, origin); err != nil {
		t.Errorf("revoking %s: %v, want success: it has ended", id, err)
	}
}

func TestOP13_ACodeOfBeforeTheRestoreIsRefusedAndOneOfAfterIsGood(t *testing.T) {
	t.Parallel()
	s := newService(t)
	code := s.code()
	r := s.restored()
	s.refused(grant.CodeBeforeRestore)(s.exchange(code))
	s.Clock.Advance(-500 * time.Millisecond) // a node whose clock is behind the one that restored
	tokens := s.must(s.exchange(s.code()))
	if g := s.row(tokens.GrantID); g.AuthorizedAt < r.At || g.RotatedAt < r.At {
		t.Errorf("authorized %d ms and issued %d ms after the restore", g.AuthorizedAt-r.At, g.RotatedAt-r.At)
	}
}

func TestOP13_TheSweepKeepsEveryGrantUntilTheRestoreIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, stop := sweeping(t, 50, func(s *service) {
			r := grant.Restore{Backup: s.At() - 1000, At: s.At(), Until: s.At() + 5}
			if err := s.Engine.Commit(t.Context(), store.Change{Restores: []grant.Restore{r}}); err != nil {
				t.Fatal(err)
			}
			s.Poll()
		})
		defer stop()
		time.Sleep(10 * time.Minute)
		if n := s.left(); n != 50 {
			t.Errorf("%d rows are left of 50", n)
		}
		s.Clock.Advance(5 * time.Millisecond)
		time.Sleep(2 * time.Minute)
		if n := s.left(); n != 1 {
			t.Errorf("%d rows are left, want the one that is alive", n)
		}
	})
}

func TestOP13_ALaterRestoreThatEndsEarlierCutsNoneShort(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.login()
	old := s.row(first.GrantID)
	s.Clock.Advance(time.Hour)
	second := s.must(s.refresh(first.RefreshToken))
	s.rowAgain(old)
	earlier := s.restored()
	// By somebody who has lowered the lifetime of refresh tokens.
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
	s.must(s.refresh(second.RefreshToken))
}

// recorded are the events of a grant.
func (s *service) recorded(id grant.ID) []store.Event {
	s.T.Helper()
	list, err := s.Engine.Events(s.T.Context(), id.String(), 100)
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}
