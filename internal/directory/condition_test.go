package directory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

func TestTheConditionListsSecretsThatRunOutTheNextFirst(t *testing.T) {
	s := newService(t)
	if c := s.Directory.Condition(); len(c.Expiring) != 0 {
		t.Errorf("%v run out, and none does", c.Expiring)
	}
	at := func(d time.Duration) grant.Instant { return grant.At(s.Uptime.Now()).Add(d) }
	const day = 24 * time.Hour
	for id, ends := range map[string][]time.Duration{
		"rotating": {3 * day, 0}, "soon": {day, 5 * day}, "gone": {-day}, "long-gone": {-8 * day}, "forever": {0},
	} {
		s.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither}})
		s.Administer(id, func(c *store.Client) {
			first := c.Secrets[0]
			c.Secrets = nil
			for i, d := range ends {
				secret := first
				secret.ID = fmt.Sprint(id, i)
				if d != 0 {
					secret.ExpiresAt = at(d)
				}
				c.Secrets = append(c.Secrets, secret)
			}
		})
	}
	var got []string
	for _, e := range s.Directory.Condition().Expiring {
		got = append(got, fmt.Sprint(e.ID, " ", e.Replaced))
	}
	if want := []string{"gone0 false", "soon0 true", "rotating0 true", "soon1 false"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.Administer("soon", func(c *store.Client) { c.State = store.ClientDisabled })
	if n := len(s.Directory.Condition().Expiring); n != 2 {
		t.Errorf("%d secrets with a client disabled, want 2", n)
	}
}

func TestTheConditionReportsDueKeysAndTheAgeOfNews(t *testing.T) {
	s := newService(t)
	c := s.Directory.Condition()
	if c.Age != 0 || c.Due != 0 || c.ClockFault != nil || c.Restore != (grant.Restore{}) {
		t.Errorf("of a new directory: %+v", c)
	}
	var purposes []keys.Purpose
	for _, k := range c.Active {
		purposes = append(purposes, k.Purpose)
		if k.Phase != keys.Active || k.EndsAt != 0 {
			t.Errorf("%s: phase %s until %d, and nothing rotates", k.Purpose, k.Phase, k.EndsAt)
		}
	}
	slices.Sort(purposes)
	if want := []keys.Purpose{keys.Audit, keys.ES256, keys.EdDSA, keys.MAC, keys.Pepper, keys.Seal}; !slices.Equal(purposes, slices.Sorted(slices.Values(want))) {
		t.Errorf("keys in use: %v, want %v", purposes, want)
	}
	s.Directory.Schedule.Lifetime, s.Directory.Schedule.Lead = 90*24*time.Hour, 7*24*time.Hour
	for _, k := range s.Directory.Condition().Active {
		if want := k.ActiveAt.Add(90 * 24 * time.Hour); k.Purpose != keys.Pepper && k.EndsAt != want {
			t.Errorf("%s is followed at %d, want %d", k.Purpose, k.EndsAt, want)
		}
		if k.Purpose == keys.Pepper && k.EndsAt != 0 {
			t.Error("the pepper is followed")
		}
	}
	s.Uptime.Advance(84 * 24 * time.Hour)
	c = s.Directory.Condition()
	if c.Due != 5 || c.Age != 84*24*time.Hour {
		t.Errorf("%d keys are due, and the news are %s old; want 5 and 84 days", c.Due, c.Age)
	}
}
