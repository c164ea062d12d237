package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// A Change is what Commit stores. Empty members store nothing.
type Change struct {
	// Expect is the version of the directory that the change requires, or 0 for
	// any. A change with Keys conflicts without it.
	Expect    int64
	Entries   []Entry       // each follows version Version-1; the first is 1
	Documents []Document    // each follows version Version-1; the first is 1
	Delete    []DocumentKey // whatever the version; an absent one is no error
	Cutoffs   []Cutoff      // unless a later one of the same name is stored
	Keys      []keys.Stored // new ones, and new wrapped forms of stored ones
	Restores  []grant.Restore
	Events    []Event
}

// Directory reports whether c changes the directory, which every node polls.
func (c Change) Directory() bool {
	return len(c.Entries)+len(c.Cutoffs)+len(c.Keys)+len(c.Restores) > 0
}

// OneDocument reports whether c stores one document and nothing else: engines
// commit many of those together.
func (c Change) OneDocument() bool {
	return len(c.Documents) == 1 && len(c.Delete)+len(c.Events) == 0 && c.Expect == 0 && !c.Directory()
}

// Checked validates c and returns a deep copy: a write may continue after its call
// has returned because the context has ended.
func (c Change) Checked() (Change, error) {
	c.Entries, c.Cutoffs, c.Restores = slices.Clone(c.Entries), slices.Clone(c.Cutoffs), slices.Clone(c.Restores)
	c.Documents, c.Delete = slices.Clone(c.Documents), slices.Clone(c.Delete)
	c.Keys, c.Events = slices.Clone(c.Keys), slices.Clone(c.Events)
	// Bodies become empty instead of nil, which would be stored as NULL.
	for i, e := range c.Entries {
		c.Entries[i].Body = append([]byte{}, e.Body...)
	}
	for i, k := range c.Keys {
		c.Keys[i].Wrapped = append([]byte{}, k.Wrapped...)
	}
	slices.SortFunc(c.Documents, func(a, b Document) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for i, d := range c.Documents {
		switch {
		case len(d.Body) > MaxDocument:
			return c, fmt.Errorf("write document: %s has %d bytes, the limit is %d", d.Kind, len(d.Body), MaxDocument)
		case d.Version < 1:
			return c, fmt.Errorf("write document: invalid version %d", d.Version)
		case i > 0 && d.Key == c.Documents[i-1].Key, slices.Contains(c.Delete, d.Key):
			return c, fmt.Errorf("write document: the change contains the %s twice", d.Kind)
		}
		c.Documents[i].Body = append([]byte{}, d.Body...)
	}
	return c, nil
}

// A Statement is SQL that every engine understands. Its arguments are of type
// int64, string or []byte. $1 is the first; in Text, they first appear in this order.
type Statement struct {
	Text string
	Args []any
	// Must makes it a conflict if the statement writes no row.
	Must bool
}

// Statements returns the statements that write the directory's part of c, in order.
func (c Change) Statements() (list []Statement) {
	const version = `(SELECT version FROM directory WHERE id = 1)`
	switch must := c.Expect != 0 || len(c.Keys) > 0; {
	case must && c.Directory():
		list = append(list, Statement{`UPDATE directory SET version = version + 1 WHERE id = 1 AND version = $1`, []any{c.Expect}, true})
	case must:
		list = append(list, Statement{`UPDATE directory SET version = version WHERE id = 1 AND version = $1`, []any{c.Expect}, true})
	case c.Directory():
		list = append(list, Statement{Text: `UPDATE directory SET version = version + 1 WHERE id = 1`, Must: true})
	}
	for _, e := range c.Entries {
		if e.Version == 1 {
			list = append(list, Statement{`INSERT INTO clients (id, kind, version, doc, changed) VALUES ($1, $2, $3, $4, ` + version + `) ON CONFLICT (id) DO NOTHING`,
				[]any{e.row(), string(e.Kind), e.Version, string(e.Body)}, true})
		} else {
			list = append(list, Statement{`UPDATE clients SET version = $1, doc = $2, changed = ` + version + ` WHERE id = $3 AND version = $4`,
				[]any{e.Version, string(e.Body), e.row(), e.Version - 1}, true})
		}
	}
	for _, k := range c.Keys {
		list = append(list, Statement{`INSERT INTO keys (id, purpose, created_at, active_at, wrapped, changed) VALUES ($1, $2, $3, $4, $5, ` + version + `)
			ON CONFLICT (id) DO UPDATE SET wrapped = excluded.wrapped, changed = excluded.changed
			WHERE keys.purpose = excluded.purpose AND keys.created_at = excluded.created_at AND keys.active_at = excluded.active_at AND keys.wrapped <> excluded.wrapped`,
			keyArgs(k), true})
	}
	for _, r := range c.Restores {
		list = append(list, Statement{`INSERT INTO restores (at, backup_at, until, changed) VALUES ($1, $2, $3, ` + version + `) ON CONFLICT (at) DO NOTHING`,
			[]any{int64(r.At), int64(r.Backup), int64(r.Until)}, true})
	}
	for _, o := range c.Cutoffs {
		list = append(list, Statement{Text: `INSERT INTO cutoffs (realm, subject, client, at, changed) VALUES ($1, $2, $3, $4, ` + version + `)
			ON CONFLICT (realm, subject, client) DO UPDATE SET at = excluded.at, changed = excluded.changed WHERE excluded.at > cutoffs.at`, Args: cutoffArgs(o)})
	}
	return list
}

// Held returns one query for each record of c, whose result is 1 if the store
// already holds exactly that record: a call that is made again after an unknown
// outcome recognises its own writes.
func (c Change) Held() (list []Statement) {
	for _, e := range c.Entries {
		list = append(list, Statement{Text: `SELECT count(*) FROM clients WHERE id = $1 AND version = $2 AND doc = $3`, Args: []any{e.row(), e.Version, string(e.Body)}})
	}
	for _, d := range c.Documents {
		list = append(list, Statement{Text: `SELECT count(*) FROM documents WHERE id = $1 AND kind = $2 AND version = $3 AND expires_at = $4 AND owner = $5 AND body = $6`,
			Args: []any{d.Key[:], string(d.Kind), d.Version, int64(d.ExpiresAt), d.Owner.Bytes(), d.Body}})
	}
	for _, key := range c.Delete {
		list = append(list, Statement{Text: `SELECT 1 - count(*) FROM documents WHERE id = $1`, Args: []any{key[:]}})
	}
	for _, o := range c.Cutoffs {
		list = append(list, Statement{Text: `SELECT count(*) FROM cutoffs WHERE realm = $1 AND subject = $2 AND client = $3 AND at >= $4`, Args: cutoffArgs(o)})
	}
	for _, k := range c.Keys {
		list = append(list, Statement{Text: `SELECT count(*) FROM keys WHERE id = $1 AND purpose = $2 AND created_at = $3 AND active_at = $4 AND wrapped = $5`, Args: keyArgs(k)})
	}
	for _, r := range c.Restores {
		list = append(list, Statement{Text: `SELECT count(*) FROM restores WHERE at = $1 AND backup_at = $2 AND until = $3`, Args: []any{int64(r.At), int64(r.Backup), int64(r.Until)}})
	}
	return list
}

func keyArgs(k keys.Stored) []any {
	return []any{int64(k.ID), string(k.Purpose), int64(k.CreatedAt), int64(k.ActiveAt), k.Wrapped}
}

func cutoffArgs(c Cutoff) []any { return []any{c.Realm, c.Subject, c.ClientID, int64(c.At)} }
