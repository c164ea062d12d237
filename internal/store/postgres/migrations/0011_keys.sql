CREATE TABLE IF NOT EXISTS keys (
    id         BIGINT NOT NULL PRIMARY KEY,
    purpose    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    active_at  BIGINT NOT NULL,
    wrapped    BYTEA  NOT NULL,
    changed    BIGINT NOT NULL
)
