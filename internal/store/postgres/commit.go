package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

// Commit implements store.Store. A change of one document joins the batch of queued
// documents. Changes of the directory have batches of their own: each updates the same row
// first, so that separate transactions would wait for one another. Any other change has its
// own transaction.
func (s *Store) Commit(ctx context.Context, c store.Change) error {
	c, err := c.Checked()
	if err != nil {
		return err
	}
	if c.OneDocument() {
		return s.puts.do(ctx, &put{document: c.Documents[0]})
	}
	if statements := c.Statements(); len(statements) > 0 {
		err = s.changes.do(ctx, &change{Change: c, statements: statements})
	} else {
		err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := writeDocuments(ctx, tx, c); err != nil {
				return err
			}
			return insertEvents(ctx, tx, c.Events)
		})
	}
	if errors.Is(err, store.ErrConflict) {
		return s.recognised(ctx, c, err)
	}
	return err
}

// A change is one caller's change of the directory.
type change struct {
	seat
	store.Change
	statements []store.Statement
}

func (c *change) key() *change { return c }

// serveChanges commits the changes of a batch together. If one of them conflicts with
// what is stored, or with another of the batch, each is tried by itself.
func serveChanges(ctx context.Context, conn *pgxpool.Conn, batch []*change) error {
	err := commitTogether(ctx, conn, batch)
	switch conflict := errors.Is(err, store.ErrConflict); {
	case conflict && len(batch) == 1:
		batch[0].settle(err)
		return nil
	case conflict:
		for i := range batch {
			if err := serveChanges(ctx, conn, batch[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case err == nil:
		for _, c := range batch {
			c.settle(nil)
		}
	}
	return err
}

// commitTogether commits changes in one transaction, in their order. It sends their
// statements for the directory and for events in one round trip.
func commitTogether(ctx context.Context, conn *pgxpool.Conn, batch []*change) error {
	return commit(ctx, conn, func(tx pgx.Tx) error {
		var statements []store.Statement
		for _, c := range batch {
			statements = append(statements, c.statements...)
			if len(c.Events) > 0 {
				statements = append(statements, insertionOf(c.Events))
			}
		}
		err := execute(ctx, tx, statements)
		for _, c := range batch {
			if err == nil {
				err = writeDocuments(ctx, tx, c.Change)
			}
		}
		return err
	})
}

// execute runs statements in one round trip.
func execute(ctx context.Context, tx pgx.Tx, statements []store.Statement) error {
	var sent pgx.Batch
	for _, st := range statements {
		sent.Queue(st.Text, st.Args...)
	}
	results := tx.SendBatch(ctx, &sent)
	var err error
	for _, st := range statements {
		tag, failed := results.Exec()
		if st.Must {
			failed = one(tag, failed)
		}
		if err = failed; err != nil {
			break
		}
	}
	return cmp.Or(err, results.Close())
}

// writeDocuments stores and deletes the documents of c.
func writeDocuments(ctx context.Context, tx pgx.Tx, c store.Change) error {
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
	return nil
}

// recognised returns nil instead of conflict if the store already holds exactly what c
// stores.
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

// one returns err, or store.ErrConflict unless exactly one row was written.
func one(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		err = store.ErrConflict
	}
	return err
}
