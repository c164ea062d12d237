package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/fetch"
)

// Only a --dev server whose listeners are all on loopback fetches documents from loopback
// addresses.
func TestDocumentsOnLoopbackAreForDevelopment(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	defer s.Close()
	for _, c := range []struct {
		dev    bool
		listen string
		want   error
	}{
		{false, "127.0.0.1:8443", fetch.ErrAddress},
		{true, "0.0.0.0:8443", fetch.ErrAddress},
		{true, "127.0.0.1:8443", fetch.ErrUnreachable}, // its certificate is unknown
	} {
		cfg := config.Default()
		cfg.Data, cfg.Listen, cfg.Management.Listen = t.TempDir(), c.listen, "127.0.0.1:9000"
		client, err := documentClient(cfg, c.dev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Get(t.Context(), s.URL+"/client.json"); !errors.Is(err, c.want) {
			t.Errorf("dev %t, listening at %s: %v, want %v", c.dev, c.listen, err, c.want)
		}
	}
}

func TestOutcomesOfFetches(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"ok": nil, "forbidden": fetch.ErrAddress, "unreachable": fetch.ErrUnreachable, "unusable": fetch.ErrAnswer} {
		if err != nil {
			err = fmt.Errorf("a: %w", err)
		}
		if got := fetchOutcome(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
