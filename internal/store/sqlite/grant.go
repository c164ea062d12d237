package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	grantList = `id, realm, client, subject, scope, authorized_at, generation, version, rotated_at, key_id,
		expires_at, delete_after, access_floor, state, reason, attempt`

	selectGrantSQL = `SELECT ` + grantList + ` FROM grants WHERE id = ?`
	insertGrantSQL = `INSERT INTO grants (` + grantList + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`
	updateGrantSQL = `UPDATE grants SET generation = ?, version = ?, rotated_at = ?, key_id = ?, expires_at = ?,
		delete_after = ?, access_floor = ?, state = ?, reason = ?, attempt = ?
		WHERE id = ? AND version = ?`
	listGrantsSQL = `SELECT ` + grantList + ` FROM grants WHERE id > ?1 AND (?2 = '' OR realm = ?2)
		AND (?3 = '' OR subject = ?3) AND (?4 = '' OR client = ?4) ORDER BY id LIMIT ?5`
	// The index leads with the subject; without one, a listing walks the table.
	listSubjectSQL = `SELECT ` + grantList + ` FROM grants WHERE subject = ?3 AND id > ?1 AND (?2 = '' OR realm = ?2)
		AND (?4 = '' OR client = ?4) ORDER BY id LIMIT ?5`
	walkGrantsSQL   = `SELECT id, version, delete_after FROM grants WHERE id > ? ORDER BY id LIMIT ?`
	deleteGrantSQL  = `DELETE FROM grants WHERE id = ? AND version = ? AND delete_after < ?`
	deleteEventsSQL = `DELETE FROM events WHERE about = ?`
)

func bindUpdate(s *statement, g grant.Grant) error {
	for i, v := range [...]int64{
		int64(g.Generation), g.Version, int64(g.RotatedAt), int64(g.KeyID), int64(g.ExpiresAt),
		int64(g.DeleteAfter), int64(g.AccessFloor), int64(g.State), int64(g.Reason), int64(g.Attempt),
	} {
		s.bindInt(int32(i+1), v)
	}
	s.bindInt(12, g.Version-1)
	return s.bindBlob(11, g.ID[:])
}

func bindInsert(s *statement, g grant.Grant) error {
	for i, v := range [...]int64{
		int64(g.AuthorizedAt),
		int64(g.Generation), g.Version, int64(g.RotatedAt), int64(g.KeyID), int64(g.ExpiresAt),
		int64(g.DeleteAfter), int64(g.AccessFloor), int64(g.State), int64(g.Reason), int64(g.Attempt),
	} {
		s.bindInt(int32(i+6), v)
	}
	return errors.Join(s.bindBlob(1, g.ID[:]), s.bindText(2, g.Realm), s.bindText(3, g.ClientID),
		s.bindText(4, g.Subject), s.bindText(5, string(g.Scope)))
}

// find runs selectGrantSQL for one id.
func find(s *statement, id grant.ID) (g grant.Grant, err error) {
	defer s.reset()
	if err := s.bindBlob(1, id[:]); err != nil {
		return g, err
	}
	found, err := s.step()
	if err != nil {
		return g, fmt.Errorf("read grant: %w", err)
	}
	if !found {
		return g, store.ErrNotFound
	}
	return grant.Grant{
		ID: id, Realm: s.string(1), ClientID: s.string(2), Subject: s.string(3),
		Scope: oauth.Scope(s.string(4)), AuthorizedAt: grant.Instant(s.int(5)),
		Generation: uint32(s.int(6)), Version: s.int(7), RotatedAt: grant.Instant(s.int(8)), KeyID: grant.KeyID(s.int(9)),
		ExpiresAt: grant.Instant(s.int(10)), DeleteAfter: grant.Instant(s.int(11)), AccessFloor: grant.Instant(s.int(12)),
		State: grant.State(s.int(13)), Reason: grant.Reason(s.int(14)), Attempt: uint64(s.int(15)),
	}, nil
}

// CreateGrant implements store.Store.
func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) error {
	return s.writer.do(ctx, &operation{grant: g, create: true})
}

// UpdateGrant implements store.Store.
func (s *Store) UpdateGrant(ctx context.Context, g grant.Grant, events ...store.Event) error {
	return s.writer.do(ctx, &operation{grant: g, events: events})
}

// Grants implements store.Store.
func (s *Store) Grants(ctx context.Context, f store.GrantFilter) (list []grant.Grant, err error) {
	query := listGrantsSQL
	if f.Subject != "" {
		query = listSubjectSQL
	}
	rows, err := s.db.QueryContext(ctx, query, f.After[:], f.Realm, f.Subject, f.ClientID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var g grant.Grant
		var id []byte
		var attempt int64
		if err := rows.Scan(&id, &g.Realm, &g.ClientID, &g.Subject, &g.Scope, &g.AuthorizedAt, &g.Generation, &g.Version,
			&g.RotatedAt, &g.KeyID, &g.ExpiresAt, &g.DeleteAfter, &g.AccessFloor, &g.State, &g.Reason, &attempt); err != nil {
			return nil, fmt.Errorf("list grants: %w", err)
		}
		g.ID, g.Attempt = grant.ID(id), uint64(attempt)
		list = append(list, g)
	}
	return list, rows.Err()
}

// SweepGrants implements store.Store. Events of a grant go with it.
func (s *Store) SweepGrants(ctx context.Context, after grant.ID, now grant.Instant, limit int) (next grant.ID, deleted int, _ error) {
	rows, err := s.db.QueryContext(ctx, walkGrantsSQL, after[:], limit)
	if err != nil {
		return next, 0, fmt.Errorf("sweep: %w", err)
	}
	defer rows.Close()
	type dead struct {
		id      grant.ID
		version int64
	}
	var list []dead
	walked := 0
	for rows.Next() {
		var id []byte
		var version, deleteAfter int64
		if err := rows.Scan(&id, &version, &deleteAfter); err != nil {
			return next, 0, fmt.Errorf("sweep: %w", err)
		}
		walked++
		next = grant.ID(id)
		if grant.Instant(deleteAfter) < now {
			list = append(list, dead{next, version})
		}
	}
	if err := rows.Err(); err != nil {
		return next, 0, fmt.Errorf("sweep: %w", err)
	}
	if walked < limit {
		next = grant.ID{}
	}
	if len(list) == 0 {
		return next, 0, nil
	}
	// Its own count: if ctx ends, the transaction may still be running.
	gone := 0
	err = s.admin(ctx, func(tx *sql.Tx) error {
		for _, d := range list {
			res, err := tx.Exec(deleteGrantSQL, d.id[:], d.version, int64(now))
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			if n == 1 {
				gone++
				if _, err := tx.Exec(deleteEventsSQL, d.id.String()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return after, 0, fmt.Errorf("sweep: %w", err)
	}
	return next, gone, nil
}
