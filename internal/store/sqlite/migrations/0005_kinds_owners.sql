-- Entries of the directory of every kind are in the table that had clients alone
-- at first. The key of any other kind begins with its name and a space.
ALTER TABLE clients ADD COLUMN kind TEXT NOT NULL DEFAULT 'client';
-- The digest of the subject to which a document belongs, if it belongs to one.
ALTER TABLE documents ADD COLUMN owner BLOB NOT NULL DEFAULT x'';
CREATE INDEX documents_by_owner ON documents (owner, id) WHERE owner <> x'';
