CREATE TABLE IF NOT EXISTS clients (
    id      TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    doc     TEXT   NOT NULL
)
