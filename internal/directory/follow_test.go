package directory

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// dump returns the contents of a view, line by line.
func (d *Directory) dump(v *View) []string {
	d.view.Store(v)
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, realm := range []string{"/a", "/b"} {
		for c := range v.Clients(realm) {
			enabled, ok := v.Client(realm, c.ID)
			at, _ := v.Registered(realm, c.ID)
			add("%s client %s %q: enabled %t, scope %q, %q", realm, c.ID, c.Name, ok && enabled.ID == c.ID, c.Scope, at.Scope)
		}
		for m := range marks {
			var ids []string
			for c := range v.Marked(m, realm) {
				ids = append(ids, c.ID)
			}
			slices.Sort(ids)
			add("%s mark %d: %q, %t", realm, m, ids, v.AnyMarked(m, realm))
		}
		for n := range 4 {
			scope, origin := fmt.Sprint("s", n), fmt.Sprintf("https://o%d.example", n)
			api, _ := v.APIOfScope(realm, scope)
			numbered, _ := v.APIByNumber(realm, uint16(n+1))
			add("%s scope %s: known %t, of clients %t, of %v; number %d: %v", realm, scope, v.KnowsScope(realm, scope), v.ClientsHave(realm, scope), api, n+1, numbered)
			add("%s origin %s: %t", realm, origin, d.IsScriptOrigin(realm, origin))
			var beyond []string
			for _, c := range v.Beyond(realm, fmt.Sprint("c", n)) {
				beyond = append(beyond, c.ID)
			}
			add("%s beyond c%d: %q", realm, n, beyond)
			for t := range v.TrustsOf(realm, fmt.Sprintf("https://i%d.example", n)) {
				add("%s issuer %d: trust %s, disabled %t", realm, n, t.ID, t.Disabled)
			}
		}
		for _, api := range v.APIs(realm) {
			add("%s API %s: %v", realm, api.ID, *api)
		}
		for _, api := range v.OpenAPIs(realm) {
			add("%s open API %s: %v", realm, api.ID, *api)
		}
		for t := range v.TrustsAfter(realm, "") {
			add("%s trust %s", realm, t.ID)
		}
		var ended []string
		for t := range v.EndedTrusts(realm) {
			ended = append(ended, t.ID)
		}
		slices.Sort(ended)
		add("%s ended trusts %q, last API %d, shortest %s, window %s, metadata %q", realm, ended, v.LastAPI(realm), v.ShortestAccess(realm, time.Hour), v.LongestRetryWindow(realm), d.Scopes(realm))
		for c := range v.Cutoffs(realm) {
			add("%s cutoff %v: %t, %d", realm, c, v.HasCutoff(realm, c.Subject, c.ClientID), v.Cutoff(realm, c.Subject, c.ClientID))
		}
	}
	for _, s := range v.expiring(0) {
		add("secret %v", s)
	}
	return append(list, fmt.Sprintf("id_tokens %s, access tokens %s", v.IDTokenLifetime(), v.LongestAccess(0)))
}

// plainly returns the expected contents for some of the rows, computed from all rows.
func plainly(realm string, n int, clients map[string]store.Client, trusts map[string]store.Trust) (list []string) {
	scope, origin, issuer, window := fmt.Sprint("s", n), fmt.Sprintf("https://o%d.example", n), fmt.Sprintf("https://i%d.example", n), time.Duration(0)
	var has, scripts bool
	var beyond, of, ended []string
	for _, c := range clients {
		if c.Realm != realm || !c.Decides() {
			continue
		}
		enabled := c.State == store.ClientEnabled
		has = has || slices.Contains(c.Scope.Tokens(), scope)
		scripts = scripts || enabled && c.Auth == store.AuthNone && slices.Contains(c.RedirectURIs, origin+"/cb")
		if enabled && len(c.Beyond) > 0 && slices.Contains(c.ExchangeFrom, fmt.Sprint("c", n)) {
			beyond = append(beyond, c.Name+c.ID)
		}
		if c.RetryWindow != nil && c.State != store.ClientDeleted {
			window = max(window, c.RetryWindow.Duration())
		}
	}
	for _, t := range trusts {
		if t.Realm == realm && t.Issuer == issuer && !t.Deleted {
			of = append(of, t.ID)
		}
		if t.Realm == realm && (t.Disabled || t.Deleted) {
			ended = append(ended, t.ID)
		}
	}
	slices.Sort(beyond)
	slices.Sort(of)
	slices.Sort(ended)
	return []string{fmt.Sprint(has, scripts, window), fmt.Sprint("beyond ", beyond), fmt.Sprint("of ", of), fmt.Sprint("ended ", ended)}
}

// said returns the contents of a view for the same rows.
func (d *Directory) said(v *View, realm string, n int) (list []string) {
	var beyond, of, ended []string
	for _, c := range v.Beyond(realm, fmt.Sprint("c", n)) {
		beyond = append(beyond, c.Name+c.ID)
	}
	for t := range v.TrustsOf(realm, fmt.Sprintf("https://i%d.example", n)) {
		of = append(of, t.ID)
	}
	for t := range v.EndedTrusts(realm) {
		ended = append(ended, t.ID)
	}
	slices.Sort(ended)
	return []string{
		fmt.Sprint(v.ClientsHave(realm, fmt.Sprint("s", n)), d.IsScriptOrigin(realm, fmt.Sprintf("https://o%d.example", n)), v.LongestRetryWindow(realm)),
		fmt.Sprint("beyond ", beyond), fmt.Sprint("of ", of), fmt.Sprint("ended ", ended),
	}
}

