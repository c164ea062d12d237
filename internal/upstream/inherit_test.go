package upstream_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/mintage/mintage/internal/upstream"
)

func TestMetadataOfAProviderAreKeptUnderAnotherConfiguration(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	cfg := p.config()
	cfg.Discovered = &upstream.Discovered{}
	old := upstream.New(cfg)
	p.begin(old, upstream.Request{})
	p.answers[discoveryPath] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

	cfg.Scopes = []string{"profile"}
	same := upstream.New(cfg)
	if _, err := same.Begin(t.Context(), upstream.Request{}); err != nil {
		t.Errorf("the same provider, which is down: %v", err)
	}
	cfg.Issuer += "/other"
	other := upstream.New(cfg)
	if _, err := other.Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("another provider: %v, want that nothing is known of it", err)
	}
}

// The client's authentication method depends on its secret, which a reload may change. It
// is not cached with the provider's metadata.
func TestAReloadChangesHowTheClientAuthenticates(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	cfg := p.config()
	cfg.Discovered = &upstream.Discovered{}
	public := cfg
	public.ClientSecret = ""
	p.begin(upstream.New(public), upstream.Request{})
	header := false
	p.answers["/token"] = func(w http.ResponseWriter, r *http.Request) {
		_, _, header = r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		p.token(w, r)
	}
	if _, err := p.login(upstream.New(cfg), upstream.Request{}); err != nil || !header {
		t.Errorf("the secret came in the header: %t; %v", header, err)
	}
}
