CREATE INDEX IF NOT EXISTS documents_by_owner ON documents (owner, id) WHERE owner <> ''
