-- Contents that nobody holds any more and that are still to be deleted.

-- name: throw_away
INSERT INTO litter (bodies) VALUES (?1);

-- name: oldest_litter
-- Whole rows, until they hold so many bytes.
SELECT json_group_array(id), json_group_array(octet_length(bodies)),
       CAST(group_concat(bodies, '') AS BLOB)
  FROM (SELECT id, bodies, sum(octet_length(bodies)) OVER (ORDER BY id) AS total
          FROM (SELECT * FROM litter ORDER BY id LIMIT 1000))
 WHERE total - octet_length(bodies) < ?1;

-- name: forget_litter
DELETE FROM litter WHERE id IN carray(?1);

-- name: litter_left
SELECT count(*) FROM litter;
