-- When the store was put back to an earlier state, and until when tokens of
-- before are to be met that it has lost the record of.
CREATE TABLE restores (
    at        INTEGER NOT NULL PRIMARY KEY,
    backup_at INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    changed   INTEGER NOT NULL
) STRICT;
