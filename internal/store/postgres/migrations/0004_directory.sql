-- The directory's version: it grows with every change to clients, cutoffs and
-- keys, and each changed row remembers it.
CREATE TABLE IF NOT EXISTS directory (
    id      SMALLINT NOT NULL PRIMARY KEY,
    version BIGINT   NOT NULL
)
