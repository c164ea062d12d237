package admin_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A retired signing key is listed as retired for as long as the servers publish it.
func TestASigningKeyIsListedForTheLongestJWT(t *testing.T) {
	day := 24 * time.Hour
	aDay := store.Milliseconds(day.Milliseconds())
	for _, c := range []struct {
		name    string
		entries []store.Entry
		want    time.Duration
	}{
		{"nobody asks for more", nil, time.Hour},
		{"id_tokens of a client", []store.Entry{
			store.Client{ID: "billing", Realm: "/api", Version: 1, State: store.ClientEnabled, Settings: store.Settings{IDTokenLifetime: &aDay}}.Entry(),
		}, day + time.Hour + time.Minute},
		{"access tokens that an API has had", []store.Entry{
			store.API{ID: "https://api.example.com/orders", Realm: "/api", Number: 1, Version: 1, LongestLifetime: store.Milliseconds(10 * day.Milliseconds())}.Entry(),
		}, 10*day + time.Hour + time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := newAdmin(t)
			if err := a.Store.Commit(t.Context(), store.Change{Entries: c.entries}); err != nil {
				t.Fatal(err)
			}
			added, err := a.Keys().Rotate(t.Context(), []string{string(keys.ES256)}, 0)
			if err != nil || len(added) != 1 {
				t.Fatal(added, err)
			}
			from := added[0].ActiveAt
			retired := from.Add(time.Second).Time()
			a.Now = func() time.Time { return retired }
			list, err := a.Keys().List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, k := range list {
				if k.Purpose != string(keys.ES256) || k.Phase != string(keys.Retired) {
					continue
				}
				found++
				if got := grant.At(*k.EndsAt).Since(from); got != c.want {
					t.Errorf("it is retired for %s, want %s", got, c.want)
				}
			}
			if found != 1 {
				t.Errorf("%d keys are retired", found)
			}
		})
	}
}
