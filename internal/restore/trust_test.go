package restore

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/store"
)

// A restore does not undo the end of a trust. A changed trust is disabled, because the
// backup may allow more than the operator wants.
func TestARestoreTakesNoEndOfATrustBack(t *testing.T) {
	was := store.Trust{ID: "00112233aabbccdd", Issuer: "https://idp.example", Version: 1, Since: 1, APIs: []string{"a", "b"}}
	with := func(change func(*store.Trust)) *store.Trust {
		is := was
		is.Version++
		change(&is)
		return &is
	}
	deleted := with(func(is *store.Trust) { is.Deleted = true })
	disabled := with(func(is *store.Trust) { is.Disabled = true })
	for name, tt := range map[string]struct {
		was, is *store.Trust
		ended   []admin.EndedTrust
		missing string
	}{
		"deleted":          {&was, deleted, []admin.EndedTrust{{ID: was.ID, Deleted: true}}, ""},
		"disabled":         {&was, disabled, []admin.EndedTrust{{ID: was.ID}}, ""},
		"narrowed":         {&was, with(func(is *store.Trust) { is.APIs = []string{"a"} }), []admin.EndedTrust{{ID: was.ID}}, "change it again"},
		"created again":    {&was, with(func(is *store.Trust) { is.Since = 9 }), []admin.EndedTrust{{ID: was.ID, Deleted: true}}, "create it anew"},
		"created":          {nil, &was, nil, "create it anew"},
		"made and deleted": {nil, deleted, nil, ""},
	} {
		var p Since
		p.ofTrust(TrustChange{Was: tt.was, Is: tt.is})
		if !reflect.DeepEqual(p.Ended.Trusts, tt.ended) || (len(p.Missing) == 1) != (tt.missing != "") || !strings.Contains(strings.Join(p.Missing, ""), tt.missing) {
			t.Errorf("%s: ended %+v, missing %q", name, p.Ended.Trusts, p.Missing)
		}
	}
	p, err := InAuditLog(t.Context(), []audit.Entry{
		{Event: audit.Name(store.EventTrustDeleted), Time: time.UnixMilli(7), Detail: "trust 00112233aabbccdd: id-jag of https://idp.example for client agent"},
		{Event: audit.Name(store.EventTrustChanged), Time: time.UnixMilli(8), Detail: `trust 0011223344556677: apis "a", was "a, b"`},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []admin.EndedTrust{{ID: "00112233aabbccdd", Deleted: true, At: 7}, {ID: "0011223344556677", At: 8}}
	if !reflect.DeepEqual(p.Ended.Trusts, want) || len(p.Missing) != 1 {
		t.Errorf("from the audit log: %+v, missing %q", p.Ended.Trusts, p.Missing)
	}
}
