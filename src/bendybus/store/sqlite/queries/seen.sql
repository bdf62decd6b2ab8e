-- The log of ids that duplicate detection saw.

-- name: log_seen
INSERT INTO seen (queue, seen_at, digests) VALUES (?1, ?2, ?3);

-- name: log_seen_as
INSERT INTO seen (queue, seen_at, digests) VALUES (?1, ?2, ?3) RETURNING id;

-- name: logged_from
SELECT id, queue, seen_at, digests FROM seen WHERE id >= ?1 ORDER BY id;

-- name: logged_ids
SELECT queue, seen_at, digests FROM seen ORDER BY id;

-- name: oldest_seen
-- Whole rows of the log, until they hold so many bytes.
SELECT json_group_array(id), CAST(group_concat(digests, '') AS BLOB)
  FROM (SELECT id, digests, sum(length(digests)) OVER (ORDER BY seen_at, id) AS total
          FROM (SELECT * FROM seen INDEXED BY seen_age
                 WHERE queue = ?1 AND seen_at <= ?2 ORDER BY seen_at, id LIMIT ?3))
 WHERE total - length(digests) < ?4;

-- name: unlog_seen
DELETE FROM seen WHERE id IN carray(?1);

-- name: first_seen
SELECT coalesce(min(seen_at), 0) FROM seen INDEXED BY seen_age WHERE queue = ?1;
