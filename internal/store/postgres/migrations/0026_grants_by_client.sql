-- To list the grants of one client among a million. No rotation changes it.
CREATE INDEX IF NOT EXISTS grants_by_client ON grants (client, id)
