-- When the store was put back to an earlier state, and until when tokens of
-- before are to be met that it has lost the record of.
CREATE TABLE IF NOT EXISTS restores (
    at        BIGINT NOT NULL PRIMARY KEY,
    backup_at BIGINT NOT NULL,
    until     BIGINT NOT NULL,
    changed   BIGINT NOT NULL
)
