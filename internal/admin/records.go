package admin

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Records caches the texts by which clients that registered themselves are found, so that
// a search reads only the records that have changed since the last search, not all 100,000.
// It is safe for concurrent use. A nil *Records caches nothing.
type Records struct {
	mu        sync.Mutex
	list      []recordTexts // in the order of the keys
	whole, at grant.Instant // when all records were read last, and when the changed ones; zero: never
	many      bool          // there are more than recordsHeld: each search reads all of them
}

type recordTexts struct {
	key  store.DocumentKey
	text string // in lower case, one text in a line
}

const (
	// recordsHeld is the largest number of cached records, about 200 bytes each.
	recordsHeld = 200_000
	// recordsKept is how long the cache is updated before all records are read again, which
	// drops those that a sweep deleted. Until then, the cache lacks a record whose timestamp
	// a wrong clock has set to more than recordSlack before its commit.
	recordsKept = time.Hour
	recordSlack = 2 * time.Minute
	// recordsAtOnce is how many are read in one statement.
	recordsAtOnce = 5000
)

// find is Documents for records, but may leave out those of clients that match does not
// select. For a record that was deleted meanwhile, it returns an expired one.
func (r *Records) find(ctx context.Context, st store.Store, f store.DocumentFilter, match string, now grant.Instant) (docs []store.Document, err error) {
	if r == nil || match == "" {
		return st.Documents(ctx, f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.update(ctx, st, now); err != nil {
		return nil, err
	}
	if r.many {
		f.Limit = recordPage
		return st.Documents(ctx, f)
	}
	match = strings.ToLower(match)
	from, known := r.search(f.After, len(r.list))
	if known {
		from++
	}
	for _, c := range r.list[from:] {
		if !strings.Contains(c.text, match) {
			continue
		}
		d, err := st.Document(ctx, c.key)
		if errors.Is(err, store.ErrNotFound) {
			d, err = store.Document{Key: c.key}, nil
		}
		if docs = append(docs, d); err != nil || len(docs) == f.Limit {
			return docs, err
		}
	}
	return docs, nil
}

// search returns the index of a key among the first n records, and whether it is there.
func (r *Records) search(key store.DocumentKey, n int) (int, bool) {
	return slices.BinarySearchFunc(r.list[:n], recordTexts{key: key}, recordTexts.compare)
}

func (t recordTexts) compare(o recordTexts) int { return bytes.Compare(t.key[:], o.key[:]) }

// update reads the records that may have changed since the last update, or all of them.
func (r *Records) update(ctx context.Context, st store.Store, now grant.Instant) error {
	whole, owners := r.whole, []store.Owner{{}} // all
	switch {
	case whole == 0 || now < r.at || now.Since(whole) >= recordsKept:
		r.list, r.many, whole = nil, false, now
	case r.many:
		return nil
	default:
		owners = store.RecordOwners(r.at.Add(-recordSlack), now.Add(recordSlack))
	}
	r.whole = 0 // if this update fails, the next one reads all records
	sorted := len(r.list)
	for _, owner := range owners {
		f := store.DocumentFilter{Kind: store.DocumentClient, Owner: owner, Limit: recordsAtOnce}
		for last := false; !last && !r.many; {
			docs, err := st.Documents(ctx, f)
			if err != nil {
				return err
			}
			last = len(docs) < f.Limit
			for _, d := range docs {
				c, err := recorded(d)
				if err != nil {
					return err
				}
				texts := recordTexts{d.Key, strings.ToLower(strings.Join(searched(c), "\n"))}
				if i, known := r.search(d.Key, sorted); known {
					r.list[i] = texts
				} else {
					r.list = append(r.list, texts)
				}
				f.After = d.Key
			}
			r.many = len(r.list) > recordsHeld
		}
	}
	switch {
	case r.many:
		r.list = nil
	case sorted > 0 && len(r.list) > sorted:
		slices.SortFunc(r.list, recordTexts.compare)
		r.list = slices.CompactFunc(r.list, func(a, b recordTexts) bool { return a.key == b.key })
	}
	r.whole, r.at = whole, now
	return nil
}

// recorded returns the client of a record, without the scopes and APIs that it could use
// when the record was written.
func recorded(d store.Document) (store.Client, error) {
	c, err := d.ClientRecord()
	c.Scope, c.APIs = "", nil
	return c, err
}

// recordPage is how many records are read at once.
const recordPage = 500

// searched returns the texts by which a client that registered itself is found.
func searched(c store.Client) []string { return append(redirectHosts(c), c.ID, c.Name) }

// redirectHosts returns the hosts that answers of a client go to, or the schemes of
// those without a host.
func redirectHosts(c store.Client) (list []string) {
	for _, uri := range c.RedirectURIs {
		if host := oauth.Host(uri); !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return list
}
