package admin

import (
	"context"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// maxUsage is the number of grants after which Usage stops reading.
const maxUsage = 10_000

// Usage returns what users have allowed a client.
func (a Grants) Usage(ctx context.Context, client string) (v adminapi.Usage, err error) {
	if _, err := a.Clients().Read(ctx, client); err != nil {
		return v, err
	}
	subjects, scope, last := map[string]bool{}, oauth.Scope(""), grant.Instant(0)
	f := store.GrantFilter{ClientID: client, Limit: adminapi.MaxPage}
	for read := 0; ; {
		list, view, more, err := a.List(ctx, f)
		if err != nil {
			return v, err
		}
		for _, g := range list {
			if f.After = g.ID; a.View(g, view).State == "active" {
				v.Grants++
				subjects[g.Subject], scope, last = true, scope.Union(g.Scope), max(last, g.RotatedAt)
			}
		}
		if read += len(list); !more || read >= maxUsage {
			v.Users, v.Scope, v.LastUsedAt, v.More = len(subjects), string(scope), show.JSONInstant(last), more
			return v, nil
		}
	}
}
