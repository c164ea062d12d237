CREATE INDEX IF NOT EXISTS grants_by_subject ON grants (subject, id)
