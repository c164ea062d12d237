INSERT INTO pulse (id, beats) SELECT u.id, 0 FROM unnest(ARRAY[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]::smallint[]) AS u (id) ON CONFLICT (id) DO NOTHING
