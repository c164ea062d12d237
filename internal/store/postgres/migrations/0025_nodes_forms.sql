-- The newest forms of codes and rows that a server reads. One of a version that
-- does not write it reads those of the first version.
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS forms BIGINT NOT NULL DEFAULT 0
