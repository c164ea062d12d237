CREATE INDEX IF NOT EXISTS clients_by_change ON clients (changed)
