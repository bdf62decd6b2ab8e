-- Ids that duplicate detection saw: the log in the file, and the index that is looked up.

-- name: find_seen
SELECT json_group_array(c.rowid - 1)
  FROM carray(?2) c CROSS JOIN seen_index i
    ON i.queue = ?1 AND i.digest = c.value AND i.seen_at > ?3;

-- name: index_seen
-- Those seen after the instant stay as they are, and do not count as changes.
INSERT INTO seen_index (queue, digest, seen_at) SELECT ?1, value, ?3 FROM carray(?2) WHERE true
ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at WHERE seen_at <= ?4;

-- name: log_seen
INSERT INTO seen (queue, seen_at, digests) VALUES (?1, ?2, ?3);

-- name: logged_ids
SELECT queue, seen_at, digests FROM seen ORDER BY id;

-- name: oldest_seen
-- Whole rows of the log, until they hold so many bytes.
SELECT json_group_array(id), CAST(group_concat(digests, '') AS BLOB)
  FROM (SELECT id, digests, sum(length(digests)) OVER (ORDER BY seen_at, id) AS total
          FROM (SELECT * FROM seen INDEXED BY seen_age
                 WHERE queue = ?1 AND seen_at <= ?2 ORDER BY seen_at, id LIMIT ?3))
 WHERE total - length(digests) < ?4;

-- name: unindex_seen
DELETE FROM seen_index WHERE queue = ?1 AND seen_at <= ?2 AND digest IN carray(?3);

-- name: unlog_seen
DELETE FROM seen WHERE id IN carray(?1);

-- name: first_seen
SELECT coalesce(min(seen_at), 0) FROM seen INDEXED BY seen_age WHERE queue = ?1;
