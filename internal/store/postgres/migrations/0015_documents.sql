-- Sessions, interactions, consents and users of the authorization endpoint.
CREATE TABLE IF NOT EXISTS documents (
    id         BYTEA  NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    body       BYTEA  NOT NULL
)
