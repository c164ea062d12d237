-- Rows that are written for the sake of writing. Nothing locks one for longer
-- than a statement takes.
CREATE TABLE IF NOT EXISTS pulse (
    id    SMALLINT NOT NULL PRIMARY KEY,
    beats BIGINT   NOT NULL
)
