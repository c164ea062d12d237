package upstream_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/mintage/mintage/internal/upstream"
)

func TestWhatAProviderHasSaidIsKnownUnderAnotherConfiguration(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	old := upstream.New(p.config())
	p.begin(old, upstream.Request{})
	p.answers[discoveryPath] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

	cfg := p.config()
	cfg.Scopes = []string{"profile"}
	same := upstream.New(cfg)
	same.Inherit(old)
	if _, err := same.Begin(t.Context(), upstream.Request{}); err != nil {
		t.Errorf("the same provider, which is down: %v", err)
	}
	cfg.Issuer += "/other"
	other := upstream.New(cfg)
	other.Inherit(old)
	if _, err := other.Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("another provider: %v, want that nothing is known of it", err)
	}
}
