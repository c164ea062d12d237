-- For the revocation feed: what happened lately.
CREATE INDEX IF NOT EXISTS events_by_time ON events (at)
