CREATE TABLE IF NOT EXISTS secret_uses (
    secret  TEXT   NOT NULL PRIMARY KEY,
    used_at BIGINT NOT NULL
)
