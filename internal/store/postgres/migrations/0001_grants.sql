-- One row for the whole life of a grant, by its random id. No index holds a
-- column that a rotation changes.
CREATE TABLE IF NOT EXISTS grants (
    id            BYTEA    NOT NULL PRIMARY KEY,
    realm         TEXT     NOT NULL,
    client        TEXT     NOT NULL,
    subject       TEXT     NOT NULL,
    scope         TEXT     NOT NULL,
    authorized_at BIGINT   NOT NULL,
    auth_time     BIGINT   NOT NULL,
    claims        TEXT     NOT NULL,
    generation    BIGINT   NOT NULL,
    version       BIGINT   NOT NULL,
    rotated_at    BIGINT   NOT NULL,
    key_id        BIGINT   NOT NULL,
    expires_at    BIGINT   NOT NULL,
    delete_after  BIGINT   NOT NULL,
    access_floor  BIGINT   NOT NULL,
    attempt       BIGINT   NOT NULL,
    state         SMALLINT NOT NULL,
    reason        SMALLINT NOT NULL
)
