package restore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// Lost describes what a store has and a backup of it lacks: a restore loses it.
type Lost struct {
	Refreshed int64 // grants of the backup that were refreshed since; their clients continue
	Made      int64 // grants that the backup lacks
	MadeBy    []MadeBy
	Ended     int64 // grants that are active in the backup and were revoked since; see EachEnded
	Cutoffs   []store.Cutoff
	Clients   []ClientChange
	APIs      []APIChange
	Trusts    []TrustChange
	Users     []UserChange
	Tokens    struct{ Was, Is []admin.Token } // of the admin API
	Operators struct{ Was, Is []operator.Operator }
	Sessions  int64               // of browsers, that the backup lacks
	SignedOut []store.DocumentKey // sessions of the backup that have ended
	Keys      int64
	Withdrawn []grant.KeyID // keys of the backup that were withdrawn since
	Issued    grant.Issued  // summary of the refresh tokens of the store
}

// MadeBy counts the grants of a client.
type MadeBy struct {
	ClientID string
	Grants   int64
}

// A Changed is a record that differs between the backup (Was) and the present store (Is).
// Either may be marked as deleted; Was is nil if the backup lacks the record.
type Changed[T any] struct{ Was, Is *T }

type (
	ClientChange = Changed[store.Client]
	APIChange    = Changed[store.API]
	TrustChange  = Changed[store.Trust]
	UserChange   = Changed[account.User]
)

// changed returns a function that reads two JSON texts, of which the first may be
// NULL, and appends them to list as a Changed.
func changed[T any](list *[]Changed[T]) func(store.Scanner) error {
	return func(row store.Scanner) error {
		var was, is []byte
		var c Changed[T]
		err := row.Scan(&was, &is)
		if err == nil && was != nil {
			err = json.Unmarshal(was, &c.Was)
		}
		if err == nil {
			err = json.Unmarshal(is, &c.Is)
		}
		*list = append(*list, c)
		return err
	}
}

// lists returns a SELECT of the list of a kind (see store.List), which is one document, in
// two columns: as it is in the backup, and as it is in the present store.
func lists(kind string) string {
	const body = `coalesce((SELECT body FROM %s.documents WHERE kind = '%s'), '[]')`
	return fmt.Sprintf("SELECT "+body+", "+body, "b", kind, "main", kind)
}

// bothLists returns a function that reads the row that lists selects.
func bothLists(was, is any) func(store.Scanner) error {
	return func(row store.Scanner) error {
		var before, now []byte
		if err := row.Scan(&before, &now); err != nil {
			return err
		}
		return errors.Join(json.Unmarshal(before, was), json.Unmarshal(now, is))
	}
}

// CompareWith returns what the store in a data directory has that a backup lacks.
// It does not change the store, which may be in use or have crashed; at most, it
// creates the missing index of a log.
func CompareWith(ctx context.Context, b *backup.File, dir string) (l Lost, err error) {
	path := filepath.Join(dir, sqlite.FileName)
	err = readUntouched(ctx, path, func(db *sql.DB) error {
		l, err = compare(ctx, b, path, db)
		return err
	})
	return l, err
}

// EachEnded calls f with each grant that is active in the backup, and that the store of a
// data directory has revoked since, or whose access tokens it has revoked. Like
// CompareWith, it does not change the store. It may call f twice with the same grants.
func EachEnded(ctx context.Context, b *backup.File, dir string, f func(grant.Grant) error) error {
	path := filepath.Join(dir, sqlite.FileName)
	return readUntouched(ctx, path, func(db *sql.DB) error {
		if err := attach(ctx, b, db); err != nil {
			return err
		}
		return sqlite.Query(ctx, db)(func(rows store.Scanner) error {
			var id []byte
			var g grant.Grant
			if err := rows.Scan(&id, &g.State, &g.Reason, &g.AccessFloor); err != nil {
				return err
			}
			if copy(g.ID[:], id) != len(g.ID) {
				return errors.New("a grant has no id")
			}
			return f(g)
		}, `SELECT p.id, p.state, p.reason, p.access_floor FROM main.grants p JOIN b.grants g ON g.prefix = p.prefix AND g.id = p.id
			WHERE g.state = ? AND (p.state = ? OR p.access_floor > g.access_floor) ORDER BY p.prefix`, grant.Active, grant.Revoked)
	})
}

func attach(ctx context.Context, b *backup.File, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `ATTACH ? AS b`, sqlite.URL(b.File)+"&mode=ro&immutable=1")
	return err
}

