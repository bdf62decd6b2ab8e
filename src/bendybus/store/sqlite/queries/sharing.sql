-- What processes that share the file tell each other in it.

-- name: raise_generation
INSERT INTO generation (id, number) VALUES (1, 1)
ON CONFLICT (id) DO UPDATE SET number = number + 1;

-- name: what_others_did
-- How often the catalog was changed; the last row of the log of ids; and of when one of them is.
SELECT coalesce((SELECT number FROM generation WHERE id = 1), 0),
       coalesce((SELECT max(id) FROM seen), 0),
       coalesce((SELECT seen_at FROM seen WHERE id = ?1), 0);
