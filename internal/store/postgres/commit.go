package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
)

// Commit implements store.Store. One document joins the batch of those that wait;
// any other change has a transaction of its own.
func (s *Store) Commit(ctx context.Context, c store.Change) error {
	c, err := c.Checked()
	if err != nil {
		return err
	}
	if c.OneDocument() {
		return s.puts.do(ctx, &put{document: c.Documents[0]})
	}
	statements := c.Statements()
	if len(statements) > 0 {
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			return errNotBegun
		}
	}
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, st := range statements {
			tag, err := tx.Exec(ctx, st.Text, st.Args...)
			if st.Must {
				err = one(tag, err)
			}
			if err != nil {
				return err
			}
		}
		return putAll(ctx, tx, c)
	})
	if errors.Is(err, store.ErrConflict) {
		return s.recognised(ctx, c, err)
	}
	return err
}

// putAll stores what is not of the directory.
func putAll(ctx context.Context, tx pgx.Tx, c store.Change) error {
	documents := make([]*store.Document, len(c.Documents))
	for i := range c.Documents {
		documents[i] = &c.Documents[i]
	}
	for _, part := range byStatement(documents) {
		lost, err := putDocuments(ctx, tx, part)
		if err == nil && len(lost) > 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
	}
	if len(c.Delete) > 0 {
		keys := column(c.Delete, func(key store.DocumentKey) []byte { return key[:] })
		if _, err := tx.Exec(ctx, deleteDocumentsSQL, keys); err != nil {
			return err
		}
	}
	return insertEvents(ctx, tx, c.Events)
}

// recognised is nil instead of a conflict with exactly what c stores.
func (s *Store) recognised(ctx context.Context, c store.Change, conflict error) error {
	for _, st := range c.Held() {
		var n int64
		err := s.reading(ctx, func() error { return s.pool.QueryRow(ctx, st.Text, st.Args...).Scan(&n) })
		if err != nil {
			return unwritten(fmt.Errorf("read what is stored: %w", err))
		} else if n != 1 {
			return conflict
		}
	}
	return nil
}

// one is store.ErrConflict unless exactly one row was written.
func one(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		err = store.ErrConflict
	}
	return err
}