// A view that was updated with each change equals one that is read anew.
func TestAViewThatFollowsIsOneThatIsRead(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	realm := func() string { return []string{"/a", "/b"}[r.IntN(2)] }
	often := func() bool { return r.IntN(2) == 0 }
	clients, apis, trusts, cutoffs := map[string]store.Client{}, map[string]store.API{}, map[string]store.Trust{}, map[string]store.Cutoff{}
	last := map[string]uint16{}
	change := func() (ch store.Changes) {
		switch r.IntN(4) {
		case 0:
			c := store.Client{ID: fmt.Sprint("c", r.IntN(4)), Realm: realm(), State: []store.ClientState{store.ClientEnabled, store.ClientDisabled, store.ClientDeleted}[r.IntN(3)], Settings: store.Settings{
				Name: fmt.Sprint("N", r.IntN(3)), Scope: "s0", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{fmt.Sprintf("https://o%d.example/cb", r.IntN(4))},
				ExchangeFrom: []string{fmt.Sprint("c", r.IntN(4))}, NoRotation: often(), LogoutEndsGrants: often(), APIs: []string{fmt.Sprintf("https://a%d.example", r.IntN(3))},
			}}
			if often() {
				c.Auth, c.GrantTypes, c.LogoutURI, c.Beyond = store.AuthBasic, []string{}, "https://logout.example", []store.Beyond{{}}
				c.Scope, c.RetryWindow = "s1 s2", store.InMilliseconds(time.Duration(1+r.IntN(3))*time.Second)
				c.Secrets = []store.Secret{{ID: fmt.Sprint("k", r.IntN(2)), ExpiresAt: grant.Instant(r.IntN(3))}, {ID: "z", ExpiresAt: grant.Instant(r.IntN(3))}}
			} else if often() {
				c.RegisteredBy = store.ByDocument
			}
			clients[c.Realm+c.ID] = c
			ch.Clients = append(ch.Clients, c)
		case 1:
			a := apis[realm()+fmt.Sprint(r.IntN(3))]
			if a.ID == "" || a.Deleted {
				a = store.API{Realm: realm(), ID: fmt.Sprintf("https://a%d.example", r.IntN(3))}
				a.LongestLifetime = apis[a.Realm+a.ID].LongestLifetime
				if old := apis[a.Realm+a.ID]; old.Number != 0 && !old.Deleted {
					a = old
				} else {
					last[a.Realm]++
					a.Number = last[a.Realm]
				}
			}
			a.Deleted, a.Open, a.AccessLifetime, a.Scopes = r.IntN(4) == 0, often(), nil, nil
			for n := range 4 { // a scope belongs to one API at a time
				owned := false
				for key, other := range apis {
					owned = owned || key != a.Realm+a.ID && other.Realm == a.Realm && !other.Deleted && slices.ContainsFunc(other.Scopes, func(s store.APIScope) bool { return s.Name == fmt.Sprint("s", n) })
				}
				if !owned && often() {
					a.Scopes = append(a.Scopes, store.APIScope{Name: fmt.Sprint("s", n), Number: uint16(n + 1)})
				}
			}
			if often() {
				a.AccessLifetime = store.InMilliseconds(time.Duration(1+r.IntN(9)) * time.Minute)
				a.LongestLifetime = max(a.LongestLifetime, *a.AccessLifetime)
			}
			apis[a.Realm+a.ID] = a
			ch.APIs = append(ch.APIs, a)
		case 2:
			n := r.IntN(4)
			tr := store.Trust{ID: fmt.Sprint("t", n), Realm: realm(), Issuer: fmt.Sprintf("https://i%d.example", n/2), Disabled: often(), Deleted: r.IntN(4) == 0}
			trusts[tr.Realm+tr.ID] = tr
			ch.Trusts = append(ch.Trusts, tr)
		default:
			c := store.Cutoff{Realm: realm(), Subject: fmt.Sprint("u", r.IntN(3)), ClientID: []string{"", "c1"}[r.IntN(2)], At: grant.Instant(1 + r.IntN(99))}
			cutoffs[c.Realm+c.Subject+" "+c.ClientID] = c
			ch.Cutoffs = append(ch.Cutoffs, c)
		}
		return ch
	}
	d, followed := holding(t, 0)
	for n := range 500 {
		ch := change()
		ch.Version = int64(n + 2)
		var err error
		if followed, err = d.apply(followed, ch); err != nil {
			t.Fatal(err)
		}
		all := store.Changes{
			Version: ch.Version, Clients: slices.Collect(maps.Values(clients)), APIs: slices.SortedFunc(maps.Values(apis), func(a, b store.API) int { return cmp.Compare(a.Number, b.Number) }),
			Trusts: slices.Collect(maps.Values(trusts)), Cutoffs: slices.Collect(maps.Values(cutoffs)),
		}
		other, v := holding(t, 0)
		if v, err = other.apply(v, all); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(d.dump(followed), "\n"), strings.Join(other.dump(v), "\n"); got != want {
			t.Fatalf("after %d changes, and %+v, it says\n%s\nand not\n%s", n+1, ch, got, want)
		}
		for i := range 8 {
			of, n := []string{"/a", "/b"}[i%2], i/2
			if got, want := d.said(followed, of, n), plainly(of, n, clients, trusts); !slices.Equal(got, want) {
				t.Fatalf("%s, %d: %q, not %q", of, n, got, want)
			}
		}
	}
}
