package issuer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	// feedInterval is the shortest time between two lists of a node.
	feedInterval = time.Second
	// feedPeriod is how long an unchanged list keeps its text. It is well below
	// feedLife: a list is valid for feedLife plus twice RevocationsMaxAge.
	feedPeriod = 15 * time.Second
	feedLife   = 30 * time.Second
)

// revocations are the claims of the list. The list is complete for the access tokens
// issued at or after IssuedAt - Covers. Subscribers must refuse older tokens that have
// not expired.
type revocations struct {
	Issuer    string                   `json:"iss"`
	IssuedAt  int64                    `json:"iat"`
	ExpiresAt int64                    `json:"exp"`
	Covers    int64                    `json:"covers_ms"`
	Grants    map[string]grant.Instant `json:"grants"`
	Cutoffs   map[string]grant.Instant `json:"cutoffs"`
}

// Revocations returns the signed list of revocations whose access tokens may not
// have expired, for resource servers that verify JWTs offline. It is at most a
// second old. Its text depends only on its content and the time: nodes with the
// same directory publish the same list.
func (iss *Issuer) Revocations(ctx context.Context) (string, error) {
	f := iss.Feed
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return "", store.Unavailable(ctx.Err())
	}
	defer func() { <-f.turn }()
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	began := iss.Monotonic()
	if age := began.Sub(f.made); f.made.IsZero() || age < 0 || age >= feedInterval {
		f.made = began
		if f.text, f.err = (feed{iss}).text(ctx, view); f.err != nil {
			f.err = store.Unavailable(f.err)
			f.made = iss.Monotonic() // at most one attempt a second
		}
	}
	return f.text, f.err
}

// feed makes the list of revocations.
type feed struct{ *Issuer }

func (iss feed) text(ctx context.Context, view *directory.View) (string, error) {
	now, skew := iss.now(), iss.Policy.MaxSkew
	// One second more, because expiry is rounded up to seconds.
	covers := view.LongestAccess(iss.Policy.AccessLifetime) + 2*skew + time.Second
	begin := now - now%grant.Instant(feedPeriod.Milliseconds())
	since := begin.Add(-covers - skew)
	list, from, err := iss.revoked(ctx, since, now)
	if err != nil {
		return "", err
	}
	cutoffs := cutoffsSince(view, iss.Realm, since.Add(-directory.StaleAfter), skew)
	if n := iss.Feed.limit; len(cutoffs) > n {
		from = max(from, cutoffs[n].At.Add(directory.StaleAfter)+1)
		cutoffs = cutoffs[:n]
	}

	c := revocations{Issuer: iss.ID, Grants: map[string]grant.Instant{}, Cutoffs: map[string]grant.Instant{}}
	newest := begin
	dated := func(at grant.Instant) {
		if at <= now { // not by a clock that is ahead
			newest = max(newest, at)
		}
	}
	for _, r := range list {
		dated(r.At)
		c.Grants[blind("mintage/grant", string(r.GrantID[:]))] = r.Floor
	}
	for _, cut := range cutoffs {
		dated(cut.At)
		// The same name in every realm: subscribers do not have the name of the realm.
		key := blind("mintage/cutoff", oauth.DefaultRealm, cut.Subject, cut.ClientID)
		c.Cutoffs[key] = max(c.Cutoffs[key], cut.until)
	}
	// The newest entry dates the list, so that of two lists the one with more
	// entries is not the older one.
	c.IssuedAt = int64(newest) / 1000
	c.ExpiresAt = c.IssuedAt + int64((2*iss.RevocationsMaxAge+feedLife)/time.Second)
	// Entries that did not fit were revoked before from: they concern no token that was
	// issued later.
	c.Covers = min(covers.Milliseconds(), c.IssuedAt*1000-int64(from.Add(skew)))
	if c.Covers < 1 {
		return "", fmt.Errorf("more than %d revocations at once: no list can hold them", iss.Feed.limit)
	}
	claims, err := json.Marshal(c) // in the order of the keys
	if err != nil {
		return "", err
	}
	return view.Ring.Sign(keys.ES256, "revocations+jwt", claims, now)
}

// revoked returns the grants, and the tokens without a grant, that were revoked
// since an instant. If there are more than the list can hold, it returns the latest, which
// are complete since from.
func (iss feed) revoked(ctx context.Context, since, now grant.Instant) (list []store.Revocation, from grant.Instant, err error) {
	limit := iss.Feed.limit
	if list, from, err = iss.Store.Revocations(ctx, since, limit); err != nil {
		return nil, 0, err
	}
	own, err := services{iss.Issuer}.revoked(ctx, now)
	if err != nil {
		return nil, 0, err
	}
	if list = append(list, own...); len(list) > limit {
		slices.SortFunc(list, func(a, b store.Revocation) int { return cmp.Compare(b.At, a.At) })
		list, from = list[:limit], max(from, list[limit].At+1)
	}
	return list, from, nil
}

// revoked returns the unexpired revocations of service tokens. It fails if there
// are over ten times as many as the list of revocations can hold.
func (iss services) revoked(ctx context.Context, now grant.Instant) (list []store.Revocation, err error) {
	read, most := 0, 10*iss.Feed.limit
	for d, err := range store.EachDocument(ctx, iss.Store, store.DocumentFilter{Kind: store.DocumentServiceRevoked}) {
		if err != nil {
			return nil, err
		}
		if read++; read > most {
			return nil, fmt.Errorf("more than %d revocations of service tokens", most)
		}
		var r serviceRevocation
		if err := json.Unmarshal(d.Body, &r); err != nil {
			return nil, err
		}
		if id, err := grant.ParseID(r.ID); err == nil && now < d.ExpiresAt && r.Realm == store.OtherRealm(iss.Realm) {
			list = append(list, store.Revocation{Realm: iss.Realm, GrantID: id, At: r.At, Floor: grant.Never})
		}
	}
	return list, nil
}

// A cutoffEntry is a cutoff as published to subscribers: it revokes the tokens that were
// authorized until an instant.
type cutoffEntry struct {
	store.Cutoff
	until grant.Instant
}

// cutoffsSince lists cutoffs, and clients that were disabled or deleted, the latest
// first. Subscribers refuse the tokens of such a client until all have expired. An ended
// trust in a workload is listed as a cutoff of the client's tokens for itself.
func cutoffsSince(v *directory.View, realm string, since grant.Instant, skew time.Duration) (list []cutoffEntry) {
	for c := range v.Cutoffs(realm) {
		if c.At >= since {
			list = append(list, cutoffEntry{c, c.At.Add(skew)})
		}
	}
	for c := range v.Marked(directory.Stopped, realm) {
		if c.UpdatedAt >= since {
			list = append(list, cutoffEntry{store.Cutoff{ClientID: c.ID, At: c.UpdatedAt}, grant.Never})
		}
	}
	for t := range v.EndedTrusts(realm) {
		// Users' grants are revoked one by one. A workload has none: it requests new tokens.
		if t.Kind == store.TrustWorkload && t.UpdatedAt >= since {
			list = append(list, cutoffEntry{store.Cutoff{Subject: t.ClientID, ClientID: t.ClientID, At: t.UpdatedAt}, t.UpdatedAt.Add(skew)})
		}
	}
	slices.SortFunc(list, func(a, b cutoffEntry) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ClientID, b.ClientID))
	})
	return list
}

// blind returns the hash that stands for a name in the public list. It reveals the name
// only to those who know or guess it.
func blind(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
