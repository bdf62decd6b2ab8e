-- Contents that nobody holds any more and that are still to be deleted.

-- name: throw_away
INSERT INTO litter (bodies) VALUES ($1::bytea);

-- name: oldest_litter
-- Whole rows, until they hold so many bytes.
SELECT coalesce(json_agg(id ORDER BY id), '[]'),
       coalesce(json_agg(octet_length(bodies) ORDER BY id), '[]'),
       string_agg(bodies, ''::bytea ORDER BY id)
  FROM (SELECT id, bodies, sum(octet_length(bodies)) OVER (ORDER BY id) AS total
          FROM (SELECT * FROM litter ORDER BY id LIMIT 1000) AS oldest) AS summed
 WHERE total - octet_length(bodies) < $1::bigint;

-- name: forget_litter
DELETE FROM litter WHERE id = ANY ($1::bigint[]);

-- name: litter_left
SELECT count(*) FROM litter;
