package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// A Scanner is a row of a result.
type Scanner interface{ Scan(to ...any) error }

// A Query runs SQL and calls f with each row.
type Query func(f func(Scanner) error, text string, args ...any) error

// A Reader reads what all engines store alike, by SQL that every engine understands
// (see Statement). Engines embed it.
type Reader struct {
	// Run calls f with a function that reads the database: in one snapshot if snapshot
	// is true. It may call f several times: the last call counts.
	Run func(ctx context.Context, snapshot bool, f func(Query) error) error
	// Floors returns the query for the id, realm, state and access_floor of grants, and its
	// arguments.
	Floors func(ids []grant.ID) (text string, args []any)
	// The queries for the documents of a kind after a key: of all owners, or of one owner.
	ListDocuments, ListOwner string
}

// ReadList returns what scan reads from each row.
func ReadList[T any](ctx context.Context, r Reader, scan func(Scanner) (T, error), text string, args ...any) (list []T, err error) {
	err = r.Run(ctx, false, func(q Query) error {
		list, err = scanAll(q, scan, text, args...)
		return err
	})
	return list, err
}

func scanAll[T any](q Query, scan func(Scanner) (T, error), text string, args ...any) (list []T, err error) {
	err = q(func(row Scanner) error {
		v, err := scan(row)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// readOne scans the only row of a result, and reports whether there is one.
func (r Reader) readOne(ctx context.Context, to []any, text string, args ...any) (found bool, err error) {
	err = r.Run(ctx, false, func(q Query) error {
		found = false
		return q(func(row Scanner) error {
			found = true
			return row.Scan(to...)
		}, text, args...)
	})
	return found, err
}

const (
	versionSQL = `SELECT version FROM directory WHERE id = 1`
	// changedSQL reports in one round trip which tables other than clients have changed:
	// usually none, so that three queries are saved.
	changedSQL = `SELECT version, EXISTS (SELECT 1 FROM cutoffs WHERE changed > $1), EXISTS (SELECT 1 FROM keys WHERE changed > $1),
		EXISTS (SELECT 1 FROM restores WHERE changed > $1) FROM directory WHERE id = 1`
	// countsSQL counts entries, and the APIs among them by their keys, which are indexed.
	countsSQL = `SELECT count(*), count(CASE WHEN id LIKE 'api %' THEN 1 END) FROM clients`
)

// DirectoryVersion returns the version of the directory.
func (r Reader) DirectoryVersion(ctx context.Context) (version int64, err error) {
	_, err = r.readOne(ctx, []any{&version}, versionSQL)
	return version, err
}

// Changes implements Store.
func (r Reader) Changes(ctx context.Context, since int64) (ch Changes, err error) {
	// The poll of each second ends here unless something has changed.
	if ch.Version, err = r.DirectoryVersion(ctx); err == nil && ch.Version != since {
		err = r.Run(ctx, true, func(q Query) error {
			ch, err = readChanges(q, since)
			return err
		})
	}
	if err != nil {
		return Changes{}, fmt.Errorf("read directory: %w", err)
	}
	return ch, nil
}

func readChanges(q Query, since int64) (ch Changes, err error) {
	var cutoffs, ring, restores bool
	if err := q(func(row Scanner) error { return row.Scan(&ch.Version, &cutoffs, &ring, &restores) }, changedSQL, since); err != nil {
		return ch, err
	}
	query, args := `SELECT kind, doc FROM clients WHERE changed > $1`, []any{since}
	if since == 0 {
		query, args = `SELECT kind, doc FROM clients`, nil // in the order of the table: no row is looked up by an index
		// Growing a list to 100,000 clients would copy it many times.
		var rows, apis int
		if err := q(func(row Scanner) error { return row.Scan(&rows, &apis) }, countsSQL); err != nil {
			return ch, err
		}
		ch.Clients, ch.APIs = make([]Client, 0, rows-apis), make([]API, 0, apis)
	}
	// Decode in a second goroutine, while this one reads: 100,000 clients delay a start.
	type entry struct {
		kind EntryKind
		text string
	}
	read, decoded := make(chan entry, 1000), make(chan error, 1)
	go func() {
		var err error
		for e := range read {
			if err == nil {
				err = ch.add(e.kind, e.text)
			}
		}
		decoded <- err
	}()
	err = q(func(row Scanner) error {
		var e entry
		err := row.Scan((*string)(&e.kind), &e.text)
		read <- e
		return err
	}, query, args...)
	close(read)
	err = cmp.Or(err, <-decoded)
	if err == nil && cutoffs {
		ch.Cutoffs, err = scanAll(q, ScanCutoff, `SELECT realm, subject, client, at FROM cutoffs WHERE changed > $1`, since)
	}
	if err == nil && ring {
		ch.Keys, err = scanAll(q, ScanKey, `SELECT id, purpose, created_at, active_at, wrapped FROM keys WHERE changed > $1`, since)
	}
	if err == nil && restores {
		ch.Restores, err = scanAll(q, func(row Scanner) (r grant.Restore, err error) {
			err = row.Scan((*int64)(&r.At), (*int64)(&r.Backup), (*int64)(&r.Until))
			return r, err
		}, `SELECT at, backup_at, until FROM restores WHERE changed > $1`, since)
	}
	return ch, err
}

// ScanKey reads id, purpose, created_at, active_at and wrapped.
func ScanKey(row Scanner) (r keys.Stored, err error) {
	err = row.Scan((*uint32)(&r.ID), (*string)(&r.Purpose), (*int64)(&r.CreatedAt), (*int64)(&r.ActiveAt), &r.Wrapped)
	return r, err
}

// ScanCutoff reads realm, subject, client and at.
func ScanCutoff(row Scanner) (c Cutoff, err error) {
	err = row.Scan(&c.Realm, &c.Subject, &c.ClientID, (*int64)(&c.At))
	return c, err
}

// Client implements Store.
func (r Reader) Client(ctx context.Context, id string) (c Client, err error) {
	e := Entry{Kind: EntryClient, ID: id}
	found, err := r.readOne(ctx, []any{&e.Body}, `SELECT doc FROM clients WHERE id = $1 AND kind = 'client'`, id)
	if err == nil && !found {
		return c, ErrNotFound
	}
	if err == nil {
		c, err = e.Client()
	}
	for i := range c.Secrets {
		if err == nil {
			s := &c.Secrets[i]
			_, err = r.readOne(ctx, []any{(*int64)(&s.LastUsedAt)}, `SELECT used_at FROM secret_uses WHERE secret = $1`, s.ID)
		}
	}
	if err != nil {
		return c, fmt.Errorf("read client: %w", err)
	}
	return c, nil
}

// usesAtOnce is the number of secrets in one statement. It is fixed, so that an engine
// prepares one statement only.
const usesAtOnce = 100

var usesSQL = func() string {
	text := "SELECT secret, used_at FROM secret_uses WHERE secret IN ($1"
	for n := range usesAtOnce - 1 {
		text += fmt.Sprintf(", $%d", n+2)
	}
	return text + ")"
}()

// ReadSecretUses implements Store.
func (r Reader) ReadSecretUses(ctx context.Context, clients []Client) error {
	var ids []any
	for _, c := range clients {
		for _, s := range c.Secrets {
			ids = append(ids, s.ID)
		}
	}
	used := make(map[string]grant.Instant, len(ids))
	for part := range slices.Chunk(ids, usesAtOnce) {
		args := slices.Concat(part, slices.Repeat(part[:1], usesAtOnce-len(part)))
		err := r.Run(ctx, false, func(q Query) error {
			return q(func(row Scanner) error {
				var id string
				var at grant.Instant
				err := row.Scan(&id, (*int64)(&at))
				used[id] = at
				return err
			}, usesSQL, args...)
		})
		if err != nil {
			return fmt.Errorf("read uses of secrets: %w", err)
		}
	}
	for i := range clients {
		for j := range clients[i].Secrets {
			clients[i].Secrets[j].LastUsedAt = used[clients[i].Secrets[j].ID]
		}
	}
	return nil
}

// EventsSQL lists the events with one value of About.
const EventsSQL = `SELECT at, name, about, actor, detail FROM events WHERE about = $1 ORDER BY at, id LIMIT $2`

// Events implements Store.
func (r Reader) Events(ctx context.Context, about string, limit int) ([]Event, error) {
	events, err := ReadList(ctx, r, func(row Scanner) (e Event, err error) {
		err = row.Scan((*int64)(&e.At), (*string)(&e.Name), &e.About, &e.Actor, &e.Detail)
		return e, err
	}, EventsSQL, about, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// GrantColumns are the columns that ScanGrant reads.
const GrantColumns = `id, realm, client, subject, scope, authorized_at, generation, version, rotated_at, key_id,
		expires_at, delete_after, access_floor, state, reason, attempt, auth_time, claims`

// ScanGrant reads GrantColumns.
func ScanGrant(row Scanner) (g grant.Grant, err error) {
	var id []byte
	var generation, key, attempt int64
	var state, reason int16
	var facts string
	err = row.Scan(&id, &g.Realm, &g.ClientID, &g.Subject, (*string)(&g.Scope), (*int64)(&g.AuthorizedAt), &generation, &g.Version,
		(*int64)(&g.RotatedAt), &key, (*int64)(&g.ExpiresAt), (*int64)(&g.DeleteAfter), (*int64)(&g.AccessFloor), &state, &reason, &attempt,
		(*int64)(&g.AuthTime), &facts)
	if err != nil {
		return g, err
	}
	g.ID, g.Generation, g.KeyID, g.Attempt = grant.ID(id), uint32(generation), grant.KeyID(key), uint64(attempt)
	g.State, g.Reason = grant.State(state), grant.Reason(reason)
	g.Facts, err = grant.ParseFacts(facts)
	return g, err
}

// ScanDocument reads id, kind, version, expires_at, owner and body.
func ScanDocument(row Scanner) (d Document, err error) {
	var key, owner []byte
	if err = row.Scan(&key, (*string)(&d.Kind), &d.Version, (*int64)(&d.ExpiresAt), &owner, &d.Body); err == nil {
		d.Key = DocumentKey(key)
		copy(d.Owner[:], owner)
	}
	return d, err
}

const (
	// revokedSQL finds the grants that were revoked recently, by their events. A grant
	// counts once, however often its access tokens were revoked, so that one grant
	// cannot fill the list.
	revokedSQL = `SELECT about, max(at) AS latest FROM events WHERE at >= $1 AND name IN ('code_replayed', 'refresh_replayed', 'grant_revoked', 'access_revoked')
		GROUP BY about ORDER BY latest DESC LIMIT $2`
	// floorsAtOnce is the number of grants in one statement.
	floorsAtOnce = 500
)

// Revocations implements Store.
func (r Reader) Revocations(ctx context.Context, since grant.Instant, limit int) (list []Revocation, from grant.Instant, err error) {
	err = r.Run(ctx, false, func(q Query) error {
		list, from = nil, since
		return q(func(row Scanner) error {
			var about string
			var event grant.Instant
			if err := row.Scan(&about, (*int64)(&event)); err != nil {
				return err
			}
			if len(list) == limit {
				from = event + 1 // others of that instant may be missing
				return nil
			}
			id, err := grant.ParseID(about)
			list = append(list, Revocation{GrantID: id, At: event})
			return err
		}, revokedSQL, int64(since), limit+1)
	})
	for part := range slices.Chunk(list, floorsAtOnce) {
		if err == nil {
			err = r.readFloors(ctx, part)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read revocations: %w", err)
	}
	// The tokens of a grant whose row was deleted have all expired.
	return slices.DeleteFunc(list, func(r Revocation) bool { return r.Floor == 0 }), from, nil
}

// readFloors reads the realms and access floors of grants: older access tokens are revoked.
func (r Reader) readFloors(ctx context.Context, list []Revocation) error {
	at := make(map[grant.ID]int, len(list))
	ids := make([]grant.ID, len(list))
	for i, revoked := range list {
		at[revoked.GrantID], ids[i] = i, revoked.GrantID
	}
	text, args := r.Floors(ids)
	return r.Run(ctx, false, func(q Query) error {
		return q(func(row Scanner) error {
			var id []byte
			var realm string
			var state int16
			var floor grant.Instant
			if err := row.Scan(&id, &realm, &state, (*int64)(&floor)); err != nil {
				return err
			}
			if grant.State(state) == grant.Revoked {
				floor = grant.Never
			}
			if i, ok := at[grant.ID(id)]; ok {
				list[i].Realm, list[i].Floor = realm, floor
			}
			return nil
		}, text, args...)
	})
}

// A Due is a row that Sweep may delete if it still has the version.
type Due struct {
	ID      []byte
	Version int64
}

// FindDue scans rows of a table. The query returns id, version and the instant after
// which a row may be deleted. FindDue returns the key to continue after.
func (r Reader) FindDue(ctx context.Context, table SweptTable, now grant.Instant, limit int, text string, args ...any) (next string, due []Due, err error) {
	err = r.Run(ctx, false, func(q Query) error {
		scanned := 0
		next, due = "", nil
		err := q(func(row Scanner) error {
			var d Due
			var at grant.Instant
			if err := row.Scan(&d.ID, &d.Version, (*int64)(&at)); err != nil {
				return err
			}
			scanned++
			next = string(d.ID)
			if at < now && (table == SweptGrants || at != 0) {
				due = append(due, d)
			}
			return nil
		}, text, args...)
		if scanned < limit {
			next = ""
		}
		return err
	})
	return next, due, err
}

// TallyUsers implements Store.
func (r Reader) TallyUsers(ctx context.Context) (t Tally, err error) {
	_, err = r.readOne(ctx, []any{&t.Users, &t.Versions}, TallyUsersSQL)
	if err != nil {
		err = fmt.Errorf("tally users: %w", err)
	}
	return t, err
}

// TallyUsersSQL counts the documents of built-in users and their versions. SQLite has an
// index for it, which a parameter in place of the kind would not use.
const TallyUsersSQL = `SELECT count(*), CAST(coalesce(sum(version), 0) AS BIGINT) FROM documents WHERE kind = 'user'`

// CountDocuments implements Store.
func (r Reader) CountDocuments(ctx context.Context, kind DocumentKind) (n int, err error) {
	if _, err = r.readOne(ctx, []any{&n}, `SELECT count(*) FROM documents WHERE kind = $1`, string(kind)); err != nil {
		err = fmt.Errorf("count documents: %w", err)
	}
	return n, err
}

// Migration reads the migration state.
func (r Reader) Migration(ctx context.Context) (m Migration, err error) {
	err = r.Run(ctx, false, func(q Query) error {
		m, err = ReadMigration(q)
		return err
	})
	return m, err
}

// ReadMigration reads the migration state.
func ReadMigration(q Query) (m Migration, err error) {
	err = q(func(row Scanner) error {
		return row.Scan((*string)(&m.State), &m.Source, &m.Move, &m.Claim, &m.OtherStore)
	}, `SELECT state, source, move, claim, elsewhere FROM moves WHERE id = 1`)
	if err != nil {
		err = fmt.Errorf("read the migration state: %w", err)
	}
	return m, err
}

// Count counts the rows of a table.
func (r Reader) Count(ctx context.Context, t Table) (n int64, err error) {
	_, err = r.readOne(ctx, []any{&n}, `SELECT count(*) FROM `+t.Name)
	return n, err
}

// Scan reads a row of t's columns.
func (t Table) Scan(from Scanner) (Row, error) {
	row := make(Row, len(t.Columns))
	blobs := make([][]byte, len(t.Columns))
	to := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Kind {
		case Number:
			to[i] = &row[i].Number
		case Bytes:
			to[i] = &blobs[i]
		default:
			to[i] = &row[i].Text
		}
	}
	err := from.Scan(to...)
	for i, b := range blobs {
		if b != nil {
			row[i].Text = string(b)
		}
	}
	return row, err
}

// Names lists t's columns.
func (t Table) Names() (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}
