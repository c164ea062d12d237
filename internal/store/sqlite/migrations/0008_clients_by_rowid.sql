-- Most entries are longer than what a row of a table without a rowid has in its
-- page: each was in a page of its own, and a start read all of these, one by one.
CREATE TABLE clients_with_rowid (
    id      TEXT    NOT NULL PRIMARY KEY,
    kind    TEXT    NOT NULL DEFAULT 'client',
    version INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    doc     TEXT    NOT NULL
) STRICT;
INSERT INTO clients_with_rowid (id, kind, version, changed, doc) SELECT id, kind, version, changed, doc FROM clients ORDER BY id;
DROP TABLE clients;
ALTER TABLE clients_with_rowid RENAME TO clients;
CREATE INDEX clients_by_change ON clients (changed);
