package main

import (
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

func TestADatasetIsWhatAServerWouldHaveWritten(t *testing.T) {
	dir := t.TempDir()
	d, err := makeDataset(t.Context(), dir, embedded, 700)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := readSizes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if sizes.grants != 700 || sizes.payload <= 700*100 || sizes.table <= sizes.payload || sizes.index == 0 || sizes.file < sizes.table+sizes.index {
		t.Errorf("%+v", sizes)
	}
	st, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	grants, err := st.Grants(t.Context(), store.GrantFilter{Limit: 1000})
	if err != nil || len(grants) != 700 {
		t.Fatalf("%d grants, %v", len(grants), err)
	}
	now := grant.At(time.Now())
	seen := map[grant.ID]bool{}
	for _, text := range d.tokens {
		tok, err := d.ring.OpenRefresh(realm, text)
		if err != nil {
			t.Fatal(err)
		}
		g, err := st.Grant(t.Context(), tok.GrantID)
		if err != nil {
			t.Fatal(err)
		}
		if seen[g.ID] || len(g.Subject) != 36 || g.Scope != scope || g.ClientID != d.clientID || g.Generation != tok.Generation ||
			g.RotatedAt != tok.IssuedAt || g.RotatedAt > now || g.ExpiresAt <= now || g.State != grant.Active {
			t.Fatalf("grant %+v for token %+v", g, tok)
		}
		seen[g.ID] = true
	}

	codes, err := d.codes(20, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range codes {
		c, err := d.ring.OpenCode(realm, text)
		if err != nil || c.ClientID != d.clientID || c.Scope != scope || len(c.Subject) != 36 || c.ExpiresAt <= now {
			t.Errorf("code %+v, %v", c, err)
		}
	}
	slices.Sort(codes)
	if len(slices.Compact(codes)) != 20 {
		t.Error("a code was made twice")
	}
}

func TestTheDiskIsProbed(t *testing.T) {
	if d, err := probeDisk(t.TempDir()); err != nil || d <= 0 {
		t.Errorf("a write takes %s, %v", d, err)
	}
}
