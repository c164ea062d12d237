-- To list the grants of one client among a million. No rotation changes it.
CREATE INDEX grants_by_client ON grants (client);
