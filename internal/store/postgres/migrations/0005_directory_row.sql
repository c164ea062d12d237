INSERT INTO directory (id, version) VALUES (1, 1) ON CONFLICT (id) DO NOTHING
