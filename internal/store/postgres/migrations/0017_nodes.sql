-- The servers that use this store: each writes its time here once a second.
CREATE TABLE IF NOT EXISTS nodes (
    id    BYTEA  NOT NULL PRIMARY KEY,
    name  TEXT   NOT NULL,
    since BIGINT NOT NULL,
    clock BIGINT NOT NULL
)
