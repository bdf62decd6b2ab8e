-- Messages that begin anew in another queue of the store. See messages.sql for what all keep to.

-- name: reserve_places
UPDATE queue
   SET next_counter = next_counter + $2::bigint, message_count = message_count + $2::bigint
 WHERE number = $1::bigint
RETURNING next_counter - $2::bigint;

-- name: requeue_messages
-- What the checksum is made of stays: the body's row, and the time of enqueueing.
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, expires_at, body, size,
        session_id, partition_key, marks, by_session)
SELECT $1::bigint + place - 1, $2::bigint, 0, 0, m.enqueued_at, (value ->> 1)::bigint, m.body,
       m.size, m.session_id, m.partition_key, value ->> 2, $4::bigint
  FROM jsonb_array_elements($3::jsonb) WITH ORDINALITY AS given (value, place)
 CROSS JOIN LATERAL (SELECT * FROM message WHERE id = (value ->> 0)::bigint OFFSET 0) AS m;

-- name: requeue_plain_messages
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size, session_id, partition_key,
        by_session)
SELECT $1::bigint + place - 1, $2::bigint, 0, 0, m.enqueued_at, m.body, m.size, m.session_id,
       m.partition_key, $4::bigint
  FROM unnest($3::bigint[]) WITH ORDINALITY AS given (id, place)
 CROSS JOIN LATERAL (SELECT * FROM message WHERE id = given.id OFFSET 0) AS m;

-- name: extent
SELECT message_count, message_bytes, next_counter,
       least(coalesce((SELECT min(id) FROM message WHERE id >= $2::bigint AND id < $3::bigint),
                      $3::bigint),
             coalesce((SELECT min(first) FROM run WHERE first >= $2::bigint AND first < $3::bigint),
                      $3::bigint))
  FROM queue WHERE number = $1::bigint;
