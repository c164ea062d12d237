-- Entries of the directory of every kind are in the table that had clients alone
-- at first. The key of any other kind begins with its name and a space.
ALTER TABLE clients ADD COLUMN IF NOT EXISTS kind TEXT NOT NULL DEFAULT 'client'
