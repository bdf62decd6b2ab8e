-- Runs: messages of subscriptions that nobody has looked at yet, many in one row.

-- name: keep_runs
INSERT INTO run (first, length, body, enqueued_at, expires_at, checksum)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
  FROM json_each(?1);

-- name: oldest_runs
SELECT json_group_array(json_array(first, length, body, enqueued_at, expires_at, checksum))
  FROM (SELECT *, sum(living) OVER (ORDER BY first) - living AS living_before
          FROM (SELECT *, iif(expires_at <= ?4, 0, length) AS living
                  FROM run WHERE first >= ?1 AND first < ?2 AND is_damaged = 0
                 ORDER BY first LIMIT ?3))
 WHERE living_before < ?3;

-- name: runs_around
SELECT json_group_array(json_array(
           r.first, r.length, r.body, r.enqueued_at, r.expires_at, r.checksum))
  FROM carray(?1) c CROSS JOIN run r
    ON r.first = (SELECT max(first) FROM run WHERE first <= c.value)
 WHERE c.value < r.first + r.length AND r.is_damaged = 0;

-- name: expired_runs
SELECT json_group_array(json_array(first, length, body, enqueued_at, expires_at, checksum))
  FROM (SELECT * FROM run INDEXED BY run_expiring
         WHERE expires_at <= ?1 AND is_damaged = 0 ORDER BY expires_at LIMIT ?2);

-- A body that is missing makes a row all the same: whoever reads it finds the damage.
-- name: unfold_runs
WITH RECURSIVE unfolded (id, body, rest, enqueued_at, expires_at) AS (
       SELECT first, body, length, enqueued_at, expires_at FROM run WHERE first IN carray(?1)
       UNION ALL
       SELECT id + 1, body + 1, rest - 1, enqueued_at, expires_at FROM unfolded WHERE rest > 1)
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at)
SELECT u.id, u.id >> ?2, 0, 0, u.enqueued_at, u.body,
       ifnull((SELECT octet_length(b.content) FROM body b WHERE b.id = u.body), 0), u.expires_at
  FROM unfolded u;

-- name: forget_runs
DELETE FROM run WHERE first IN carray(?1);

-- name: set_aside_runs
UPDATE run SET is_damaged = 1 WHERE first IN carray(?1);

-- name: queues_with_runs
SELECT number FROM queue
 WHERE EXISTS (SELECT 1 FROM run WHERE first >= number << ?1 AND first < (number + 1) << ?1);
