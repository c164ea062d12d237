package sqlite

import (
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	selectDocumentSQL = `SELECT kind, version, expires_at, owner, body FROM documents WHERE id = ?`
	insertDocumentSQL = `INSERT INTO documents (id, kind, version, expires_at, owner, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	updateDocumentSQL = `UPDATE documents SET version = ?, expires_at = ?, owner = ?, body = ? WHERE id = ? AND version = ? AND kind = ?`
	deleteDocumentSQL = `DELETE FROM documents WHERE id = ?`
	listDocumentsSQL  = `SELECT id, kind, version, expires_at, owner, body FROM documents WHERE kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3`
	listOwnerSQL      = `SELECT id, kind, version, expires_at, owner, body FROM documents WHERE owner <> x'' AND owner = ?4 AND kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3`
)

// documentSize limits a body, a key, an owner and a kind together.
const documentSize = store.MaxDocument + 256

// documentStatements are the writer's prepared statements for documents.
type documentStatements struct {
	find, insert, update, remove *statement
}

func keepDocuments(conn *connection) (d documentStatements, err error) {
	err = errors.Join(conn.keep(textSize, map[**statement]string{&d.find: selectDocumentSQL, &d.remove: deleteDocumentSQL}),
		conn.keep(documentSize, map[**statement]string{&d.insert: insertDocumentSQL, &d.update: updateDocumentSQL}))
	return d, err
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
	d = store.Document{
		Kind: store.DocumentKind(s.string(0)), Key: key, Version: s.int(1), ExpiresAt: grant.Instant(s.int(2)), Body: s.blob(4),
	}
	copy(d.Owner[:], s.blob(3))
	return d, nil
}

// put stores doc in the writer's transaction, or returns store.ErrConflict.
func (d documentStatements) put(doc store.Document) error {
	s, bind := d.update, bindDocumentUpdate
	if doc.Version == 1 {
		s, bind = d.insert, bindDocumentInsert
	}
	written, err := s.execBound(bind(s, doc))
	switch {
	case err != nil:
		return fmt.Errorf("write document: %w", err)
	case written == 0:
		return store.ErrConflict
	}
	return nil
}

// fits reports whether put would store doc.
func (d documentStatements) fits(doc store.Document) (bool, error) {
	have, err := findDocument(d.find, doc.Key)
	if errors.Is(err, store.ErrNotFound) {
		return doc.Version == 1, nil
	}
	return have.Kind == doc.Kind && have.Version == doc.Version-1, err
}

func bindDocumentInsert(s *statement, d store.Document) error {
	s.bindInt(3, d.Version)
	s.bindInt(4, int64(d.ExpiresAt))
	return errors.Join(s.bindBlob(1, d.Key[:]), s.bindText(2, string(d.Kind)), s.bindBlob(5, d.Owner.Bytes()), s.bindBlob(6, d.Body))
}

func bindDocumentUpdate(s *statement, d store.Document) error {
	s.bindInt(1, d.Version)
	s.bindInt(2, int64(d.ExpiresAt))
	s.bindInt(6, d.Version-1)
	return errors.Join(s.bindBlob(3, d.Owner.Bytes()), s.bindBlob(4, d.Body), s.bindBlob(5, d.Key[:]), s.bindText(7, string(d.Kind)))
}

// erase deletes a document in the writer's transaction.
func (d documentStatements) erase(key store.DocumentKey) error {
	if _, err := d.remove.execBound(d.remove.bindBlob(1, key[:])); err != nil {
		return fmt.Errorf("remove document: %w", err)
	}
	return nil
}
