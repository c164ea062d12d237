-- What this store remembers of a move to or from another place: at most one
-- row. A copy that is not complete remembers how far it is.
CREATE TABLE IF NOT EXISTS moves (
    id        SMALLINT NOT NULL PRIMARY KEY,
    state     TEXT     NOT NULL,
    source    TEXT     NOT NULL,
    move      TEXT     NOT NULL,
    claim     TEXT     NOT NULL,
    elsewhere TEXT     NOT NULL,
    step      TEXT     NOT NULL,
    position  BYTEA    NOT NULL,
    copied    BIGINT   NOT NULL
)
