-- Runs: messages of subscriptions that nobody has looked at yet, many in one row.

-- name: keep_runs
INSERT INTO run (first, length, body, enqueued_at, expires_at, checksum)
SELECT (value ->> 0)::bigint, (value ->> 1)::bigint, (value ->> 2)::bigint, (value ->> 3)::bigint,
       (value ->> 4)::bigint, (value ->> 5)::bigint
  FROM jsonb_array_elements($1::jsonb) AS given (value);

-- name: oldest_runs
SELECT coalesce(json_agg(json_build_array(
           first, length, body, enqueued_at, expires_at, checksum) ORDER BY first), '[]')
  FROM (SELECT *, sum(living) OVER (ORDER BY first) - living AS living_before
          FROM (SELECT *, CASE WHEN expires_at <= $4::bigint THEN 0 ELSE length END AS living
                  FROM run
                 WHERE first >= $1::bigint AND first < $2::bigint AND is_damaged = 0
                 ORDER BY first LIMIT $3::bigint) AS oldest) AS summed
 WHERE living_before < $3::bigint;

-- name: runs_around
SELECT coalesce(json_agg(json_build_array(
           r.first, r.length, r.body, r.enqueued_at, r.expires_at, r.checksum)
           ORDER BY place), '[]')
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (id, place)
 CROSS JOIN LATERAL (SELECT * FROM run WHERE first <= given.id ORDER BY first DESC LIMIT 1) AS r
 WHERE given.id < r.first + r.length AND r.is_damaged = 0;

-- name: expired_runs
SELECT coalesce(json_agg(json_build_array(
           first, length, body, enqueued_at, expires_at, checksum) ORDER BY expires_at), '[]')
  FROM (SELECT * FROM run
         WHERE expires_at <= $1::bigint AND is_damaged = 0
         ORDER BY expires_at LIMIT $2::bigint) AS expired;

-- A body that is missing makes a row all the same: whoever reads it finds the damage.
-- name: unfold_runs
WITH lowered AS (
       UPDATE queue
          SET free_from = least(free_from, (SELECT min(first)
                                              FROM unnest($1::bigint[]) AS unfolded (first)))
        WHERE number = ANY (ARRAY(SELECT first >> $2::int
                                    FROM unnest($1::bigint[]) AS unfolded (first))))
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at)
SELECT r.first + at, r.first >> $2::int, 0, 0, r.enqueued_at, r.body + at,
       coalesce((SELECT octet_length(b.content) FROM body b WHERE b.id = r.body + at), 0),
       r.expires_at
  FROM run r CROSS JOIN LATERAL generate_series(0, r.length - 1) AS at
 WHERE r.first = ANY ($1::bigint[]);

-- name: forget_runs
DELETE FROM run WHERE first = ANY ($1::bigint[]);

-- name: set_aside_runs
UPDATE run SET is_damaged = 1 WHERE first = ANY ($1::bigint[]);

-- name: queues_with_runs
SELECT number FROM queue
 WHERE (SELECT first FROM run
         WHERE first >= number << $1::int AND first < (number + 1) << $1::int
         ORDER BY first LIMIT 1) IS NOT NULL;
