CREATE TABLE IF NOT EXISTS events (
    id     BYTEA  NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    name   TEXT   NOT NULL,
    about  TEXT   NOT NULL,
    actor  TEXT   NOT NULL,
    detail TEXT   NOT NULL
)
