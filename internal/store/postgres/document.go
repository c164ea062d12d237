package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

const (
	selectDocumentsSQL = `SELECT id, kind, version, expires_at, owner, body FROM documents WHERE id = ANY($1::bytea[])`
	insertDocumentsSQL = `INSERT INTO documents (id, kind, version, expires_at, owner, body)
		SELECT u.id, u.kind, u.version, u.expires_at, u.owner, u.body
		FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) AS u (id, kind, version, expires_at, owner, body)
		ON CONFLICT (id) DO NOTHING RETURNING id`
	updateDocumentsSQL = `UPDATE documents AS d SET version = u.version, expires_at = u.expires_at, owner = u.owner, body = u.body
		FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) AS u (id, kind, version, expires_at, owner, body)
		WHERE d.id = u.id AND d.version = u.version - 1 AND d.kind = u.kind RETURNING d.id`
	deleteDocumentsSQL = `DELETE FROM documents WHERE id = ANY($1::bytea[])`
	listDocumentsSQL   = `SELECT id, kind, version, expires_at, owner, body FROM documents WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3`
	listOwnerSQL       = `SELECT id, kind, version, expires_at, owner, body FROM documents
		WHERE owner <> '' AND owner = $4 AND kind = $1 AND id > $2 ORDER BY id LIMIT $3`
)

func findDocuments(ctx context.Context, q querier, keys [][]byte) (map[store.DocumentKey]store.Document, error) {
	found := make(map[store.DocumentKey]store.Document, len(keys))
	err := each(ctx, q, func(rows pgx.Rows) error {
		d, err := store.ScanDocument(rows)
		found[d.Key] = d
		return err
	}, selectDocumentsSQL, keys)
	if err != nil {
		return nil, unwritten(fmt.Errorf("read documents: %w", err))
	}
	return found, nil
}

// Document implements store.Store.
func (s *Store) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	r := &read[store.DocumentKey, store.Document]{id: key}
	r.bytes = r.id[:]
	if err := s.documentReads.do(ctx, r); err != nil {
		return store.Document{}, err
	}
	r.value.Body = slices.Clone(r.value.Body) // other reads of the batch may share the body
	return r.value, nil
}

// A put is one caller's change of one document.
type put struct {
	seat
	document store.Document
}

func (p *put) key() store.DocumentKey { return p.document.Key }

// servePuts writes the documents of a batch: new ones, and new versions.
func servePuts(ctx context.Context, conn *pgxpool.Conn, batch []*put) error {
	slices.SortFunc(batch, func(a, b *put) int { return bytes.Compare(a.document.Key[:], b.document.Key[:]) })
	byKey := make(map[store.DocumentKey]*put, len(batch))
	for _, p := range batch {
		byKey[p.document.Key] = p
	}
	var lost [][]byte
	for _, part := range byStatement(column(batch, func(p *put) *store.Document { return &p.document })) {
		losers, err := putDocuments(ctx, conn, part)
		if err == nil {
			err = confirmed(conn.Conn().PgConn())
		}
		if err != nil {
			return err
		}
		for _, d := range part {
			if !losers[d.Key] {
				byKey[d.Key].settle(nil)
			} else {
				lost = append(lost, d.Key[:])
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	found, err := findDocuments(ctx, conn, lost)
	if err != nil {
		return err
	}
	for _, key := range lost {
		p := byKey[store.DocumentKey(key)]
		if have, ok := found[p.document.Key]; ok && have.Equal(p.document) {
			p.settle(nil)
		} else {
			p.settle(store.ErrConflict)
		}
	}
	return nil
}

// byStatement divides documents into new documents and new versions of stored ones: the
// two have different statements.
func byStatement(documents []*store.Document) (parts [][]*store.Document) {
	var fresh, next []*store.Document
	for _, d := range documents {
		if d.Version == 1 {
			fresh = append(fresh, d)
		} else {
			next = append(next, d)
		}
	}
	return slices.DeleteFunc([][]*store.Document{fresh, next}, func(part []*store.Document) bool { return len(part) == 0 })
}

// putDocuments writes documents of one part of byStatement, and returns those whose
// version did not match the stored one. Their keys are distinct, so a key
// identifies a document.
func putDocuments(ctx context.Context, q querier, documents []*store.Document) (lost map[store.DocumentKey]bool, err error) {
	lost = make(map[store.DocumentKey]bool, len(documents))
	for _, d := range documents {
		lost[d.Key] = true
	}
	text := updateDocumentsSQL
	if documents[0].Version == 1 {
		text = insertDocumentsSQL
	}
	err = each(ctx, q, func(rows pgx.Rows) error {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		delete(lost, store.DocumentKey(key))
		return nil
	}, text,
		column(documents, func(d *store.Document) []byte { return d.Key[:] }),
		column(documents, func(d *store.Document) string { return string(d.Kind) }),
		column(documents, func(d *store.Document) int64 { return d.Version }),
		column(documents, func(d *store.Document) int64 { return int64(d.ExpiresAt) }),
		column(documents, func(d *store.Document) []byte { return d.Owner.Bytes() }),
		column(documents, func(d *store.Document) []byte { return d.Body }))
	if err != nil {
		return nil, fmt.Errorf("write documents: %w", err)
	}
	return lost, nil
}
