-- Sessions, interactions, consents and users of the authorization endpoint.
-- Bodies are large for a key: they are in an ordinary table, and last in it, so
-- that a walk need not read them.
CREATE TABLE documents (
    id         BLOB    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    body       BLOB    NOT NULL
) STRICT;
-- To list the users among a million sessions.
CREATE INDEX documents_by_kind ON documents (kind, id);

-- When the subject was authenticated, and what else was said of it with the code.
ALTER TABLE grants ADD COLUMN auth_time INTEGER NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN claims TEXT NOT NULL DEFAULT '';
