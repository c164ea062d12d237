package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

// A keysPage shows the keys on one time axis, grouped by purpose.
type keysPage struct {
	Keys     []keyRow
	From, To time.Time // of the axis
	Now      int       // where now is on the axis
	view
}

// Ends returns the dates at the ends of the axis.
func (p keysPage) Ends() []string {
	const date = "2 Jan 2006"
	return []string{p.From.UTC().Format(date), p.To.UTC().Format(date)}
}

// A keyRow is a key with its bars: published before its use, in use, and verifying only.
type keyRow struct {
	adminapi.Key
	Lead, Use, Verify string // SVG paths on the axis
}

// The axis is axisWidth wide, and reaches at most this far back and ahead.
const (
	axisWidth = 1000
	axisPast  = 180 * 24 * time.Hour
	axisAhead = 400 * 24 * time.Hour
)

func (c *Console) keys(ctx context.Context, r *request) (reply, error) {
	var answer struct{ Keys []adminapi.Key }
	if err := c.get(ctx, r, &answer, nil, "keys"); err != nil {
		return reply{}, err
	}
	list, now := answer.Keys, c.Now()
	slices.SortStableFunc(list, func(a, b adminapi.Key) int { return cmp.Compare(a.Purpose, b.Purpose) })
	p := keysPage{From: now, To: now.Add(24 * time.Hour), view: r.view("")}
	for _, k := range list {
		if k.CreatedAt != nil && k.CreatedAt.Before(p.From) {
			p.From = *k.CreatedAt
		}
		if k.EndsAt != nil && k.EndsAt.After(p.To) {
			p.To = *k.EndsAt
		}
	}
	if first := now.Add(-axisPast); p.From.Before(first) {
		p.From = first
	}
	if p.To = p.To.Add(p.To.Sub(p.From) / 10); p.To.After(now.Add(axisAhead)) {
		p.To = now.Add(axisAhead)
	}
	p.Now = p.at(&now)
	for i, k := range list {
		row := keyRow{Key: k}
		if k.Phase != "withdrawn" {
			ends := k.EndsAt
			if k.Phase != "active" {
				ends = successor(list[i:])
			}
			row.Lead, row.Use = p.bar(k.CreatedAt, k.ActiveAt), p.bar(k.ActiveAt, ends)
			if k.Phase == "retired" {
				row.Verify = p.bar(ends, k.EndsAt)
			}
		}
		p.Keys = append(p.Keys, row)
	}
	return reply{page: p}, nil
}

func (c *Console) askRotateKeys(ctx context.Context, r *request) (askPage, act, error) {
	err := c.get(ctx, r, nil, nil, "keys")
	return askPage{question: rotateQuestion, Fresh: true, Back: "/keys", Command: "mintage keys rotate"},
		func() (string, error) {
			return "/keys?done=rotated", c.post(ctx, r, adminapi.RotateRequest{}, nil, "keys", "rotate")
		}, err
}

// successor returns when the next key of the same purpose replaces the first one of a
// list, nil if there is no next key.
func successor(list []adminapi.Key) *time.Time {
	for _, next := range list[1:] {
		if next.Purpose == list[0].Purpose && next.Phase != "withdrawn" {
			return next.ActiveAt
		}
	}
	return nil
}

// at returns where an instant is on the axis; nil is its end.
func (p keysPage) at(t *time.Time) int {
	if t == nil {
		return axisWidth
	}
	return min(max(0, int(t.Sub(p.From).Seconds()/p.To.Sub(p.From).Seconds()*axisWidth)), axisWidth)
}

// bar returns the SVG path of a bar, "" if it has no width.
func (p keysPage) bar(from, to *time.Time) string {
	a, b := p.at(from), p.at(to)
	if a >= b {
		return ""
	}
	return fmt.Sprintf("M%d 0h%dv1h-%dz", a, b-a, b-a)
}