func compare(ctx context.Context, b *backup.File, path string, db *sql.DB) (l Lost, err error) {
	if err := attach(ctx, b, db); err != nil {
		return l, err
	}
	text := ""
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(state), '') FROM main.moves`).Scan(&text); err == nil && text != "" {
		if err := sqlite.Displaced(ctx, path, db); err != nil {
			return l, err
		}
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(sum(g.prefix IS NULL), 0), coalesce(sum(p.generation > g.generation), 0),
		coalesce(sum(p.state = ? AND g.state = ?), 0)
		FROM main.grants p LEFT JOIN b.grants g ON g.prefix = p.prefix AND g.id = p.id`, grant.Revoked, grant.Active).
		Scan(&l.Made, &l.Refreshed, &l.Ended)
	if err != nil {
		return l, err
	}
	if l.Issued, err = backup.IssuedIn(ctx, db, "main.grants"); err != nil {
		return l, err
	}
	// Compare the content, not the version: after the restore of an earlier backup,
	// another change may have the same version.
	queries := []struct {
		text string
		scan func(store.Scanner) error
	}{
		{`SELECT p.client, count(*) FROM main.grants p LEFT JOIN b.grants g ON g.prefix = p.prefix AND g.id = p.id
			WHERE g.prefix IS NULL GROUP BY p.client ORDER BY 2 DESC, 1`, func(rows store.Scanner) error {
			l.MadeBy = append(l.MadeBy, MadeBy{})
			by := &l.MadeBy[len(l.MadeBy)-1]
			return rows.Scan(&by.ClientID, &by.Grants)
		}},
		{`SELECT p.realm, p.subject, p.client, p.at FROM main.cutoffs p LEFT JOIN b.cutoffs c ON c.realm = p.realm AND c.subject = p.subject AND c.client = p.client
			WHERE c.at IS NULL OR c.at < p.at ORDER BY p.at`, func(rows store.Scanner) error {
			c, err := store.ScanCutoff(rows)
			l.Cutoffs = append(l.Cutoffs, c)
			return err
		}},
		{`SELECT c.doc, p.doc FROM main.clients p LEFT JOIN b.clients c ON c.id = p.id
			WHERE p.kind = 'client' AND c.doc IS NOT p.doc ORDER BY p.id`, changed(&l.Clients)},
		{`SELECT c.doc, p.doc FROM main.clients p LEFT JOIN b.clients c ON c.id = p.id AND c.kind = p.kind
			WHERE p.kind = 'api' AND c.doc IS NOT p.doc ORDER BY p.id`, changed(&l.APIs)},
		{`SELECT c.doc, p.doc FROM main.clients p LEFT JOIN b.clients c ON c.id = p.id AND c.kind = p.kind
			WHERE p.kind = 'trust' AND c.doc IS NOT p.doc ORDER BY p.id`, changed(&l.Trusts)},
		{`SELECT d.body, p.body FROM main.documents p LEFT JOIN b.documents d ON d.id = p.id
			WHERE p.kind = 'user' AND d.body IS NOT p.body ORDER BY p.id`, changed(&l.Users)},
		{lists("admin_tokens"), bothLists(&l.Tokens.Was, &l.Tokens.Is)},
		{lists("operators"), bothLists(&l.Operators.Was, &l.Operators.Is)},
		{`SELECT (SELECT count(*) FROM main.documents p WHERE p.kind = 'session' AND p.version = 1 AND p.id NOT IN (SELECT id FROM b.documents)),
			(SELECT count(*) FROM main.keys WHERE id NOT IN (SELECT id FROM b.keys))`, func(rows store.Scanner) error {
			return rows.Scan(&l.Sessions, &l.Keys)
		}},
		// The document of a session has version 1 until the session is over.
		{`SELECT id FROM b.documents d WHERE kind = 'session' AND version = 1 AND NOT EXISTS (SELECT 1 FROM main.documents p WHERE p.id = d.id AND p.version = 1) ORDER BY id`, func(rows store.Scanner) error {
			var id []byte
			err := rows.Scan(&id)
			if err == nil && len(id) != len(store.DocumentKey{}) {
				err = errors.New("a session has no key")
			}
			if err == nil {
				l.SignedOut = append(l.SignedOut, store.DocumentKey(id))
			}
			return err
		}},
		{`SELECT p.id, p.wrapped, k.wrapped FROM main.keys p JOIN b.keys k ON k.id = p.id ORDER BY p.id`, func(rows store.Scanner) error {
			var is, was keys.Stored
			if err := rows.Scan(&is.ID, &is.Wrapped, &was.Wrapped); err != nil {
				return err
			}
			if is.WithdrawnAt() != 0 && was.WithdrawnAt() == 0 {
				l.Withdrawn = append(l.Withdrawn, is.ID)
			}
			return nil
		}},
	}
	query := sqlite.Query(ctx, db)
	for _, q := range queries {
		if err := query(q.scan, q.text); err != nil {
			return l, err
		}
	}
	return l, nil
}
