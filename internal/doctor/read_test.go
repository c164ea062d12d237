package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// TestWhatIsWellIsSaid: a check without findings reports what it has examined.
func TestWhatIsWellIsSaid(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	p.kernelClock = func() (bool, bool) { return true, true }
	said := map[string]string{}
	for _, f := range p.Examine(t.Context(), true, func(Finding) {}) {
		said[f.Check] += f.Level + ": " + f.Text + "\n"
	}
	for check, want := range map[string]string{
		"database":       "ok: mintage.db takes writes; journal_mode wal, synchronous FULL, ",
		"integrity":      "ok: every page of the store was read, and is whole",
		"issuer":         "ok: https://auth.example.com/oauth2/api, as it has always been",
		"keys":           "ok: the key-encryption key opens all 7 keys; 7 are in use, and each successor is created 7d ahead",
		"audit log":      "ok: 2 records in the last file of ",
		"clock":          "ok: synchronised, as far as this machine knows (NTP servers are not queried)",
		"public address": "note: left out: --offline",
	} {
		if !strings.HasPrefix(said[check], want) {
			t.Errorf("%s: %q, want %q", check, said[check], want)
		}
	}
}

// TestManyFindingsOfOneKindAreCounted: if many clients have the same fault, a report
// shows twenty, the number of the others, and how to list them.
func TestManyFindingsOfOneKindAreCounted(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	for i := range shownOfKind + 3 {
		p.Changes.Clients = append(p.Changes.Clients, store.Client{ID: fmt.Sprintf("c%02d", i), State: store.ClientEnabled, Settings: store.Settings{Auth: store.AuthEither, NoRotation: true}})
	}
	found := p.check(t.Context(), checkup{run: checkClients, limit: time.Minute})
	if n := strings.Count(fmt.Sprint(found), "rotation off"); n != shownOfKind {
		t.Errorf("%d are shown", n)
	}
	if last := found[len(found)-1]; last.Level != levelWarning || last.Text != "3 more like these" || last.Advice != "see: mintage client list" {
		t.Errorf("%+v", last)
	}
}

// TestAFindingIsPrintedWithItsAdvice prints the advice below the finding.
func TestAFindingIsPrintedWithItsAdvice(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Finding{
		"fault    keys: a\\x1bb\n         do: turn it\n": {Check: "keys", Level: levelFault, Text: "a\x1bb", Advice: "turn it"},
		"ok       keys: all\n":                           {Check: "keys", Level: levelOK, Text: "all"},
	} {
		var b strings.Builder
		if Print(&b, f); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
