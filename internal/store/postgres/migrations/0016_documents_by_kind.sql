-- To list the users among a million sessions.
CREATE INDEX IF NOT EXISTS documents_by_kind ON documents (kind, id)
