package console

import (
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mintage/mintage/internal/store"
)

// TestEachErrorPageNamesItsError: each error page names the kind of the error, and has its
// status.
func TestEachErrorPageNamesItsError(t *testing.T) {
	t.Parallel()
	c, r := &Console{Log: slog.New(slog.DiscardHandler)}, &request{Request: httptest.NewRequest(http.MethodGet, "/", nil), outer: t.Context(), id: "a1", locale: "en"}
	titles := map[template.HTML]string{}
	refused := func(status int, kind string) error {
		p := &problem{}
		p.Status, p.Type, p.Field, p.Detail, p.Advice = status, "urn:mintage:problem:"+kind, "name", "is wrong", "correct it"
		return fmt.Errorf("admin API: %w", p)
	}
	for _, k := range []struct {
		err    error
		status int
		kind   string
	}{
		{errNotFound, 404, "missing"}, {errForged, 403, "forged"}, {errTooLarge, 413, "large"}, {fmt.Errorf("commit: %w", store.ErrUnavailable), 503, "unavailable"}, {errors.New("disk"), 500, "internal"},
		{refused(400, "x"), 400, "refused"}, {refused(403, "role"), 403, "role"}, {refused(403, "realm"), 403, "realm"}, {refused(404, "x"), 404, "missing"}, {refused(409, "x"), 409, "conflict"},
		{refused(412, "x"), 412, "conflict"}, {refused(422, "x"), 422, "refused"}, {refused(429, "x"), 429, "busy"}, {refused(503, "x"), 503, "unavailable"}, {refused(500, "x"), 500, "internal"},
	} {
		a := c.failed(r, k.err)
		p, _ := a.page.(failurePage)
		if a.status != k.status || p.Kind != k.kind || p.RequestID != "a1" {
			t.Errorf("%v: %d, %+v, want %d %s", k.err, a.status, p, k.status, k.kind)
		}
		if errors.As(k.err, new(*problem)) && (p.Detail != "name is wrong" || p.Advice != "correct it") {
			t.Errorf("%v: %+v", k.err, p)
		}
		text, err := c.render(r, a.page)
		if title := titleOf(string(text)); err != nil || title == "" {
			t.Errorf("the page of %s has no title: %v", k.kind, err)
		} else if of := titles[title]; of != "" && of != k.kind {
			t.Errorf("%s and %s have the title %q", of, k.kind, title)
		} else {
			titles[title] = k.kind
		}
	}
}
