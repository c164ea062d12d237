package moving

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/store"
)

// batchRows is a variable for the tests.
var batchRows = 1000

const batchBytes = 4 << 20 // documents may be large

// copy brings the rows that are missing. Each batch is one transaction, with
// the position behind it.
func (m *move) copy(ctx context.Context) error {
	totals, err := m.totals(ctx)
	if err != nil {
		return err
	}
	p := Progress{Phase: Copying, AllTotal: sum(totals)}
	for i, t := range store.Tables {
		reached := slices.IndexFunc(store.Tables, func(t store.Table) bool { return t.Name == m.here.Table })
		p.Table, p.Done, p.Total = t.Name, 0, totals[i]
		var after store.Row
		switch {
		case m.here.Table == "" || i > reached:
		case i < reached:
			p.AllDone += totals[i]
			p.Before = p.AllDone
			continue
		default:
			if after, err = decodeKey(t, m.here.Position); err != nil {
				return err
			}
			p.Done = m.here.Copied
			p.AllDone += m.here.Copied
			p.Before = p.AllDone
		}
		m.report(p)
		err := m.batches(ctx, t, after, func(rows []store.Row) error {
			next := m.here
			if next.Table != t.Name {
				next.Table, next.Copied = t.Name, 0
			}
			next.Position = string(encode(nil, t.Columns[:t.Key], rows[len(rows)-1]))
			next.Copied += int64(len(rows))
			if err := m.to.Append(ctx, t, rows, m.here, next); err != nil {
				return err
			}
			m.here = next
			p.Done += int64(len(rows))
			p.AllDone += int64(len(rows))
			m.report(p)
			return nil
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", t.Name, err)
		}
	}
	version, err := m.from.DirectoryVersion(ctx)
	if err != nil {
		return err
	}
	return m.to.RaiseDirectory(ctx, version)
}

func (m *move) totals(ctx context.Context) (list []int64, err error) {
	for _, t := range store.Tables {
		n, err := m.from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func sum(list []int64) (n int64) {
	for _, i := range list {
		n += i
	}
	return n
}

// batches reads the rows of the source after a key, as the destination can hold
// them, beside put, which writes them.
func (m *move) batches(ctx context.Context, t store.Table, after store.Row, put func([]store.Row) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full := make(chan []store.Row, 2)
	read := make(chan error, 1)
	go func() {
		defer close(full)
		var batch []store.Row
		size := 0
		send := func() error {
			select {
			case full <- batch:
				batch, size = nil, 0
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := m.from.Rows(ctx, t, after, func(row store.Row) error {
			if err := portable(t, row); err != nil {
				return err
			}
			batch = append(batch, row)
			for _, c := range row {
				size += len(c.Text)
			}
			if len(batch) < batchRows && size < batchBytes {
				return nil
			}
			return send()
		})
		if err == nil && len(batch) > 0 {
			err = send()
		}
		read <- err
	}()
	for batch := range full {
		err := ctx.Err()
		if err == nil {
			err = put(batch)
		}
		if err != nil {
			cancel()
			<-read
			return err
		}
	}
	return <-read
}

// portable makes a row one that every engine can hold: a line of evidence may
// quote what a client has sent, and the engines that cannot hold all of it
// replace the same when they record it themselves.
func portable(t store.Table, row store.Row) error {
	for i, c := range t.Columns {
		switch text := row[i].Text; {
		case c.Kind == store.Number || c.Kind == store.Bytes || utf8.ValidString(text) && !strings.Contains(text, "\x00"):
		case c.Kind == store.Evidence:
			row[i].Text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		default:
			return fmt.Errorf("the %s of %s is no text: %q", c.Name, describe(t, row), text)
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

// encode appends the canonical encoding of cells: a number in eight bytes, text
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

// decodeKey reads what encode has made of a row's key.
func decodeKey(t store.Table, position string) (store.Row, error) {
	b := []byte(position)
	row := make(store.Row, t.Key)
	for i, c := range t.Columns[:t.Key] {
		if c.Kind == store.Number {
			if len(b) < 8 {
				return nil, fmt.Errorf("the position in %s is damaged", t.Name)
			}
			row[i].Number, b = int64(binary.BigEndian.Uint64(b)), b[8:]
			continue
		}
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, fmt.Errorf("the position in %s is damaged", t.Name)
		}
		row[i].Text, b = string(b[used:used+int(n)]), b[used+int(n):]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("the position in %s is damaged", t.Name)
	}
	return row, nil
}
