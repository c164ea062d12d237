-- The digest of the subject to which a document belongs, if it belongs to one.
ALTER TABLE documents ADD COLUMN IF NOT EXISTS owner BYTEA NOT NULL DEFAULT ''
