-- One row for the whole life of a grant. Its key is the first 64 bits of its
-- random id, as a number in the order of the ids: numbers make a flatter tree
-- than blobs, and cheaper comparisons. No index holds a column that a rotation
-- changes.
CREATE TABLE grants (
    prefix        INTEGER NOT NULL PRIMARY KEY,
    id            BLOB    NOT NULL,
    realm         TEXT    NOT NULL,
    client        TEXT    NOT NULL,
    subject       TEXT    NOT NULL,
    scope         TEXT    NOT NULL,
    authorized_at INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    rotated_at    INTEGER NOT NULL,
    key_id        INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    delete_after  INTEGER NOT NULL,
    access_floor  INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    reason        INTEGER NOT NULL,
    attempt       INTEGER NOT NULL
) STRICT;

CREATE INDEX grants_by_subject ON grants (subject);

-- The directory's version: it grows with every change to clients, cutoffs and
-- keys, and each changed row remembers it.
CREATE TABLE directory (
    id      INTEGER NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;
INSERT INTO directory (id, version) VALUES (1, 1);

CREATE TABLE clients (
    id      TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    doc     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX clients_by_change ON clients (changed);

CREATE TABLE secret_uses (
    secret  TEXT    NOT NULL PRIMARY KEY,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Empty subject or client means any.
CREATE TABLE cutoffs (
    realm   TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    client  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (realm, subject, client)
) STRICT, WITHOUT ROWID;
CREATE INDEX cutoffs_by_change ON cutoffs (changed);

CREATE TABLE keys (
    id         INTEGER NOT NULL PRIMARY KEY,
    purpose    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    active_at  INTEGER NOT NULL,
    wrapped    BLOB    NOT NULL,
    changed    INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    id     BLOB    NOT NULL PRIMARY KEY,
    at     INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    about  TEXT    NOT NULL,
    actor  TEXT    NOT NULL,
    detail TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_about ON events (about, at);
-- For the revocation feed: what happened lately.
CREATE INDEX events_by_time ON events (at);
