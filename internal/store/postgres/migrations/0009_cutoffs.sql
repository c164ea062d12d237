-- Empty subject or client means any.
CREATE TABLE IF NOT EXISTS cutoffs (
    realm   TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    client  TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (realm, subject, client)
)
