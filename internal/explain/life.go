package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// shownRefreshes is how many routine refreshes of the audit log are listed; the
// others are counted.
const shownRefreshes = 5

// readEvents limits the events about a client or a subject that cutters searches.
const readEvents = 10000

// completeLife collects the history of the grant, or of a client's token for itself,
// from its row, the events and the audit log.
func (x *Explainer) completeLife(ctx context.Context, v *Explained) error {
	e := v.Explanation
	if e == nil || !e.Named && !e.isService() {
		return nil
	}
	add := func(at grant.Instant, what, actor, detail string) {
		v.life = append(v.life, adminapi.LifeEntry{At: show.JSONInstant(at), What: what, Actor: actor, Detail: detail})
	}
	f := audit.Filter{GrantID: e.Token.GrantID.String()}
	if e.Grant != nil {
		f.Since = e.Grant.AuthorizedAt.Time().Add(-time.Hour) // the clocks of nodes differ by less
	}
	entries := x.audited(ctx, v, f)
	v.service = slices.ContainsFunc(entries, ofService)
	redeemed := slices.ContainsFunc(entries, func(a audit.Entry) bool { return a.Event == audit.CodeRedeemed && a.Outcome == audit.Success })
	if g := e.Grant; e.asserted() {
		add(g.AuthorizedAt, "authorized", "", fmt.Sprintf("trust %s: an assertion about subject %q gave client %q the scope %q", g.Trust, g.Subject, g.ClientID, g.Scope))
		add(g.ExpiresAt, "last access token expires", "", "")
	} else if g != nil {
		add(g.AuthorizedAt, "authorized", "", fmt.Sprintf("subject %q agreed that client %q may have the scope %q", g.Subject, g.ClientID, g.Scope))
		switch {
		case g.Generation == 1:
			if !redeemed {
				add(g.RotatedAt, "code redeemed", g.ClientID, "the first pair; never refreshed since")
			}
		default:
			if !redeemed {
				v.life = append(v.life, adminapi.LifeEntry{At: nil, What: "code redeemed", Actor: g.ClientID, Detail: "the first pair; the store does not keep when"})
			}
			add(g.RotatedAt, "refreshed "+show.Count(int(g.Generation-1), "time", "times")+" in all", g.ClientID, fmt.Sprintf("this is the last time: generation %d", g.Generation))
		}
		add(g.ExpiresAt, "refresh token expires", "", "")
	} else if e.Code != nil {
		add(e.Code.AuthorizedAt, "authorized", "", fmt.Sprintf("subject %q agreed that client %q may have the scope %q", e.Code.Subject, e.Code.ClientID, e.Code.Scope))
		add(e.Code.ExpiresAt, "code expires", "", "")
	}
	if g := e.Grant; g != nil {
		if g.AccessFloor != 0 {
			add(g.AccessFloor, "access tokens until then ended", "", "")
		}
		add(g.DeleteAfter, "row may be removed", "", "")
	}
	for _, event := range e.Events {
		add(event.At, string(event.Name), event.Actor, event.Detail)
	}
	for _, c := range e.Cutoffs {
		add(c.At, "cut off until then", "", show.Whom(c.Subject, c.ClientID, " and "))
	}
	if e.Restore.At != 0 && (e.Grant == nil || e.Grant.AuthorizedAt < e.Restore.At) {
		add(e.Restore.At, "store restored", "", "from a backup of "+show.Instant(e.Restore.Backup)+"; tokens of before are accepted until "+show.Instant(e.Restore.Until))
	}
	if err := x.cutters(ctx, v); err != nil {
		return err
	}
	v.addAudited(entries)
	slices.SortStableFunc(v.life, func(a, b adminapi.LifeEntry) int {
		if a.At == nil || b.At == nil {
			return 0
		}
		return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli())
	})
	return nil
}

// cutters adds the events that made the cutoffs, if they are recorded.
func (x *Explainer) cutters(ctx context.Context, v *Explained) error {
	for _, c := range v.Cutoffs {
		for _, about := range []string{c.ClientID, store.AboutSubject(c.Subject)} {
			if about == "" || about == store.AboutSubject("") {
				continue
			}
			events, err := x.Store.Events(ctx, about, readEvents)
			if err != nil {
				return err
			}
			for _, e := range events {
				made := e.Name == store.EventCutoff || e.Name == store.EventDisconnected || e.Name == store.EventUserDisabled ||
					e.Name == store.EventPasswordChanged || e.Name == store.EventClientDeleted
				// A cutoff is dated a little later than its event; see directory.CutoffReach.
				if made && c.At.Since(e.At).Abs() <= 2*directory.CutoffReach {
					v.life = append(v.life, adminapi.LifeEntry{At: show.JSONInstant(e.At), What: string(e.Name), Actor: e.Actor, Detail: e.Detail})
				}
			}
		}
	}
	return nil
}

// addAudited adds the entries of the audit log that the store's events lack.
func (v *Explained) addAudited(entries []audit.Entry) {
	routine := 0
	for _, a := range slices.Backward(entries) {
		if v.recorded(a) {
			continue
		}
		if a.Event == audit.RefreshShared {
			v.shared++
		}
		if (a.Event == audit.TokensRefreshed || a.Event == audit.RefreshShared) && a.Outcome == audit.Success {
			if routine++; routine > shownRefreshes {
				continue
			}
		}
		v.life = append(v.life, entryOf(a))
	}
	if more := routine - shownRefreshes; more > 0 {
		v.auditNote = cmp.Or(v.auditNote, fmt.Sprintf("%d more refreshes are in the audit log: mintage audit show --grant %s", more, v.Token.GrantID))
	}
}

// recorded reports whether the store has the same event.
func (v *Explained) recorded(a audit.Entry) bool {
	return slices.ContainsFunc(v.Events, func(e store.Event) bool {
		return string(e.Name) == string(a.Event) && a.Time.Sub(e.At.Time()).Abs() < 5*time.Second
	})
}

func entryOf(a audit.Entry) adminapi.LifeEntry {
	what := string(a.Event)
	if a.Outcome != audit.Success && a.Outcome != "" {
		what += " (" + string(a.Outcome) + ")"
	}
	return adminapi.LifeEntry{At: &a.Time, What: what, Actor: cmp.Or(a.Actor, a.ClientID), Detail: auditDetail(a)}
}

// auditDetail returns the evidence of an entry in one line.
func auditDetail(a audit.Entry) string {
	generation := ""
	if a.Generation != 0 {
		generation = fmt.Sprint(a.Generation)
	}
	var parts []string
	for _, m := range [][2]string{{"", a.Detail}, {"generation ", generation}, {"from ", a.RemoteIP}, {"request ", a.RequestID}, {"on ", a.Node}} {
		if m[1] != "" {
			parts = append(parts, m[0]+m[1])
		}
	}
	return strings.Join(parts, "; ")
}
