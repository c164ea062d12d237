package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/operator"
)

// Each key has bars on one time axis: before its use, in use until its successor is, and
// verifying until its end.
func TestTheLifeOfKeysIsDrawn(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"keys":[
			{"id":"old","purpose":"ES256","phase":"retired","created_at":"2026-10-06T00:00:00Z","active_at":"2026-10-16T00:00:00Z","ends_at":"2026-12-05T00:00:00Z"},
			{"id":"gone","purpose":"ES256","phase":"withdrawn","created_at":"2026-10-20T00:00:00Z","active_at":"2026-10-25T00:00:00Z","ends_at":null},
			{"id":"now","purpose":"ES256","phase":"active","created_at":"2026-11-05T00:00:00Z","active_at":"2026-11-15T00:00:00Z","ends_at":"2026-12-15T00:00:00Z"},
			{"id":"next","purpose":"ES256","phase":"next","created_at":"2026-11-25T00:00:00Z","active_at":"2026-12-15T00:00:00Z","ends_at":"2026-12-15T00:00:00Z"},
			{"id":"audit","purpose":"audit","phase":"active","created_at":"2020-01-01T00:00:00Z","active_at":"2020-01-01T00:00:00Z","ends_at":null}]}`))
	})
	c := &Console{API: api, Now: func() time.Time { return now }}
	r := &request{Request: httptest.NewRequest(http.MethodGet, "/keys", nil).WithContext(t.Context()), who: &operator.Operator{}}
	a, err := c.keys(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	p := a.page.(keysPage)
	// The axis has 180 days back, 20 days ahead, and a tenth of these 200 days more: 220
	// days.
	if p.From != now.AddDate(0, 0, -180) || p.To != now.AddDate(0, 0, 40) || p.Now != 818 {
		t.Errorf("the axis is from %s to %s, now at %d", p.From, p.To, p.Now)
	}
	for i, want := range []keyRow{
		{Lead: "M590 0h46v1h-46z", Use: "M636 0h136v1h-136z", Verify: "M772 0h91v1h-91z"}, {},
		{Lead: "M727 0h45v1h-45z", Use: "M772 0h137v1h-137z"}, {Lead: "M818 0h91v1h-91z", Use: "M909 0h91v1h-91z"}, {Use: "M0 0h1000v1h-1000z"},
	} {
		if got := p.Keys[i]; got.Lead != want.Lead || got.Use != want.Use || got.Verify != want.Verify {
			t.Errorf("%s is drawn as %q %q %q, want %q %q %q", got.ID, got.Lead, got.Use, got.Verify, want.Lead, want.Use, want.Verify)
		}
	}
}
