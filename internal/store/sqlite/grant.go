package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	selectGrantSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE prefix = ? AND id = ?`
	insertGrantSQL = `INSERT INTO grants (prefix, ` + store.GrantColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (prefix) DO NOTHING`
	updateGrantSQL = `UPDATE grants SET generation = ?, version = ?, rotated_at = ?, key_id = ?, expires_at = ?,
		delete_after = ?, access_floor = ?, state = ?, reason = ?, attempt = ?
		WHERE prefix = ? AND id = ? AND version = ?`
	// Without a subject or a client, a listing scans the table.
	listGrantsSQL  = `SELECT ` + store.GrantColumns + ` FROM grants WHERE prefix >= ?1 AND id > ?2 AND (?3 = '' OR realm = ?3) ORDER BY prefix LIMIT ?6`
	listSubjectSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE subject = ?4 AND prefix >= ?1 AND id > ?2
		AND (?3 = '' OR realm = ?3) AND (?5 = '' OR client = ?5) ORDER BY prefix LIMIT ?6`
	listClientSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE client = ?5 AND prefix >= ?1 AND id > ?2
		AND (?3 = '' OR realm = ?3) ORDER BY prefix LIMIT ?6`
)

// Prefix returns the primary key of a grant's row: the first 64 bits of its id, as
// a signed number with the same order. Two grants with one prefix cannot both be
// stored: with n grants, a new one fails with probability n/2^64, and its user
// logs in again.
func Prefix(id grant.ID) int64 { return int64(binary.BigEndian.Uint64(id[:8]) ^ 1<<63) }

// errPrefix is the error of a grant whose prefix another grant has.
var errPrefix = errors.New("another grant's id begins with the same 64 bits")

func bindUpdate(s *statement, g grant.Grant) error {
	for i, v := range [...]int64{
		int64(g.Generation), g.Version, int64(g.RotatedAt), int64(g.KeyID), int64(g.ExpiresAt),
		int64(g.DeleteAfter), int64(g.AccessFloor), int64(g.State), int64(g.Reason), int64(g.Attempt),
	} {
		s.bindInt(int32(i+1), v)
	}
	s.bindInt(11, Prefix(g.ID))
	s.bindInt(13, g.Version-1)
	return s.bindBlob(12, g.ID[:])
}

func bindInsert(s *statement, g grant.Grant) error {
	for i, v := range [...]int64{
		int64(g.AuthorizedAt),
		int64(g.Generation), g.Version, int64(g.RotatedAt), int64(g.KeyID), int64(g.ExpiresAt),
		int64(g.DeleteAfter), int64(g.AccessFloor), int64(g.State), int64(g.Reason), int64(g.Attempt), int64(g.AuthTime),
	} {
		s.bindInt(int32(i+7), v)
	}
	s.bindInt(1, Prefix(g.ID))
	return errors.Join(s.bindBlob(2, g.ID[:]), s.bindText(3, g.Realm), s.bindText(4, g.ClientID),
		s.bindText(5, g.Subject), s.bindText(6, string(g.Scope)), s.bindText(19, g.Facts.Text()))
}

// find runs selectGrantSQL for one id.
func find(s *statement, id grant.ID) (g grant.Grant, err error) {
	defer s.reset()
	s.bindInt(1, Prefix(id))
	if err := s.bindBlob(2, id[:]); err != nil {
		return g, err
	}
	found, err := s.step()
	if err != nil {
		return g, fmt.Errorf("read grant: %w", err)
	}
	if !found {
		return g, store.ErrNotFound
	}
	facts, err := grant.ParseFacts(s.string(17))
	if err != nil {
		return g, fmt.Errorf("read grant: %w", err)
	}
	g = grant.Grant{
		ID: id, AuthorizedAt: grant.Instant(s.int(5)),
		Generation: uint32(s.int(6)), Version: s.int(7), RotatedAt: grant.Instant(s.int(8)), KeyID: grant.KeyID(s.int(9)),
		ExpiresAt: grant.Instant(s.int(10)), DeleteAfter: grant.Instant(s.int(11)), AccessFloor: grant.Instant(s.int(12)),
		State: grant.State(s.int(13)), Reason: grant.Reason(s.int(14)), Attempt: uint64(s.int(15)),
		AuthTime: grant.Instant(s.int(16)), Facts: facts,
	}
	s.texts(1, [...]*string{&g.Realm, &g.ClientID, &g.Subject, (*string)(&g.Scope)})
	return g, nil
}

// CreateGrant implements store.Store.
func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) error {
	return s.writer.do(ctx, &operation{create: &g})
}

// UpdateGrant implements store.Store.
func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	op := s.writer.updates.Get().(*operation)
	op.id, op.decide = id, decide
	err := s.writer.do(ctx, op)
	if err == nil {
		op.decide = nil
		op.state.Store(waiting)
		s.writer.updates.Put(op)
	}
	return err
}

// Grants implements store.Store.
func (s *Store) Grants(ctx context.Context, f store.GrantFilter) ([]grant.Grant, error) {
	query := listGrantsSQL
	switch {
	case f.Subject != "":
		query = listSubjectSQL
	case f.ClientID != "":
		query = listClientSQL
	}
	grants, err := store.ReadList(ctx, s.Reader, store.ScanGrant, query, Prefix(f.After), f.After[:], f.Realm, f.Subject, f.ClientID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return grants, nil
}
