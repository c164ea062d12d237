-- What this store remembers of a move to or from another place: at most one row.
CREATE TABLE moves (
    id        INTEGER NOT NULL PRIMARY KEY,
    state     TEXT    NOT NULL,
    source    TEXT    NOT NULL,
    move      TEXT    NOT NULL,
    claim     TEXT    NOT NULL,
    elsewhere TEXT    NOT NULL
) STRICT;
