package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/store"
)

// Without a server, resources that only a server has return a problem.
func TestWhatOnlyAServerHas(t *testing.T) {
	a := newAdminAPI(t)
	for _, path := range []string{"/traffic", "/checkup", "/settings", "/clients/billing/watch"} {
		a.refused(t, http.StatusConflict, "no-server", http.MethodGet, path, "")
	}
	a.refused(t, http.StatusConflict, "no-server", http.MethodPost, "/checkup", "")
	a.refused(t, http.StatusNotFound, "not-found", http.MethodGet, "/clients/nobody/watch", "")
	a.call(t, http.StatusUnprocessableEntity, http.MethodGet, "/traffic?period=year", "")

	var asked []time.Duration
	a.api.Traffic = func(_ context.Context, of, step time.Duration) (adminapi.Traffic, error) {
		asked = append(asked, of/step)
		return adminapi.Traffic{Step: int(step / time.Second)}, nil
	}
	started := 0
	a.api.Checkup = func(start bool) adminapi.Checkup {
		if start {
			started++
		}
		return adminapi.Checkup{Running: start}
	}
	watched := ""
	a.api.Watch = func(c store.Client) (adminapi.Watch, bool) {
		watched = c.ID
		return adminapi.Watch{}, c.ID != "full"
	}
	a.api.Settings = func() adminapi.Settings { return adminapi.Settings{OnReload: []string{"log.level"}} }
	for _, period := range []string{"", "?period=hour", "?period=week"} {
		a.call(t, http.StatusOK, http.MethodGet, "/traffic"+period, "")
	}
	if len(asked) != 3 || asked[0] != 288 || asked[1] != 12 || asked[2] != 168 {
		t.Errorf("steps: %d", asked)
	}
	if v, _ := a.call(t, http.StatusOK, http.MethodGet, "/checkup", ""); v["running"] != false || v["findings"] == nil || started != 0 {
		t.Errorf("a look: %v, %d started", v, started)
	}
	if v, _ := a.call(t, http.StatusAccepted, http.MethodPost, "/checkup", ""); v["running"] != true || started != 1 {
		t.Errorf("check now: %v, %d started", v, started)
	}
	a.call(t, http.StatusOK, http.MethodGet, "/clients/billing/watch", "")
	if watched != "billing" {
		t.Errorf("%q is watched", watched)
	}
	a.call(t, http.StatusCreated, http.MethodPut, "/clients/full", strings.ReplaceAll(invoices, "invoices", "full"))
	if p, _ := a.call(t, http.StatusTooManyRequests, http.MethodGet, "/clients/full/watch", ""); p["advice"] == nil {
		t.Errorf("%v", p)
	}
	if v, _ := a.call(t, http.StatusOK, http.MethodGet, "/settings", ""); v["on_reload"] == nil {
		t.Errorf("%v", v)
	}
}
