package moving

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/store"
)

// A Sum is what was found in one table of one side: how many rows, and the
// SHA-256 of their canonical encodings in the order of their keys.
type Sum struct {
	Rows   int64
	Digest [sha256.Size]byte
}

// Checked is the outcome of the comparison of one table.
type Checked struct {
	Table        string
	Source, Copy Sum
	// First names the first row that is missing or another, "" if none is.
	First string
}

// Differences is an error: the copy is not the source.
type Differences struct{ Tables []Checked }

func (d *Differences) Error() string {
	for _, c := range d.Tables {
		if c.Source != c.Copy {
			return fmt.Sprintf("the copy differs from its source: %d rows of %s against %d; the first difference is %s", c.Copy.Rows, c.Table, c.Source.Rows, c.First)
		}
	}
	return "the copy differs from its source"
}

// compare reads both sides again from beginning to end.
func (m *move) compare(ctx context.Context) (list []Checked, err error) {
	version, err := m.from.DirectoryVersion(ctx)
	if err != nil {
		return nil, err
	}
	copied, err := m.to.DirectoryVersion(ctx)
	if err != nil {
		return nil, err
	}
	if copied < version {
		return nil, fmt.Errorf("the copy's directory has version %d, which is before the source's %d", copied, version)
	}
	totals, err := m.totals(ctx)
	if err != nil {
		return nil, err
	}
	p := Progress{Phase: Comparing, AllTotal: sum(totals)}
	differ := false
	for i, t := range store.Tables {
		p.Table, p.Done, p.Total = t.Name, 0, totals[i]
		c, err := m.compareTable(ctx, t, func(rows int64) {
			p.Done += rows
			p.AllDone += rows
			m.report(p)
		})
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", t.Name, err)
		}
		list = append(list, c)
		differ = differ || c.Source != c.Copy
	}
	if differ {
		return list, &Differences{list}
	}
	return list, nil
}

// A line is a row as it is compared.
type line struct {
	key  store.Row
	text string
}

// lines reads a table of one side beside whoever compares. Its error comes when
// the channel is closed.
func lines(ctx context.Context, side Source, t store.Table) (<-chan []line, <-chan error) {
	full, end := make(chan []line, 2), make(chan error, 1)
	go func() {
		defer close(full)
		var batch []line
		var buffer []byte
		send := func() error {
			select {
			case full <- batch:
				batch = nil
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := side.Rows(ctx, t, nil, func(row store.Row) error {
			if err := portable(t, row); err != nil {
				return err
			}
			buffer = encode(buffer[:0], t.Columns, row)
			if batch = append(batch, line{row[:t.Key:t.Key], string(buffer)}); len(batch) < batchRows {
				return nil
			}
			return send()
		})
		if err == nil && len(batch) > 0 {
			err = send()
		}
		end <- err
	}()
	return full, end
}

// A side is one of the two that are compared.
type side struct {
	full  <-chan []line
	end   <-chan error
	batch []line
	sum   Sum
	hash  interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
}

// next is the next line, or nil at the end.
func (s *side) next() *line {
	if len(s.batch) == 0 {
		s.batch = <-s.full
		if len(s.batch) == 0 {
			return nil
		}
	}
	l := &s.batch[0]
	s.batch = s.batch[1:]
	s.sum.Rows++
	s.hash.Write([]byte(l.text))
	return l
}

func (m *move) compareTable(ctx context.Context, t store.Table, progress func(rows int64)) (c Checked, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sides [2]side
	for i, of := range []Source{m.from, m.to} {
		full, end := lines(ctx, of, t)
		sides[i] = side{full: full, end: end, hash: sha256.New()}
	}
	c.Table = t.Name
	reported := int64(0)
	for {
		a, b := sides[0].next(), sides[1].next()
		if a == nil && b == nil {
			break
		}
		if c.First == "" && (a == nil || b == nil || a.text != b.text) {
			first := a
			if a == nil || b != nil && store.CompareKeys(t, b.key, a.key) < 0 {
				first = b
			}
			c.First = describe(t, first.key)
		}
		if n := sides[0].sum.Rows; n-reported >= int64(batchRows) {
			progress(n - reported)
			reported = n
		}
	}
	progress(sides[0].sum.Rows - reported)
	if err := errors.Join(<-sides[0].end, <-sides[1].end); err != nil {
		return c, err
	}
	for i := range sides {
		sides[i].hash.Sum(sides[i].sum.Digest[:0])
	}
	c.Source, c.Copy = sides[0].sum, sides[1].sum
	return c, nil
}
