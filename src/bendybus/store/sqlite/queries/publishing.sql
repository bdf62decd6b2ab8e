-- Messages of a topic, given to its subscriptions. See messages.sql for what all statements keep to.

-- name: reserve_at_topic
UPDATE queue
   SET next_counter = next_counter + ?2, message_bytes = message_bytes + ?3
 WHERE number = ?1 AND message_bytes + ?3 <= ?4
RETURNING next_counter - ?2;

-- name: next_counters
SELECT json_group_array(q.next_counter)
  FROM carray(?1) c CROSS JOIN queue q ON q.number = c.value;

-- name: add_to_queues
UPDATE queue
   SET next_counter = next_counter + added.value, message_count = message_count + added.value
  FROM json_each(?1) added
 WHERE number = CAST(added.key AS INTEGER);

-- name: give
WITH taker AS MATERIALIZED (
       SELECT value ->> 0 AS queue, value ->> 1 AS start, value ->> 2 AS by_session
         FROM json_each(?2)),
     given AS MATERIALIZED (
       SELECT key AS place, value ->> 0 AS body, value ->> 1 AS size, value ->> 2 AS expires_at,
              value ->> 3 AS session_id, value ->> 4 AS partition_key, value ->> 5 AS marks
         FROM json_each(?3))
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT start + place, queue, 0, 0, ?1, body, size, expires_at, session_id, partition_key, marks,
       by_session
  FROM taker CROSS JOIN given;

-- name: give_each
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT value ->> 0, value ->> 1, 0, 0, ?1, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 2
  FROM json_each(?2);

-- name: share_bodies
INSERT INTO shared_body (body, holders) SELECT value ->> 0, value ->> 1 FROM json_each(?1);

-- name: release_shared
UPDATE shared_body SET holders = holders - 1 WHERE body IN carray(?1);

-- name: unheld_bodies
SELECT json_group_array(m.body), json_group_array(m.size)
  FROM carray(?1) c CROSS JOIN message m ON m.id = c.value
  LEFT JOIN shared_body s ON s.body = m.body
 WHERE ifnull(s.holders, 0) <= 0;

-- name: forget_shared
DELETE FROM shared_body WHERE body IN carray(?1);
