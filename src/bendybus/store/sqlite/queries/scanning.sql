-- Scans: many messages as columns, on a connection of their own.
--
-- A column of numbers comes as digits, the same count of them for each number, so that whoever
-- reads it can do so eight digits at a time: 10^15 is added to those of 16 digits and 10^7 to those
-- of 8. There is no LIMIT, because ids are unique: a range of ids has at most as many rows as ids.

-- name: scan_rows
-- Packed: the id less the first (20 bits), the state (4 bits), the size of the content (28 bits).
-- What few messages have is only counted; who finds some asks for them.
SELECT count(*),
       CAST(group_concat(1000000000000000 + (id - ?1) + (state << 20) + (size << 24), '') AS BLOB),
       CAST(group_concat(1000000000000000 + enqueued_at, '') AS BLOB),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks)
  FROM message
 WHERE id >= ?1 AND id < ?2 AND state <> 9;

-- name: scan_chosen_rows
SELECT count(*),
       CAST(group_concat(1000000000000000 + (id - ?1) + (state << 20) + (size << 24), '') AS BLOB),
       CAST(group_concat(1000000000000000 + enqueued_at, '') AS BLOB),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks)
  FROM message
 WHERE id >= ?1 AND id < ?2 AND state <> 9
   AND (?3 IS NULL OR state IN (SELECT value FROM json_each(?3)))
   AND enqueued_at >= ?4 AND enqueued_at < ?5
   AND (?6 IS NULL OR session_id IN (SELECT value FROM json_each(?6)))
   AND (?7 IS NULL OR partition_key IN (SELECT value FROM json_each(?7)));

-- name: scan_reserved_rows
-- Those of a reservation may be far from each other; their ids come in full, last.
SELECT count(*),
       CAST(group_concat(1000000000000000 + (state << 20) + (size << 24), '') AS BLOB),
       CAST(group_concat(1000000000000000 + enqueued_at, '') AS BLOB),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks),
       CAST(group_concat(1000000000000000 + (id - ?1), '') AS BLOB)
  FROM message INDEXED BY message_nonce
 WHERE nonce = ?3 AND state = 3 AND locked_until IS NULL AND id >= ?1 AND id < ?2;

-- name: chosen_ids
SELECT json_group_array(id)
  FROM message
 WHERE id >= ?1 AND id < ?2
   AND (?3 IS NULL OR state IN (SELECT value FROM json_each(?3)))
   AND enqueued_at >= ?4 AND enqueued_at < ?5
   AND (?6 IS NULL OR session_id IN (SELECT value FROM json_each(?6)))
   AND (?7 IS NULL OR partition_key IN (SELECT value FROM json_each(?7)));

-- name: scan_runs
SELECT json_group_array(json_array(first, length, body, enqueued_at, expires_at, checksum))
  FROM run WHERE first >= ?1 AND first < ?2 AND is_damaged = 0;

-- name: scan_run_sizes
SELECT CAST(group_concat(10000000 + octet_length(b.content), '') AS BLOB)
  FROM json_each(?1) r CROSS JOIN body b ON b.id >= r.value ->> 0 AND b.id < r.value ->> 1;

-- name: scan_next
SELECT (SELECT min(id) FROM message WHERE id >= ?1 AND id < ?2),
       (SELECT min(first) FROM run WHERE first >= ?1 AND first < ?2),
       (SELECT min(first) FROM pack WHERE first >= ?1 AND first < ?2);

-- name: scan_end
-- Where so many messages have been passed.
SELECT id FROM message WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1 OFFSET ?3;

-- name: scan_keys
-- A message of a run has no row yet, and no keys.
SELECT CAST(group_concat(10000001 + ifnull(octet_length(session_id), -1), '') AS BLOB),
       CAST(group_concat(session_id, '') AS BLOB),
       CAST(group_concat(10000001 + ifnull(octet_length(partition_key), -1), '') AS BLOB),
       CAST(group_concat(partition_key, '') AS BLOB)
  FROM carray(?1) c LEFT JOIN message m ON m.id = c.value;

-- name: scan_marks
SELECT CAST(group_concat(10000001 + ifnull(octet_length(marks), -1), '') AS BLOB),
       CAST(group_concat(marks, '') AS BLOB)
  FROM carray(?1) c LEFT JOIN message m ON m.id = c.value;

-- name: scan_lives
SELECT CAST(group_concat(1000000000000001 + ifnull(expires_at, -1), '') AS BLOB)
  FROM carray(?1) c CROSS JOIN message m ON m.id = c.value;

-- name: scan_delivery_counts
SELECT CAST(group_concat(1000000000000000 + delivery_count, '') AS BLOB)
  FROM carray(?1) c CROSS JOIN message m ON m.id = c.value;

-- name: scan_body_span
SELECT min(body - id), max(body - id)
  FROM carray(?1) c CROSS JOIN message m ON m.id = c.value;

-- name: scan_body_ids
SELECT json_group_array(body) FROM carray(?1) c CROSS JOIN message m ON m.id = c.value;

-- name: scan_bodies
-- Without their lengths, which the rows of messages know: to look at a blob twice costs more than
-- all the rest.
SELECT CAST(group_concat(content, '') AS BLOB) FROM body WHERE id >= ?1 AND id < ?2;

-- name: scan_bodies_of
SELECT CAST(group_concat(b.content, '') AS BLOB)
  FROM carray(?1) c CROSS JOIN body b ON b.id = c.value;

-- name: scan_fragment
SELECT fragment FROM queue WHERE number = ?1;
