CREATE INDEX IF NOT EXISTS events_by_about ON events (about, at)
