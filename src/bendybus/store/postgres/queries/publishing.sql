-- Messages of a topic, given to its subscriptions. See messages.sql for what all statements keep to.

-- name: reserve_at_topic
UPDATE queue
   SET next_counter = next_counter + $2::bigint, message_bytes = message_bytes + $3::bigint
 WHERE number = $1::bigint AND message_bytes + $3::bigint <= $4::bigint
RETURNING next_counter - $2::bigint;

-- name: next_counters
SELECT coalesce(json_agg(q.next_counter ORDER BY place), '[]')
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (number, place)
 CROSS JOIN LATERAL (SELECT next_counter FROM queue WHERE number = given.number OFFSET 0) AS q;

-- name: add_to_queues
UPDATE queue
   SET next_counter = next_counter + ((SELECT $1::jsonb) ->> number::text)::bigint,
       message_count = message_count + ((SELECT $1::jsonb) ->> number::text)::bigint
 WHERE number = ANY (ARRAY(SELECT key::bigint FROM jsonb_object_keys($1::jsonb) AS added (key)));

-- name: give
WITH taker AS MATERIALIZED (
       SELECT (value ->> 0)::bigint AS queue, (value ->> 1)::bigint AS start,
              (value ->> 2)::bigint AS by_session
         FROM jsonb_array_elements($2::jsonb) AS each_taker (value)),
     given AS MATERIALIZED (
       SELECT place - 1 AS place, (value ->> 0)::bigint AS body, (value ->> 1)::bigint AS size,
              (value ->> 2)::bigint AS expires_at, value ->> 3 AS session_id,
              value ->> 4 AS partition_key, value ->> 5 AS marks
         FROM jsonb_array_elements($3::jsonb) WITH ORDINALITY AS each_message (value, place))
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT start + place, queue, 0, 0, $1::bigint, body, size, expires_at, session_id, partition_key,
       marks, by_session
  FROM taker CROSS JOIN given;

-- name: give_each
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT (value ->> 0)::bigint, (value ->> 1)::bigint, 0, 0, $1::bigint, (value ->> 3)::bigint,
       (value ->> 4)::bigint, (value ->> 5)::bigint, value ->> 6, value ->> 7, value ->> 8,
       (value ->> 2)::bigint
  FROM jsonb_array_elements($2::jsonb) AS given (value);

-- name: share_bodies
INSERT INTO shared_body (body, holders)
SELECT (value ->> 0)::bigint, (value ->> 1)::bigint
  FROM jsonb_array_elements($1::jsonb) AS given (value);

-- name: release_shared
UPDATE shared_body SET holders = holders - 1 WHERE body = ANY ($1::bigint[]);

-- name: unheld_bodies
SELECT coalesce(json_agg(m.body ORDER BY place), '[]'),
       coalesce(json_agg(m.size ORDER BY place), '[]')
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (id, place)
 CROSS JOIN LATERAL (SELECT body, size FROM message WHERE id = given.id OFFSET 0) AS m
 WHERE coalesce((SELECT s.holders FROM shared_body s WHERE s.body = m.body), 0) <= 0;

-- name: forget_shared
DELETE FROM shared_body WHERE body = ANY ($1::bigint[]);
