package moving

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/store"
)

// batchRows limits the rows of a batch. It is a variable for the tests.
var batchRows = 1000

const batchBytes = 4 << 20 // documents may be large

// copy copies all rows, in batches of one transaction each.
func (m *move) copy(ctx context.Context) error {
	err := m.tables(ctx, Copying, func(t store.Table, progress func(rows int)) error {
		var batch []store.Row
		size := 0
		send := func() error {
			if err := m.to.Append(ctx, t, batch, m.destination); err != nil {
				return err
			}
			progress(len(batch))
			batch, size = batch[:0], 0
			return nil
		}
		for row, err := range rows(ctx, m.from, t) {
			if err != nil {
				return err
			}
			batch = append(batch, row)
			for _, c := range row {
				size += len(c.Text)
			}
			if len(batch) < batchRows && size < batchBytes {
				continue
			}
			if err := send(); err != nil {
				return err
			}
		}
		if len(batch) == 0 {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	version, err := m.from.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	return m.to.RaiseDirectory(ctx, version)
}

// tables calls f for each table, with a function that reports its progress.
func (m *move) tables(ctx context.Context, phase Phase, f func(t store.Table, progress func(rows int)) error) error {
	p := Progress{Phase: phase}
	totals := make([]int64, len(store.Tables))
	for i, t := range store.Tables {
		n, err := m.from.Count(ctx, t)
		if err != nil {
			return err
		}
		totals[i] = n
		p.AllTotal += n
	}
	for i, t := range store.Tables {
		p.Table, p.Done, p.Total = t.Name, 0, totals[i]
		progress := func(rows int) {
			p.Done += int64(rows)
			p.AllDone += int64(rows)
			m.report(p)
		}
		progress(0)
		if err := f(t, progress); err != nil {
			return fmt.Errorf("%s %s: %w", phase, t.Name, err)
		}
	}
	return nil
}

var errStopped = errors.New("the reader of the rows has stopped")

// rows yields the rows of a table as every engine can store them. An error is the
// last value.
func rows(ctx context.Context, s Source, t store.Table) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		err := s.Rows(ctx, t, func(row store.Row) error {
			if err := portable(t, row); err != nil {
				return err
			}
			if !yield(row, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// portable changes a row to one that every engine can store. A column of evidence
// may quote what a client has sent; engines that cannot store all of it make the
// same replacement when they record it.
func portable(t store.Table, row store.Row) error {
	for i, c := range t.Columns {
		switch text := row[i].Text; {
		case c.Kind == store.Number || c.Kind == store.Bytes || utf8.ValidString(text) && !strings.Contains(text, "\x00"):
		case c.Kind == store.Evidence:
			row[i].Text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		default:
			return fmt.Errorf("the %s of %s is not valid text: %q", c.Name, describe(t, row), text)
		}
	}
	return nil
}

// describe names a row for people.
func describe(t store.Table, row store.Row) string {
	text := t.Name
	for i, c := range t.Columns[:t.Key] {
		switch c.Kind {
		case store.Number:
			text += fmt.Sprintf(" %d", row[i].Number)
		case store.Bytes:
			text += fmt.Sprintf(" %x", row[i].Text)
		default:
			text += fmt.Sprintf(" %q", row[i].Text)
		}
	}
	return text
}

// A Sum summarises one table of one side: the number of its rows, and the SHA-256
// of their canonical encodings in the order of their keys.
type Sum struct {
	Rows   int64
	Digest [sha256.Size]byte
}

// Checked is the result of the comparison of one table.
type Checked struct {
	Table        string
	Source, Copy Sum
	// First names the first row that is missing or differs; empty if none does.
	First string
}

// Differences is the error of a copy that differs from its source.
type Differences struct{ Tables []Checked }

func (d *Differences) Error() string {
	for _, c := range d.Tables {
		if c.Source != c.Copy {
			return fmt.Sprintf("the copy differs from its source: %d rows of %s against %d; the first difference is %s", c.Copy.Rows, c.Table, c.Source.Rows, c.First)
		}
	}
	return "the copy differs from its source"
}

// compare reads all rows of both sides again.
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
	differ := false
	err = m.tables(ctx, Comparing, func(t store.Table, progress func(rows int)) error {
		c, err := m.compareTable(ctx, t, progress)
		list = append(list, c)
		differ = differ || c.Source != c.Copy
		return err
	})
	if err != nil {
		return nil, err
	}
	if differ {
		return list, &Differences{list}
	}
	return list, nil
}

// A side reads the rows of a table of one store, and counts and hashes them.
type side struct {
	next func() (store.Row, error, bool)
	hash hash.Hash
	sum  Sum
	row  store.Row // nil at the end
	text []byte    // canonical encoding of row
}

func (s *side) advance(t store.Table) (err error) {
	var more bool
	s.row, err, more = s.next()
	if err != nil || !more {
		return err
	}
	s.text = encode(s.text[:0], t.Columns, s.row)
	s.hash.Write(s.text)
	s.sum.Rows++
	return nil
}

func (m *move) compareTable(ctx context.Context, t store.Table, progress func(rows int)) (c Checked, err error) {
	nextOfSource, stopSource := iter.Pull2(rows(ctx, m.from, t))
	defer stopSource()
	nextOfCopy, stopCopy := iter.Pull2(rows(ctx, m.to, t))
	defer stopCopy()
	a, b := side{next: nextOfSource, hash: sha256.New()}, side{next: nextOfCopy, hash: sha256.New()}
	for reported := 0; ; {
		if err := errors.Join(a.advance(t), b.advance(t)); err != nil {
			return c, err
		}
		end := a.row == nil && b.row == nil
		if n := int(a.sum.Rows); end || n-reported >= batchRows {
			progress(n - reported)
			reported = n
		}
		if end {
			break
		}
		if c.First == "" && (a.row == nil || b.row == nil || !bytes.Equal(a.text, b.text)) {
			first := a.row
			if a.row == nil || b.row != nil && store.CompareKeys(t, b.row, a.row) < 0 {
				first = b.row
			}
			c.First = describe(t, first)
		}
	}
	a.hash.Sum(a.sum.Digest[:0])
	b.hash.Sum(b.sum.Digest[:0])
	c.Table, c.Source, c.Copy = t.Name, a.sum, b.sum
	return c, nil
}

// encode appends the canonical encoding of a row: a number in eight bytes, text
// and bytes behind their length.
func encode(b []byte, columns []store.Column, row store.Row) []byte {
	for i, c := range columns {
		if c.Kind == store.Number {
			b = binary.BigEndian.AppendUint64(b, uint64(row[i].Number))
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(row[i].Text)))
		b = append(b, row[i].Text...)
	}
	return b
}
