package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	selectDocumentSQL = `SELECT kind, version, expires_at, body FROM documents WHERE id = ?`
	insertDocumentSQL = `INSERT INTO documents (id, kind, version, expires_at, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	updateDocumentSQL = `UPDATE documents SET version = ?, expires_at = ?, body = ? WHERE id = ? AND version = ? AND kind = ?`
	deleteDocumentSQL = `DELETE FROM documents WHERE id = ?`
	listDocumentsSQL  = `SELECT id, version, expires_at, body FROM documents WHERE kind = ? AND id > ? ORDER BY id LIMIT ?`
	walkDocumentsSQL  = `SELECT id, version, expires_at FROM documents WHERE id > ? ORDER BY id LIMIT ?`
	sweepDocumentSQL  = `DELETE FROM documents WHERE id = ? AND version = ? AND expires_at <> 0 AND expires_at < ?`
)

// documentSize is for a body, a key and a kind.
const documentSize = store.MaxDocument + 256

// documentStatements are the writer's for documents.
type documentStatements struct {
	find, insert, update, remove *statement
}

func prepareDocuments(conn *connection) (d documentStatements, err error) {
	for _, p := range []struct {
		to    **statement
		query string
		size  int
	}{
		{&d.find, selectDocumentSQL, textSize},
		{&d.insert, insertDocumentSQL, documentSize},
		{&d.update, updateDocumentSQL, documentSize},
		{&d.remove, deleteDocumentSQL, textSize},
	} {
		if *p.to, err = conn.prepareSized(p.query, p.size); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d documentStatements) close() {
	for _, s := range []*statement{d.find, d.insert, d.update, d.remove} {
		s.close()
	}
}

// findDocument runs selectDocumentSQL for one key.
func findDocument(s *statement, key store.DocumentKey) (d store.Document, err error) {
	defer s.reset()
	if err := s.bindBlob(1, key[:]); err != nil {
		return d, err
	}
	found, err := s.step()
	if err != nil {
		return d, fmt.Errorf("read document: %w", err)
	}
	if !found {
		return d, store.ErrNotFound
	}
	return store.Document{
		Kind: store.DocumentKind(s.string(0)), Key: key, Version: s.int(1), ExpiresAt: grant.Instant(s.int(2)), Body: s.blob(3),
	}, nil
}

// write stores doc in the writer's transaction.
func (d documentStatements) write(doc store.Document) error {
	s, bind := d.update, bindDocumentUpdate
	if doc.Version == 1 {
		s, bind = d.insert, bindDocumentInsert
	}
	if err := bind(s, doc); err != nil {
		s.reset()
		return fmt.Errorf("write document: %w", err)
	}
	written, err := s.exec()
	if err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	if written == 1 {
		return nil
	}
	have, err := findDocument(d.find, doc.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.ErrConflict
	case err != nil:
		return err
	case !sameDocument(have, doc):
		return store.ErrConflict
	}
	return nil
}

func bindDocumentInsert(s *statement, d store.Document) error {
	s.bindInt(3, d.Version)
	s.bindInt(4, int64(d.ExpiresAt))
	return errors.Join(s.bindBlob(1, d.Key[:]), s.bindText(2, string(d.Kind)), s.bindBlob(5, d.Body))
}

func bindDocumentUpdate(s *statement, d store.Document) error {
	s.bindInt(1, d.Version)
	s.bindInt(2, int64(d.ExpiresAt))
	s.bindInt(5, d.Version-1)
	return errors.Join(s.bindBlob(3, d.Body), s.bindBlob(4, d.Key[:]), s.bindText(6, string(d.Kind)))
}

// erase removes a document in the writer's transaction.
func (d documentStatements) erase(key store.DocumentKey) error {
	if err := d.remove.bindBlob(1, key[:]); err != nil {
		d.remove.reset()
		return fmt.Errorf("remove document: %w", err)
	}
	if _, err := d.remove.exec(); err != nil {
		return fmt.Errorf("remove document: %w", err)
	}
	return nil
}

func sameDocument(a, b store.Document) bool {
	return a.Kind == b.Kind && a.Key == b.Key && a.Version == b.Version && a.ExpiresAt == b.ExpiresAt && bytes.Equal(a.Body, b.Body)
}

// PutDocument implements store.Store.
func (s *Store) PutDocument(ctx context.Context, d store.Document, cutoffs []store.Cutoff, events ...store.Event) error {
	switch {
	case len(d.Body) > store.MaxDocument:
		return fmt.Errorf("write document: the %s has %d bytes, and %d are allowed", d.Kind, len(d.Body), store.MaxDocument)
	case d.Version < 1:
		return fmt.Errorf("write document: there is no version %d", d.Version)
	}
	// The write may outlive a call whose context ends. Never nil: that is NULL.
	d.Body = append([]byte{}, d.Body...)
	if len(cutoffs) == 0 && len(events) == 0 {
		return s.writer.do(ctx, &operation{put: &d})
	}
	err := s.change(ctx, events, func(tx *sql.Tx, version int64) error {
		if err := putDocument(tx, d); err != nil {
			return err
		}
		for _, cut := range cutoffs {
			if err := putCutoff(tx, cut, version); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errStored) {
		return nil
	}
	return err
}

// errStored undoes a change that was made before, by the same call.
var errStored = errors.New("stored already")

func putDocument(tx *sql.Tx, d store.Document) error {
	var err error
	if d.Version == 1 {
		err = one(tx.Exec(insertDocumentSQL, d.Key[:], string(d.Kind), d.Version, int64(d.ExpiresAt), d.Body))
	} else {
		err = one(tx.Exec(updateDocumentSQL, d.Version, int64(d.ExpiresAt), d.Body, d.Key[:], d.Version-1, string(d.Kind)))
	}
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	have := store.Document{Key: d.Key}
	switch readErr := tx.QueryRow(selectDocumentSQL, d.Key[:]).Scan(&have.Kind, &have.Version, &have.ExpiresAt, &have.Body); {
	case errors.Is(readErr, sql.ErrNoRows):
		return err
	case readErr != nil:
		return readErr
	case sameDocument(have, d):
		return errStored
	}
	return err
}

// DeleteDocument implements store.Store.
func (s *Store) DeleteDocument(ctx context.Context, key store.DocumentKey) error {
	return s.writer.do(ctx, &operation{remove: &key})
}

// Documents implements store.Store.
func (s *Store) Documents(ctx context.Context, kind store.DocumentKind, after store.DocumentKey, limit int) (list []store.Document, err error) {
	rows, err := s.db.QueryContext(ctx, listDocumentsSQL, string(kind), after[:], limit)
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key []byte
		d := store.Document{Kind: kind}
		if err := rows.Scan(&key, &d.Version, &d.ExpiresAt, &d.Body); err != nil {
			return nil, fmt.Errorf("list documents: %w", err)
		}
		d.Key = store.DocumentKey(key)
		list = append(list, d)
	}
	return list, rows.Err()
}

// SweepDocuments implements store.Store.
func (s *Store) SweepDocuments(ctx context.Context, after store.DocumentKey, now grant.Instant, limit int) (next store.DocumentKey, deleted int, err error) {
	defer func() {
		if err != nil {
			next, deleted, err = after, 0, fmt.Errorf("sweep documents: %w", err)
		}
	}()
	type dead struct {
		key     store.DocumentKey
		version int64
	}
	var list []dead
	rows, err := s.db.QueryContext(ctx, walkDocumentsSQL, after[:], limit)
	if err != nil {
		return next, 0, err
	}
	defer rows.Close()
	walked := 0
	for rows.Next() {
		var key []byte
		var version, expiresAt int64
		if err := rows.Scan(&key, &version, &expiresAt); err != nil {
			return next, 0, err
		}
		walked++
		next = store.DocumentKey(key)
		if expiresAt != 0 && grant.Instant(expiresAt) < now {
			list = append(list, dead{next, version})
		}
	}
	if err := rows.Err(); err != nil {
		return next, 0, err
	}
	if walked < limit {
		next = store.DocumentKey{}
	}
	if len(list) == 0 {
		return next, 0, nil
	}
	// Its own count: if ctx ends, the transaction may still be running.
	gone := 0
	err = s.admin(ctx, func(tx *sql.Tx) error {
		for _, d := range list {
			res, err := tx.Exec(sweepDocumentSQL, d.key[:], d.version, int64(now))
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			gone += int(n)
		}
		return nil
	})
	if err != nil {
		return next, 0, err
	}
	return next, gone, nil
}
