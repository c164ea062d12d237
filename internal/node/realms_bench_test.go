package node

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store"
)

// BenchmarkStartOfManyRealms starts a node on a store with 100 realms of 1,000 clients
// each. It reports the seconds until the first answer of the last realm, and the memory
// then in use, in MB.
func BenchmarkStartOfManyRealms(b *testing.B) {
	const realms, clients = 100, 1000
	cfg := config.Default()
	cfg.Data, cfg.PublicURL, cfg.TLS, cfg.NewStore = b.TempDir(), "https://"+defaultHost, config.TLS{Cert: "cert.pem", Key: "key.pem"}, true
	whole := cfg
	for i := range realms - 1 {
		of := cfg
		of.Realm, of.BasePath = fmt.Sprintf("/r%d", i), fmt.Sprintf("/r%d", i)
		whole.Realms = append(whole.Realms, of)
	}
	st, err := deployment.CreateStore(b.Context(), cfg, true)
	if err != nil {
		b.Fatal(err)
	}
	for _, of := range whole.Each() {
		var list []store.Entry
		for i := range clients {
			list = append(list, store.Client{
				ID: fmt.Sprintf("client-%d", i), Realm: of.Realm, State: store.ClientEnabled, Version: 1, CreatedAt: 1, UpdatedAt: 1,
				Settings: store.Settings{Name: "Client", Auth: store.AuthEither, RedirectURIs: []string{"https://client.example/callback"}, Scope: "read write", GrantTypes: store.DefaultGrantTypes},
				Secrets:  []store.Secret{{ID: "secret", Digest: make([]byte, 32)}},
			}.Entry())
		}
		if err := st.Commit(b.Context(), store.Change{Entries: list}); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6
	}
	open := func() (*node, func() error) {
		n := &node{version: "test", log: slog.New(slog.DiscardHandler), level: new(slog.LevelVar)}
		closing, err := n.open(b.Context(), whole, nil)
		if err != nil {
			b.Fatal(err)
		}
		return n, closing
	}
	_, closing := open() // the first start, which makes the keys
	if err := closing(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		before, began := heap(), time.Now()
		if err := whole.Check(); err != nil {
			b.Fatal(err)
		}
		n, closing := open()
		opened := time.Since(began)
		if err := n.equip(whole); err != nil {
			b.Fatal(err)
		}
		list, err := n.answer(whole)
		if err != nil {
			b.Fatal(err)
		}
		n.use(whole, list)
		last := whole.Realms[realms-2]
		w := httptest.NewRecorder()
		n.public.ServeHTTP(w, httptest.NewRequest("GET", last.PublicURL+last.BasePath+"/oauth2"+last.Realm+"/.well-known/openid-configuration", nil))
		b.ReportMetric(opened.Seconds(), "s-open")
		b.ReportMetric(time.Since(began).Seconds(), "s-start")
		if w.Code != 200 {
			b.Fatalf("metadata of %s: %d", last.Realm, w.Code)
		}
		b.ReportMetric(heap()-before, "MB")
		if err := closing(); err != nil {
			b.Fatal(err)
		}
	}
}
